# SPDX-License-Identifier: GPL-2.0-only
"""Prometheus and promtool, as deploy/setup.sh test provides them, and the metrics to feed them."""

import contextlib
import json
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from vlab import tool

REPO = Path(__file__).resolve().parents[1]
LIMIT_S = 120


def find(tool: str) -> str:
    """The path of `prometheus` or `promtool`."""
    own = REPO / "target/tools/prometheus/usr/bin" / tool
    path = str(own) if own.exists() else shutil.which(tool)
    if not path:
        pytest.fail(f"there is no {tool}; run deploy/setup.sh test", pytrace=False)
    return path


def promtool(*arguments: str, stdin: str = "") -> None:
    """Run promtool, and fail with what it says unless it is content."""
    ran = subprocess.run(
        [find("promtool"), *arguments], input=stdin, capture_output=True, text=True, cwd=REPO
    )
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said


def value(page: str, series: str) -> float:
    """The value of a series that has to be on a page of metrics."""
    found = value_if_known(page, series)
    assert found is not None, f"{series} is not in {page}"
    return found


def value_if_known(page: str, series: str) -> float | None:
    """The value of a series on a page of metrics, None if it is not there (yet)."""
    found = re.search(rf"^{re.escape(series)} (\S+)$", page, re.M)
    return float(found[1]) if found else None


def fetch(url: str, accept: str = "") -> str:
    """What a server answers to GET."""
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
        return answer.read().decode()


@contextlib.contextmanager
def simulated(vcpus: int) -> Iterator[str]:
    """The address at which the metrics of a VM that does not exist are served."""
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "--quiet", "-p", "userspace"]
        + ["--example", "simulated"],
        check=True,
        cwd=REPO,
    )
    server = subprocess.Popen(
        [tool.built("release/examples/simulated"), str(vcpus), "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()


@contextlib.contextmanager
def prometheus(target: str, folder: Path) -> Iterator[str]:
    """The URL of a Prometheus server that scrapes `target` every second."""
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        f"rule_files: [{REPO}/deploy/prometheus-rules.yml]\n"
        f"scrape_configs: [{{job_name: v, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    port = free_port()
    server = subprocess.Popen(
        [find("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder}/tsdb"]
        + [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def query(url: str, expression: str) -> list[dict]:
    """What Prometheus answers to a query, waited for until there is something."""
    deadline = time.monotonic() + LIMIT_S
    encoded = urllib.parse.urlencode({"query": expression})
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            answer = json.loads(fetch(f"{url}/api/v1/query?{encoded}"))
            if answer["data"]["result"]:
                return answer["data"]["result"]
        time.sleep(0.2)
    pytest.fail(f"Prometheus had no answer to {expression} within {LIMIT_S} s")


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
