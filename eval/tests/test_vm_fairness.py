# SPDX-License-Identifier: GPL-2.0-only
"""Who gets how much of a vCPU, and where: nice values, SCHED_IDLE, stops by the host, affinity."""

import json

import pytest
from guest_scheduler import DEFAULT_KERNEL, LIMIT_S, SHAPE, GuestScheduler, on_kernels, tool
from host_stops import HostStops

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]
MEASURE_S = 8
LONG_STOP_S = 0.3
WEIGHT_NICE_0, WEIGHT_NICE_5 = 1024, 335  # kernel: sched_prio_to_weight


def spin(vm, *tasks, seconds=MEASURE_S):
    """Let tasks spin together (see guest/spinners.py); returns what each of them got."""
    done = vm.run(tool("spinners.py", seconds, *tasks), seconds + LIMIT_S)
    assert done.rc == 0, done.output
    return json.loads(done.output.splitlines()[-1])


def stopped_half_of_the_time(stop_s):
    """The shape in which the host stops vCPU 1 for `stop_s` at a time."""
    stop_ms = round(stop_s * 1000)
    return f"{SHAPE}+quota:{stop_ms}/{2 * stop_ms}:1"


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


@pytest.mark.parametrize("stop_s", [0.02, LONG_STOP_S])
def test_equal_tasks_share_a_vcpu_that_is_stopped_half_of_the_time(guest, stop_s):
    guest.shape(stopped_half_of_the_time(stop_s))
    with GuestScheduler(guest):
        tasks = spin(guest, "vcpu=1", "vcpu=1")
    turns = sum(task["turns"] for task in tasks)
    assert tasks[0]["turns"] == pytest.approx(turns / 2, rel=0.1)


def test_a_task_keeps_its_place_when_the_host_stops_its_vcpu(guest):
    """If the stop were charged to it, the other task would next run for as long as that."""
    guest.shape(stopped_half_of_the_time(LONG_STOP_S))
    with GuestScheduler(guest), HostStops(guest) as stops:
        tasks = spin(guest, "vcpu=1", "vcpu=1")
    turns_per_s = sum(task["turns"] for task in tasks) / stops.run_s(1)
    overtaken_s = max(task["overtaken"] for task in tasks) / turns_per_s
    assert overtaken_s < LONG_STOP_S / 2, tasks


def test_affinity_is_never_broken(guest):
    with GuestScheduler(guest):
        done = guest.run(tool("masks.py", MEASURE_S), MEASURE_S + LIMIT_S)
    assert done.rc == 0, done.output
    told = json.loads(done.output)
    assert told["broken"] == 0, told
    assert told["changes"] > 10 and told["checks"] > 100, told
