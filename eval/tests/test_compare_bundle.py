# SPDX-License-Identifier: GPL-2.0-only
"""The field bundle: what could tell whose machine it is, is not in it."""

import argparse
import copy
import getpass
import gzip
import json
import os
import socket
from pathlib import Path

import pytest

from compare import bundle, bundle_check, bundle_page, private, records
from compare.stage import Stage
from vlab import LabError
from workloads import Size, Workload

RESULTS = Path(__file__).resolve().parents[2] / "docs/results"
EXAMPLES = sorted((RESULTS / "bundles/examples").glob("*.json"))
NAMES = {"db7.prod.example.org", "db7", "Alice"}


@pytest.mark.parametrize(
    "text",
    [
        "host db7 is fine",
        "DB7.prod.example.org said",
        "run by alice",
        "listening on 10.11.12.13:9090",
        "fe80::1ff:fe23:4567:890a",
        "2001:db8:0:1:1:1:1:1",
        "link 52:54:00:12:34:56",
        "/home/alice/work/run.sh --secret",
        "quota in /sys/fs/cgroup/system.slice/customer.service",
        "ask ops@example.org",
        "weights of cgroups: those of /customer.slice",
        "machine 0123456789abcdef0123456789abcdef",
    ],
)
def test_private_words_go(text):
    left = private.scrub({"said": [text]}, NAMES)["said"][0]
    assert private.REMOVED in left
    for secret in ("db7", "alice", "10.11", "fe80", "2001", "52:54", "customer", "ops@", "abcdef"):
        assert secret not in left.lower()


@pytest.mark.parametrize(
    "text",
    [
        "7.2.13+deb14-cloud-amd64",
        "scx_vaware 0.1.0",
        "Intel(R) Xeon(R) CPU E5-2670 v3 @ 2.30GHz",
        "time 10:20:30",
        "/sys/kernel/sched_ext/state",
        "3 events/s, 1 of 4 vCPUs and/or 2",
        "0.980 (0.951-1.012)",
        "2026-11-21T05:00+00:00",
    ],
)
def test_what_is_needed_stays(text):
    assert private.scrub(text, NAMES) == text


def test_values_of_private_keys_go_whatever_they_are():
    clean = private.scrub({"command": "x", "arm": "y", "a": {"Hostname": ["z"]}}, set())
    assert clean == {"command": private.REMOVED, "arm": "y", "a": {"Hostname": private.REMOVED}}


def unpacked(out) -> str:
    return gzip.decompress(out.read_bytes()).decode()


