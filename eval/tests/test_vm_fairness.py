# SPDX-License-Identifier: GPL-2.0-only
"""Who gets how much of a vCPU, and where: nice values, SCHED_IDLE, stops by the host, affinity."""

import json

import pytest
from guest_scheduler import DEFAULT_KERNEL, LIMIT_S, SHAPE, GuestScheduler, on_kernels, tool
from host_stops import HostStops

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]
MEASURE_S = 8
WEIGHT_NICE_0, WEIGHT_NICE_5 = 1024, 335  # kernel: sched_prio_to_weight


def spin(vm, *tasks, seconds=MEASURE_S):
    """Let tasks spin together (see guest/spinners.py); returns what each of them got."""
    done = vm.run(tool("spinners.py", seconds, *tasks), seconds + LIMIT_S)
    assert done.rc == 0, done.output
    return json.loads(done.output.splitlines()[-1])


def test_nice_values_are_honoured(guest):
    def ratio():
        first, second = spin(guest, "vcpu=1,nice=0", "vcpu=1,nice=5")
        return first["turns"] / second["turns"]

    of_the_kernel = ratio()
    with GuestScheduler(guest):
        ours = ratio()
    assert ours == pytest.approx(WEIGHT_NICE_0 / WEIGHT_NICE_5, rel=0.25), (
        f"the kernel's own scheduler came to {of_the_kernel:.2f}"
    )


def test_idle_work_yields_to_normal_work_and_does_not_starve(guest):
    with GuestScheduler(guest), HostStops(guest) as stops:
        normal, idle = spin(guest, "vcpu=1", "vcpu=1,policy=idle")
    assert normal["turns"] >= 0.9 * (normal["turns"] + idle["turns"])
    stopped_s = stops.longest_s(1, idle["longest_gap_s"])
    assert idle["longest_gap_s"] - stopped_s < 2, (
        f"it waited for {idle['longest_gap_s']:.2f} s, "
        f"and the host had stopped the vCPU for {stopped_s:.2f} s of them at most"
    )


@pytest.mark.parametrize("quota_ms", ["20/40", "300/600"])
def test_stolen_time_is_not_charged_to_the_task_that_it_hit(guest, quota_ms):
    """If it were, a task hit by a long stop would then be overtaken for as long as that."""
    guest.shape(f"{SHAPE}+quota:{quota_ms}:1")
    try:
        with GuestScheduler(guest), HostStops(guest) as stops:
            tasks = spin(guest, "vcpu=1", "vcpu=1")
    finally:
        guest.shape(SHAPE)
    turns = sum(task["turns"] for task in tasks)
    assert tasks[0]["turns"] == pytest.approx(turns / 2, rel=0.1)
    turns_per_s = turns / stops.run_s(1)
    for task in tasks:
        assert task["overtaken"] / turns_per_s < 0.1, f"in s of work, while it waited; {tasks}"


def test_affinity_is_never_broken(guest):
    with GuestScheduler(guest):
        done = guest.run(tool("masks.py", MEASURE_S), MEASURE_S + LIMIT_S)
    assert done.rc == 0, done.output
    told = json.loads(done.output)
    assert told["broken"] == 0, told
    assert told["changes"] > 10 and told["checks"] > 100, told
