# SPDX-License-Identifier: GPL-2.0-only
"""The paired runner in a real VM, from the command line."""

import json
import subprocess
from pathlib import Path

import pytest
from lab import LabError
from paired import arms

COMPARE = Path(__file__).parents[1] / "compare"
# A workload that ejects the one scheduler that has this argument: SysRq-S has the kernel do so.
DOOMED = "--wait-bound-ms 999"
WORKLOAD = f"""
if pgrep -f -- "{DOOMED[:-1]}[9]" >/dev/null; then echo S >/proc/sysrq-trigger; sleep 1; fi
echo took 1
"""


@pytest.mark.vm
def test_a_comparison_in_a_vm_tells_good_runs_from_an_ejection(tmp_path):
    try:
        arms.find_binary("scx_vaware")
    except LabError as why:
        pytest.skip(str(why))
    out = tmp_path / "out.jsonl"
    done = subprocess.run(
        [COMPARE, "--vcpus", "2", "--pairs", "2", "--settle", "0", "--out", out]
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
