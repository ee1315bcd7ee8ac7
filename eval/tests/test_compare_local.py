# SPDX-License-Identifier: GPL-2.0-only
"""This machine as the place of a comparison, as far as no scheduler is loaded."""

import signal
import time

import pytest

from compare import local
from compare.runner import RUN_MARK, SWEEP
from vlab import CommandTimeout, LabError

STAT = """\
cpu  30 0 30 1000 0 0 0 7 0 0
cpu0 10 1 20 500 9 2 3 4 0 0
cpu1 20 0 10 500 0 0 0 3 0 0
intr 1 2 3
"""


def test_busy_and_stolen_time_per_cpu():
    first, second = local.parse_stat(STAT)
    assert (first.vcpu, second.vcpu) == (0, 1)
    assert first.run_ns == 36 * local.TICK_NS
    assert (first.delay_ns, second.delay_ns) == (4 * local.TICK_NS, 3 * local.TICK_NS)


def test_a_command_ends_with_its_code_and_output():
    result = local.ThisMachine().run("echo out; echo err >&2; exit 3", 30)
    assert (result.rc, result.output) == (3, "out\nerr\n")
    assert local.ThisMachine().run("kill -9 $$", 30).rc == 128 + signal.SIGKILL


def test_a_command_that_hangs_is_killed_with_its_children():
    machine = local.ThisMachine()
    with pytest.raises(CommandTimeout) as hung:
        machine.run("sleep 1234567 & echo $!; wait", 0.3)
    child = hung.value.output.strip()
    assert child.isdecimal()
    deadline = time.monotonic() + 20
    while machine.run(f"test -d /proc/{child} && ! grep -q Z /proc/{child}/status", 30).rc == 0:
        assert time.monotonic() < deadline, "the child of the command is still there"


def test_what_left_its_process_group_is_swept_away():
    machine = local.ThisMachine()
    left = machine.run(f"export {RUN_MARK}=1; setsid sleep 1234567 >/dev/null 2>&1 & echo $!", 30)
    child = int(left.output)
    assert machine.run(f"test -d /proc/{child}", 30).rc == 0
    machine.run(SWEEP, 30)
    deadline = time.monotonic() + 20
    while machine.run(f"test -d /proc/{child} && ! grep -q Z /proc/{child}/status", 30).rc == 0:
        assert time.monotonic() < deadline, "it was not swept away"


def sched_ext(folder, state: str, ops: str = "") -> None:
    (folder / "state").write_text(f"{state}\n")
    if ops:
        (folder / "root").mkdir()
        (folder / "root" / "ops").write_text(f"{ops}\n")


def test_no_sched_ext_no_root_and_another_scheduler_are_told_apart(tmp_path, monkeypatch):
    with pytest.raises(LabError, match="--lab") as absent:
        local.require(tmp_path / "none")
    assert absent.value.exit_code == 69
    sched_ext(tmp_path, "enabled", "bpfland_1.1.4")
    monkeypatch.setattr(local.os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match="sudo") as no_root:
        local.require(tmp_path)
    assert no_root.value.exit_code == 77
    monkeypatch.setattr(local.os, "geteuid", lambda: 0)
    with pytest.raises(LabError, match="bpfland_1.1.4 is loaded") as taken:
        local.require(tmp_path)
    assert taken.value.exit_code == 75
    (tmp_path / "state").write_text("disabled\n")
    local.require(tmp_path)
