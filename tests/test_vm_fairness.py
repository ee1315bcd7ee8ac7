# SPDX-License-Identifier: GPL-2.0-only
"""Who gets how much of a vCPU, and where: nice values, SCHED_IDLE, stops by the host, affinity."""

import json
import shlex

import pytest

from guest_scheduler import DEFAULT_KERNEL, LIMIT_S, SHAPE, on_kernels, spin, tool, wait_until
from vlab.truth import difference

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]
MEASURE_S = 5
LONG_STOP_S = 0.3
WAIT_BOUND_S = 1.0  # the scheduler's default
NAP_S = 0.0005
CROWD = 100  # more than the search for overdue tasks looks at; all are overdue themselves
WEIGHT_NICE_0, WEIGHT_NICE_5 = 1024, 335  # kernel: sched_prio_to_weight


def test_nice_values_are_honoured(scheduler):
    first, second = spin(scheduler.vm, "vcpu=1,nice=0", "vcpu=1,nice=5", seconds=MEASURE_S)
    # Either may be a slice ahead at the end: some 20 ms of the 1.2 s that the second has.
    ratio = first["turns"] / second["turns"]
    assert ratio == pytest.approx(WEIGHT_NICE_0 / WEIGHT_NICE_5, rel=0.05)


def test_idle_work_yields_to_normal_work_and_does_not_starve(scheduler):
    normal, idle = spin(scheduler.vm, "vcpu=1", "vcpu=1,policy=idle", seconds=MEASURE_S)
    assert normal["turns"] >= 0.9 * (normal["turns"] + idle["turns"])
    # Nobody stops the vCPU: over the bound come a slice and a tick at most.
    assert idle["longest_gap_s"] < 1.1 * WAIT_BOUND_S


def test_a_light_task_behind_many_is_found(scheduler):
    """All of its turns come by the wait bound, from the far end of a long queue.

    What naps takes the vCPU from it each time, long before it has done a turn.
    """
    guest = scheduler.vm
    naps = f"import time\nwhile True: time.sleep({NAP_S})"
    nap = f"taskset -c 1 timeout {MEASURE_S + 2} python3 -S -c {shlex.quote(naps)}"
    one = f"taskset -c 1 timeout {MEASURE_S + 2} sh -c 'while :; do :; done'"
    crowd = guest.spawn(f"{nap} & for i in $(seq {CROWD}); do {one} & done; wait")
    (light,) = spin(guest, "vcpu=1,nice=19", seconds=MEASURE_S)
    crowd.wait(LIMIT_S)
    assert light["longest_gap_s"] < 1.1 * WAIT_BOUND_S, light


@pytest.mark.parametrize("stop_s", [0.02, LONG_STOP_S])
def test_equal_tasks_share_a_vcpu_that_is_stopped_half_of_the_time(scheduler, stop_s):
    guest, stop_ms = scheduler.vm, round(stop_s * 1000)
    guest.shape(f"{SHAPE}+quota:{stop_ms}/{2 * stop_ms}:1")
    before = guest.truth()
    tasks = spin(guest, "vcpu=1", "vcpu=1", seconds=MEASURE_S)
    run_s = difference(before, guest.truth())[1].run_ns / 1e9
    turns = sum(task["turns"] for task in tasks)
    assert tasks[0]["turns"] == pytest.approx(turns / 2, rel=0.05)
    # If a stop were charged to a task, the other would next run for as long as that.
    overtaken_s = max(task["overtaken"] for task in tasks) / turns * run_s
    assert overtaken_s < LONG_STOP_S / 3, tasks


def test_a_chain_of_forks_does_not_take_all(scheduler):
    done = scheduler.vm.run(tool("fork_chain.py", 1, MEASURE_S), MEASURE_S + LIMIT_S)
    assert done.rc == 0, done.output
    assert float(done.output) > 0.2, done.output  # a half would be fair


def test_affinity_is_never_broken(scheduler):
    done = scheduler.vm.run(tool("masks.py", MEASURE_S), MEASURE_S + LIMIT_S)
    assert done.rc == 0, done.output
    told = json.loads(done.output)
    assert told["broken"] == 0, told
    assert told["changes"] > 10 and told["checks"] > 100, told


@pytest.mark.parametrize(
    "taker",
    [("real_time.py", 1, 60, 40), ("deadline.py", 1, 60, 100)],
    ids=["real-time", "deadline"],
)
def test_tasks_leave_a_vcpu_that_one_of_a_higher_class_takes(scheduler, taker):
    """Other vCPUs are idle: nobody has to wait for the 60 ms of every 100 that it runs."""
    guest = scheduler.vm
    (alone,) = spin(guest, "vcpu=1,free", seconds=3)
    higher = guest.spawn(tool(*taker))
    wait_until(guest, lambda: "running" in higher.output, "the task of a higher class")
    (beside,) = spin(guest, "vcpu=1,free", seconds=3)
    higher.kill()
    assert beside["turns"] > 0.9 * alone["turns"], (beside, alone)
