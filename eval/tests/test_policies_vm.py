# SPDX-License-Identifier: GPL-2.0-only
"""What the policies do, each against its own switch, by the waits of the workload."""

import json

import pytest
from guest_scheduler import DEFAULT_KERNEL, LIMIT_S, GuestScheduler, on_kernels, tool

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]
# vCPUs 2 and 3 are stopped for 80 ms of every 160; 0 and 1 share the other core.
STOPS = "packed:2+duty:80/80@1"
ROUNDS = 40
LONG_MS = 25  # far above what it takes to wake another vCPU, far below a stop
BASE = "preempt,sync"  # balance would help a stuck queue as well, later


def share_of_long_waits(vm, policies):
    """The part of the wake-ups that wait for longer than LONG_MS, and what the scheduler said."""
    with GuestScheduler(vm, "--policies", policies) as scheduler:
        done = vm.run(tool("late_wakeups.py", ROUNDS), LIMIT_S)
        assert done.rc == 0, done.output
    waits_ms = json.loads(done.output.splitlines()[-1])
    assert len(waits_ms) == ROUNDS
    return sum(wait > LONG_MS for wait in waits_ms) / ROUNDS, scheduler.output


def test_rescue_frees_wake_ups_from_a_stopped_vcpu(guest):
    guest.shape(STOPS)
    without, _ = share_of_long_waits(guest, BASE)
    assert without > 0.15, "the host's stops did not hold up the wake-ups; the test says nothing"
    rescued, said = share_of_long_waits(guest, f"{BASE},rescue")
    assert rescued < without / 2, f"{without:.0%} waited long without rescue, {rescued:.0%} with it"
    assert "rescue_won_hedge" in said, said
