# SPDX-License-Identifier: GPL-2.0-only
"""What the scheduler makes of a wake-up depends on who wakes, which each kernel tells otherwise."""

import re

import pytest
from guest_scheduler import ALL_KERNELS, LIMIT_S, GuestScheduler, on_kernels, tool

pytestmark = [pytest.mark.vm, on_kernels(*ALL_KERNELS)]
ROUNDS = 300


def left_to_wait(vm, woken_by):
    """How many wake-ups beside a computation counted as part of it."""
    with GuestScheduler(vm) as scheduler:
        done = vm.run(tool("wakes_beside_work.py", woken_by, ROUNDS), LIMIT_S)
        assert done.rc == 0, done.output
    found = re.search(r"preempt_left +(\d+)", scheduler.output)
    return int(found[1]) if found else 0


def test_what_a_computation_wakes_is_part_of_it(guest):
    assert left_to_wait(guest, "work") > ROUNDS / 2


def test_what_a_timer_wakes_is_not(guest):
    assert left_to_wait(guest, "timer") < ROUNDS / 10