def test_a_bundle_without_a_comparison_is_written_and_names_nobody(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(socket, "gethostname", lambda: "quite-secret-host")
    monkeypatch.setenv("SUDO_USER", "mallory")
    monkeypatch.setattr(
        bundle,
        "ask",
        lambda name: {
            "said": f"{name} on quite-secret-host for mallory at 10.9.8.7, cwd {os.getcwd()}"
        },
    )
    out = tmp_path / "bundle.json.gz"
    options = argparse.Namespace(no_comparison=True, provider=None, instance="m1.test")
    assert bundle.write(out, options) == 0
    text = unpacked(out)
    assert {"facts", "doctor", "probe"} <= json.loads(text).keys()
    for secret in ("quite-secret-host", "mallory", "10.9.8.7", os.getcwd()):
        assert secret not in text
    if getpass.getuser() != "root":
        assert getpass.getuser() not in text
    assert "zcat" in capsys.readouterr().err


def test_no_comparison_is_said_and_the_rest_is_kept(tmp_path, monkeypatch, capsys):
    def refuse(compared):
        raise LabError("this kernel has no sched_ext; use another", 69)

    monkeypatch.setattr(bundle, "LocalStage", refuse)
    monkeypatch.setattr(bundle.arms, "find_binary", lambda name: "/bin/false")
    out = tmp_path / "bundle.json.gz"
    assert bundle.main(["--out", str(out)]) == 0
    found = json.loads(unpacked(out))
    assert "no sched_ext" in found["comparison"]["failure"]
    assert found["doctor"]["exit_code"] == 1
    assert found["facts"]["kernel"]
    assert "no comparison" in capsys.readouterr().err


def test_a_comparison_that_ends_early_is_said_and_the_rest_is_kept(tmp_path, monkeypatch):
    class Broken(Stage):
        facts = dict.fromkeys(records.CONDITIONS, "?") | {"versions": {}}

        def __init__(self, compared):
            pass

        def size(self, seconds):
            return Size("kvm", seconds=seconds)

        def ready(self, arm, seed):
            raise LabError("a workload cannot be set up; make room")

    monkeypatch.setattr(bundle, "LocalStage", Broken)
    monkeypatch.setattr(bundle, "ask", lambda name: {"said": name})
    monkeypatch.setattr(bundle.arms, "find_binary", lambda name: "/bin/false")
    monkeypatch.setattr(Workload, "missing", lambda workload: [])
    out = tmp_path / "bundle.json.gz"
    assert bundle.main(["--out", str(out), "--workloads", "hackbench"]) == 0
    found = json.loads(unpacked(out))
    assert "cannot be set up" in found["comparison"]["failure"]
    assert found["doctor"] == {"said": "doctor"}


def test_a_place_that_cannot_be_written_is_told(tmp_path, capsys):
    assert bundle.main(["--no-comparison", "--out", str(tmp_path / "no" / "file")]) == 69
    assert "give another --out" in capsys.readouterr().err


def test_what_is_written_is_a_bundle(tmp_path, monkeypatch):
    answer = json.loads(EXAMPLES[0].read_text())
    monkeypatch.setattr(bundle, "ask", lambda name: answer[name])
    out = tmp_path / "bundle.json.gz"
    named = ["--provider", "aws", "--instance", "m7i.large"]
    assert bundle.main(["--no-comparison", *named, "--out", str(out)]) == 0
    written = bundle_check.read(out)
    assert bundle_check.problems(written) == []
    assert written["facts"]["instance"] == "m7i.large"
    assert bundle.main(["--check", str(out)]) == 0


@pytest.mark.parametrize("name", ["", "a/b", "x" * 65, "<b>", "a|b"])
def test_a_name_of_an_instance_is_a_name(name):
    with pytest.raises(SystemExit):
        bundle.main(["--no-comparison", "--instance", name])


def test_the_page_is_what_the_bundles_give():
    assert (RESULTS / "instances.md").read_text() == bundle_page.render(RESULTS / "bundles")
    assert len(EXAMPLES) == 2


@pytest.fixture
def example() -> dict:
    """A bundle with preempted periods and a stack."""
    return json.loads((RESULTS / "bundles/examples/rcvm.json").read_text())


def broken(example: dict, path: str, value: object) -> dict:
    """A copy in which the value at `path` (keys and numbers, by dots) is another."""
    copied = copy.deepcopy(example)
    *way, last = (int(key) if key.isdigit() else key for key in path.split("."))
    inner = copied
    for key in way:
        inner = inner[key]
    inner[last] = value
    return copied


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("format", 2, "$.format"),
        ("date", "yesterday", "$.date"),
        ("mine", 1, "'mine' was unexpected"),
        ("facts.kernel", "", "$.facts.kernel"),
        ("facts.machine.cores", 0, "cores"),
        ("facts.instance", "<script>", "instance"),
        ("probe.said.vcpus", [], "$.probe"),
        ("probe.said.vcpus.0.share_ratio.value", 3, "above 1"),
        ("probe.said.vcpus.1.id", 0, "do not ascend"),
        ("probe.said.topology.stacks", [{"members": [0, 99], "confidence": 1}], "no vCPU 99"),
        ("facts.product", "rack of 10.1.2.3", "whose machine"),
        ("doctor.said.verdict", "see /home/alice/x", "whose machine"),
    ],
)
def test_what_is_wrong_is_named(example, path, value, words):
    found = bundle_check.problems(broken(example, path, value))
    assert any(words in problem for problem in found), found
    assert all(len(problem) < 500 for problem in found)


@pytest.mark.parametrize("bundle_of", [None, [], 7, {}, {"format": 1}])
def test_what_is_none_is_answered(bundle_of):
    assert bundle_check.problems(bundle_of)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[" * 100_000, b"\x1f\x8b broken", b'{"a": NaN}', b"\xff"]
)
def test_a_file_that_is_none_is_refused(tmp_path, content, capsys):
    for name in ("x.json", "x.json.gz"):
        path = tmp_path / name
        path.write_bytes(content)
        assert bundle.main(["--check", str(path)]) == 64
        assert "give what eval/bundle wrote" in capsys.readouterr().err


def test_a_file_without_end_is_refused(tmp_path, capsys):
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb") as file:
        file.write(b" " * (bundle_check.BYTES_MAX + 1))
    assert bundle.main(["--check", str(path)]) == 64
    assert "MiB" in capsys.readouterr().err


def test_a_page_has_a_line_for_each_bundle_and_no_markup_of_theirs(example, tmp_path):
    example["facts"] |= {"instance": "b1.large", "provider": "cloud"}
    example["facts"]["machine"]["cpu"] = "[Xeon](evil) | `x`"
    (tmp_path / "one.json").write_text(json.dumps(example))
    (line,) = (x for x in bundle_page.render(tmp_path).splitlines() if "b1.large" in x)
    assert line.startswith("| cloud b1.large | \\[Xeon\\](evil)   \\`x\\` | kvm |")
    assert "1 stack of 2" in line and line.count(" | ") == len(bundle_page.HEADER) - 1
    example["format"] = 2
    (tmp_path / "two.json").write_text(json.dumps(example))
    with pytest.raises(LabError, match=r"two\.json: \$\.format"):
        bundle_page.render(tmp_path)
