# SPDX-License-Identifier: GPL-2.0-only
"""What schedulers cost by the number of vCPUs: the table, the numbers, and a run in a VM."""

import json
import subprocess
from pathlib import Path

import pytest

from compare import arms, cli, options, scale
from compare.bpfcost import Cost
from vlab import LabError

COMPARE = Path(__file__).parents[1] / "compare"


def size(vcpus, **costs):
    return scale.Size(
        "scx_vaware",
        "7.2",
        vcpus,
        9.5,
        1.25,
        3_456_000_000,
        84_314,
        1 << 19,
        3 << 20,
        8 << 20,
        12,
        costs,
    )


def test_the_table_has_a_row_for_each_size_and_for_each_workload():
    pipe = {"running": Cost(10, 4000), "dispatch": Cost(20, 16_000), "exit_task": Cost(1, 7)}
    text = scale.table([size(4, pipe=pipe), size(256, pipe=pipe)])
    assert "| scx_vaware | 4 | 1.25 | 3456 | 84314 | 3.00 | 0.50 | 8.0 | 0.0 |" in text
    assert "| scx_vaware | 256 | pipe |  |  | 800 | 400 |  |  |  | 2001 |" in text


def test_the_page_says_what_was_measured_when():
    found = [size(4), size(64)]
    text = scale.page(found, {"repository": "abc", "scx_vaware": "scx_vaware 0.1.0"}, "2026-11-26")
    assert "- 2026-11-26, kernel 7.2, repository abc, scx_vaware 0.1.0\n" in text
    assert text.endswith(scale.table(found) + "\n")


def test_the_numbers_are_kept_with_the_calls():
    (found,) = json.loads(scale.as_json([size(4, pipe={"running": Cost(10, 4000)})]))
    assert found["vcpus"] == 4
    assert found["costs"] == {"pipe": {"running": {"calls": 10, "instructions": 4000}}}


def test_the_resident_memory_is_read_in_bytes():
    assert scale.resident_bytes("Name:\tx\nVmRSS:\t    8 kB\n") == 8192
    assert scale.resident_bytes("Name:\tkthread\n") == 0


def test_sizes_are_numbers_of_vcpus():
    assert options.sizes("4,16,256") == [4, 16, 256]
    with pytest.raises(Exception, match="no list of numbers"):
        options.sizes("4,,16")


@pytest.mark.parametrize("argv", [["--arms", "eevdf"], ["--workload", "none"]])
def test_what_cannot_be_measured_is_refused_before_a_boot(argv, monkeypatch, capsys):
    monkeypatch.setattr(arms, "find_binary", lambda name: f"/bin/{name}")
    assert cli.main(["scale", *argv]) == 64
    assert "compare: " in capsys.readouterr().err


@pytest.mark.vm
@pytest.mark.long
def test_a_size_is_measured_in_a_vm(tmp_path):
    try:
        arms.find_binary("scx_vaware")
    except LabError as why:
        pytest.skip(str(why))
    out = tmp_path / "scale.json"
    done = subprocess.run(
        [COMPARE, "scale", "--vcpus", "2", "--workload", "pipe", "--json", out],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(out.read_text())
    assert found["vcpus"] == 2
    assert found["verified"] > 0
    assert found["map_bytes"] > 0
    assert found["costs"]["pipe"]["running"]["calls"] > 100


def test_bpfcost_has_a_pcpu_for_each_vcpu_unless_a_shape_is_asked_for(monkeypatch):
    def refuse(compared, shape, kernel, vcpus, *_):
        raise LabError(f"{shape} with {vcpus}", 64)

    monkeypatch.setattr(arms, "find_binary", lambda name: f"/bin/{name}")
    monkeypatch.setattr(cli, "LabStage", refuse)
    with pytest.raises(LabError, match="pin:0/1/2/3 with 4"):
        cli._bpfcost(["--arms", "scx_vaware"])
    with pytest.raises(LabError, match="rcvm with None"):
        cli._bpfcost(["--arms", "scx_vaware", "--shape", "rcvm"])
