# SPDX-License-Identifier: GPL-2.0-only
"""Outputs that cannot be written never end the scheduler, in a VM."""

import pytest

from guest_scheduler import (
    BINARY,
    DEFAULT_KERNEL,
    LIMIT_S,
    METRICS,
    is_well,
    on_kernels,
    sched_ext,
    wait_until,
)
from prometheus_tools import value

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]
SMALL = "/tmp/small"  # a disk with room for a few lines
SPIN = "for v in 0 1 2 3; do timeout {} taskset -c $v sh -c 'while :; do :; done' & done; wait"


def lost(vm, output: str) -> float:
    """Lines that the daemon says it could not write."""
    page = vm.run(METRICS, LIMIT_S).output
    return value(page, f'scx_vaware_output_lines_lost_total{{output="{output}"}}')


def is_enabled(vm) -> bool:
    return sched_ext(vm).state == "enabled"


def test_full_disks_are_told_of_once_and_end_nothing(guest):
    mounted = guest.run(f"mkdir -p {SMALL}; mount -t tmpfs -o size=8k none {SMALL}", LIMIT_S)
    assert mounted.rc == 0, mounted.output
    daemon = guest.spawn(f"exec {BINARY} --stats 0.2 --activity-log {SMALL}/log >/dev/full")
    wait_until(guest, lambda: is_enabled(guest) or daemon.rc is not None, "the start")
    guest.run(SPIN.format(2), LIMIT_S)  # stops of the vCPUs fill the log
    wait_until(guest, lambda: lost(guest, "stdout") > 5, "lost lines of stdout")
    wait_until(guest, lambda: lost(guest, "activity_log") > 5, "lost lines of the log")
    for name in ("stdout", "activity_log"):
        assert daemon.output.count(f"cannot write to {name}: No space left") == 1, daemon.output
    guest.run(f"mount -o remount,size=64m {SMALL}; " + SPIN.format(2), LIMIT_S)
    wait_until(guest, lambda: "can write to activity_log again" in daemon.output, "the log")
    assert is_enabled(guest)
    daemon.kill(2)
    assert daemon.wait(LIMIT_S).rc == 0, daemon.output
    assert guest.run(f"tail -n 1 {SMALL}/log | grep -q start_ns").rc == 0
    guest.run(f"umount {SMALL}")


def test_it_goes_on_when_nobody_reads_its_output(guest):
    one_line = guest.spawn(f"{BINARY} --stats 0.1 | head -n 1")
    wait_until(guest, lambda: is_enabled(guest) or one_line.rc is not None, "the start")
    wait_until(guest, lambda: lost(guest, "stdout") > 5, "lost lines")
    assert is_enabled(guest)
    assert is_well(guest)
    assert guest.run("pkill -INT -x scx_vaware", LIMIT_S).rc == 0
    wait_until(guest, lambda: sched_ext(guest).state == "disabled", "the end")
