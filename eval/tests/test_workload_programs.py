# SPDX-License-Identifier: GPL-2.0-only
"""The load generators in C, on this machine: they count all, end in time, and refuse nonsense."""

import getpass
import json
import os
import subprocess
from pathlib import Path

import pytest

from vlab import LabError
from workloads import messages, parallel, postgresql, programs, requests, sync


def run(name: str, *arguments: object) -> subprocess.CompletedProcess:
    programs.build(name)
    command = [programs.path(name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_each_request_is_counted_once_from_when_it_should_have_begun():
    """Many more than one worker can serve: the queue grows, and latencies must show it."""
    done = run("requests", 1000, 4000, 1, 0.5)
    told = json.loads(done.stdout)
    counts = requests.latencies(done.stdout)
    assert sum(counts.values()) == told["requests"] > 300
    assert min(counts) >= 1000, "none is served in less than its service takes"
    assert max(counts) >= 300_000, "the last ones have waited for all before them"


def test_the_same_arrivals_each_time():
    told = [json.loads(run("requests", 500, 10, 2, 0.2).stdout)["requests"] for _ in range(2)]
    assert told[0] == told[1]


@pytest.mark.parametrize("what", ["mutex", "barrier"])
@pytest.mark.parametrize("how", ["block", "adaptive", "spin"])
def test_threads_that_synchronise_make_progress_and_end(what, how):
    done = run("sync", what, how, 2, 0.2)
    assert done.returncode == 0, done.stderr
    assert sync.parse(done.stdout)["rate"] > 0


@pytest.mark.parametrize("schedule", ["static", "dynamic"])
def test_parallel_loops_make_progress_and_end(schedule):
    done = run("parallel", schedule, 2, 0.2)
    assert done.returncode == 0, done.stderr
    assert parallel.parse(done.stdout)["rate"] > 0


@pytest.mark.parametrize("stages, threads", [(1, 1), (4, 2)])
def test_a_pipeline_makes_progress_and_ends(stages, threads):
    done = run("stages", stages, threads, 20, 0.2)
    assert done.returncode == 0, done.stderr
    assert sync.parse(done.stdout)["rate"] > 0


@pytest.mark.parametrize("message_threads, workers", [(1, 1), (2, 3)])
def test_each_worker_that_was_woken_is_counted_once(message_threads, workers):
    done = run("messages", message_threads, workers, 100, 0.2)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert sum(requests.latencies(done.stdout).values()) == told["requests"] > 0
    assert messages.operations(done.stdout) == told["requests"]


@pytest.mark.parametrize(
    "build, packages", [("build_go", "golang-go"), ("build_java", "default-jdk-headless")]
)
def test_a_compiler_that_is_not_there_is_named_with_its_package(
    build, packages, monkeypatch, tmp_path
):
    monkeypatch.setattr(programs, "folder", lambda: tmp_path / "eval")
    monkeypatch.setenv("PATH", str(tmp_path))
    name = {"build_go": "channels", "build_java": "ForkJoin"}[build]
    with pytest.raises(LabError, match=f"install {packages}"):
        getattr(programs, build)(name)


def test_a_program_that_cannot_be_built_leaves_nothing(monkeypatch, tmp_path):
    (tmp_path / "go").write_text("#!/bin/sh\necho no such package >&2\nexit 1\n")
    (tmp_path / "go").chmod(0o755)
    monkeypatch.setattr(programs, "folder", lambda: tmp_path / "eval")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(LabError, match="no such package.*install golang-go"):
        programs.build_go("channels")
    assert not list((tmp_path / "eval").iterdir())


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("requests", [1]),
        ("sync", ["mutex", "sleep", 2, 1]),
        ("parallel", ["guided", 2, 1]),
        ("stages", [4]),
        ("messages", [1]),
        ("messages", [0, 1, 1, 1]),
    ],
)
def test_a_wrong_command_line_is_told(name, arguments):
    done = run(name, *arguments)
    assert done.returncode == 64
    assert done.stderr.startswith(f"usage: {name}")


def test_a_database_that_cannot_be_made_leaves_no_server(tmp_path, monkeypatch):
    pid_file = tmp_path / "pid"
    # As the real one it ends on SIGINT, which the shell lets its background jobs ignore.
    server = (
        "#!/usr/bin/python3\nimport os, signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        f"open('{pid_file}', 'w').write(str(os.getpid()))\nsignal.alarm(300)\nsignal.pause()\n"
    )
    scripts = {
        "initdb": "#!/bin/sh\n",
        "postgres": server,
        "pg_isready": f"#!/bin/sh\ntest -s {pid_file}\n",
        "pgbench": "#!/bin/sh\nexit 3\n",
    }
    for name, script in scripts.items():
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(postgresql, "binary", lambda name: str(tmp_path / name))
    monkeypatch.setattr(postgresql, "archive", lambda: tmp_path / "made.tar")
    monkeypatch.setattr(postgresql, "USER", getpass.getuser())
    monkeypatch.setattr(postgresql, "_as_user", lambda command: command)
    with pytest.raises(LabError, match="setup.sh eval"):
        postgresql.prepare()
    pid = int(pid_file.read_text())
    try:
        assert not Path(f"/proc/{pid}").exists()
    finally:
        if Path(f"/proc/{pid}").exists():
            os.kill(pid, 9)
