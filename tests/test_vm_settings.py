# SPDX-License-Identifier: GPL-2.0-only
"""What an operator can set: policies while it runs, and which tasks it takes."""

import json

import pytest

from guest_scheduler import DEFAULT_KERNEL, GuestScheduler, on_kernels, spin
from workloads import spinners

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]
SCHED_EXT = 7
CAN_ASK = f"""
import os
def taken():
    with open("/proc/self/sched") as lines:
        return next(line.split()[-1] for line in lines if line.startswith("ext.enabled"))
print(os.sched_getscheduler(0), taken())
os.sched_setscheduler(0, {SCHED_EXT}, os.sched_param(0))
print(os.sched_getscheduler(0), taken())
os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
print(os.sched_getscheduler(0), taken())
"""


def test_policies_change_at_run_time_and_a_mistake_changes_nothing(scheduler):
    for text, answer in [
        ('policies = ["bvs", "rescue"]', "policies on: bvs,rescue"),
        ("policies = []", "policies on: none"),
        ('policies = ["turbo"]', "configuration unchanged: "),
        ("polices = []", "configuration unchanged: "),
    ]:
        scheduler.reconfigure(text, answer)
        scheduler.expect_in_charge()
    assert "turbo" in scheduler.output and "polices" in scheduler.output


def test_partial_mode_takes_only_tasks_that_ask_for_it(guest):
    assert guest.run(f"cat >/tmp/ask.py <<'END'\n{CAN_ASK}\nEND").rc == 0
    with GuestScheduler(guest, "--partial"):
        assert guest.run("python3 -S /tmp/ask.py").output == "0 0\n7 1\n0 0\n"
        spun = guest.run(spinners.command(2, "vcpu=1", "policy=ext"))
        assert spun.rc == 0, spun.output
        assert all(task["turns"] for task in json.loads(spun.output.splitlines()[-1]))


def test_a_task_in_partial_mode_leaves_a_vcpu_that_the_kernels_scheduler_takes(guest):
    """Other vCPUs are idle. It may wait for a second at first, as the wait bound allows."""
    with GuestScheduler(guest, "--partial"):
        asked, other = spin(guest, "vcpu=1,free,policy=ext", "vcpu=1", seconds=3)
    assert asked["turns"] > 0.5 * other["turns"], (asked, other)
