# SPDX-License-Identifier: GPL-2.0-only
"""The field bundle: what could tell whose machine it is, is not in it."""

import argparse
import getpass
import gzip
import json
import os
import socket

import pytest

from compare import bundle, private, records
from compare.stage import Stage
from vlab import LabError
from workloads import Size, Workload

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


def read(out) -> str:
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
    text = read(out)
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
    found = json.loads(read(out))
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
    found = json.loads(read(out))
    assert "cannot be set up" in found["comparison"]["failure"]
    assert found["doctor"] == {"said": "doctor"}


def test_a_place_that_cannot_be_written_is_told(tmp_path, capsys):
    assert bundle.main(["--no-comparison", "--out", str(tmp_path / "no" / "file")]) == 69
    assert "give another --out" in capsys.readouterr().err
