# SPDX-License-Identifier: GPL-2.0-only
"""Comparisons in a real VM, from the command line: of lab VMs, and of the machine itself."""

import gzip
import json
import subprocess
from pathlib import Path
from signal import SIGKILL

import pytest

from compare import arms
from guest_scheduler import BINARY, DEFAULT_KERNEL, LIMIT_S, on_kernels
from vlab import LabError
from workloads import programs

EVAL = Path(__file__).parents[1]
COMPARE = EVAL / "compare"
# A workload that ejects the one scheduler that has this argument: SysRq-S has the kernel do so.
DOOMED = "--wait-bound-ms 999"
WORKLOAD = f"""
if pgrep -f -- "{DOOMED[:-1]}[9]" >/dev/null; then echo S >/proc/sysrq-trigger; sleep 1; fi
echo took 1
"""


@pytest.mark.vm
@pytest.mark.long
def test_a_comparison_in_a_vm_tells_good_runs_from_an_ejection(tmp_path):
    try:
        arms.find_binary("scx_vaware")
    except LabError as why:
        pytest.skip(str(why))
    out = tmp_path / "out.jsonl"
    done = subprocess.run(
        [COMPARE, "--vcpus", "2", "--blocks", "2", "--settle", "0", "--out", out]
        + ["--arms", f"eevdf,scx_vaware,doomed=scx_vaware:{DOOMED}"]
        + ["--workload", WORKLOAD, "--metric", "took (.*)", "--better", "lower"],
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 1, done.stderr
    runs = [json.loads(line) for line in out.read_text().splitlines()]
    names = ["doomed", "eevdf", "eevdf'", "scx_vaware"]
    assert sorted(run["arm"] for run in runs) == sorted(names * 2)
    assert all(run["ok"] == (run["arm"] != "doomed") for run in runs), done.stderr
    assert all(len(run["run_delay_ns"]) == 2 for run in runs if run["ok"])
    assert "was ejected" in done.stderr
    assert "failed 2x" in done.stdout


@pytest.mark.vm
@on_kernels(DEFAULT_KERNEL)
def test_a_comparison_on_the_machine_itself(guest):
    programs.build("sync")  # the guest sees the host's files, and cannot write there
    done = guest.run(
        f"cd /tmp && {COMPARE} --arms eevdf,ours={BINARY} --blocks 2 --settle 0 --no-warm-up "
        "--workload 'sleep 0.1' --workload mutex-block --seconds 0.3 --out here.jsonl "
        "--html here.html; code=$?; cat here.jsonl; head -c 15 here.html; exit $code",
        LIMIT_S,
    )
    assert done.rc == 0, done.output
    runs = [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]
    assert len(runs) == 3 * 2 * 2
    assert all(run["ok"] and run["place"] == "local" for run in runs), done.output
    sleeps = [r["metrics"]["time"]["value"] for r in runs if r["workload"] == "sleep 0.1"]
    assert len(sleeps) == 6 and min(sleeps) >= 0.1
    assert all(len(run["run_delay_ns"]) == guest.vcpus for run in runs)
    assert done.output.endswith("<!doctype html>")
    assert guest.run("cat /sys/kernel/sched_ext/state", LIMIT_S).output.strip() == "disabled"


@pytest.mark.vm
@on_kernels(DEFAULT_KERNEL)
def test_beside_another_scheduler_it_refuses_and_leaves_that_alone(scheduler):
    done = scheduler.vm.run(f"cd /tmp && {COMPARE} --workload true", LIMIT_S)
    assert done.rc == 75, done.output
    assert "is loaded" in done.output and "stop it first" in done.output


@pytest.mark.vm
@on_kernels(DEFAULT_KERNEL)
def test_a_killed_comparison_leaves_no_scheduler_behind(guest):
    comparison = guest.spawn(
        f"cd /tmp && exec {COMPARE} --arms ours={BINARY},eevdf --blocks 2 --settle 0 --no-warm-up "
        "--workload 'sleep 60' --out killed.jsonl"
    )
    state = "cat /sys/kernel/sched_ext/state"
    guest.run(f"until [ $({state}) = enabled ]; do sleep 0.1; done", LIMIT_S)
    comparison.kill(SIGKILL)
    comparison.wait(LIMIT_S)
    done = guest.run(f"until [ $({state}) = disabled ]; do sleep 0.1; done", LIMIT_S)
    assert done.rc == 0


@pytest.mark.vm
@pytest.mark.long
@on_kernels(DEFAULT_KERNEL)
def test_a_bundle_has_what_is_asked_and_names_nobody(guest, tmp_path):
    programs.build("sync")
    done = guest.run(
        "hostname quite-secret-host && cd /tmp && SUDO_USER=mallory "
        f"{EVAL}/bundle --workloads mutex-block --blocks 2 --seconds 0.5 --out bundle.json.gz",
        2 * LIMIT_S,
    )
    assert done.rc == 0, done.output
    guest.get("/tmp/bundle.json.gz", tmp_path / "bundle.json.gz")
    text = gzip.decompress((tmp_path / "bundle.json.gz").read_bytes()).decode()
    found = json.loads(text)
    assert found["facts"]["kernel"] == guest.kernel.release
    assert {run["arm"] for run in found["comparison"]["runs"]} >= {"eevdf", "scx_vaware", "off"}
    assert all(run["ok"] for run in found["comparison"]["runs"]), done.output
    for secret in ("quite-secret-host", "mallory", str(EVAL), "127.0.0.1", "--policies"):
        assert secret not in text, secret
