# SPDX-License-Identifier: GPL-2.0-only
"""What happens to a machine happens to the scheduler: no stall, no ejection, nothing left.

Other faults are tested where their subject is: kills, operators, start limit and lack of memory
(test_vm_service.py), pauses (test_vm_pause.py), hotplug (test_vm_kernels.py, test_vm_daemon.py),
broken configuration (test_vm_settings.py), full disks (test_vm_outputs.py), other schedulers
(test_vm_exit_codes.py), stalls (test_vm_stall.py), real-time and deadline tasks
(test_vm_fairness.py); all of them for long, and at random, in test_vm_soak.py.
"""

import json
from signal import SIGCONT, SIGSTOP

import pytest

from guest_scheduler import (
    DEFAULT_KERNEL,
    LIMIT_S,
    SHAPE,
    is_well,
    on_kernels,
    published,
    spin,
    tool,
    wait_until,
)
from workloads import spinners

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]
DAY_S = 86_400
PAUSES = "scx_vaware_vm_pauses_total"
BEAT = "scx_vaware_control_loop_timestamp_seconds"
WAIT_BOUND_S = 1.0  # the scheduler's default
RATE, SPAWNERS = 10_000, 6  # short tasks a second, and who starts them
BAD = 3
STRAGGLER = f"floating:2+quota:5/100:{BAD}"
IS_BANNED = f'scx_vaware_vcpu_banned{{cpu="{BAD}"}}'
STARVED = "floating:2+quota:5/50"  # what is emulated for long should be little
HELD = "/sys/fs/cgroup/held"


def test_a_daemon_that_is_stopped_for_a_minute_goes_on(scheduler):
    guest = scheduler.vm
    scheduler.signal(SIGSTOP)
    guest.sleep(60)  # hints expire after 10 s
    assert guest.run(spinners.command(1, "vcpu=0,free"), LIMIT_S).rc == 0
    scheduler.expect_in_charge()
    scheduler.signal(SIGCONT)
    wait_until(guest, lambda: is_well(guest), "its health")
    scheduler.expect_in_charge()


@pytest.mark.parametrize("step_s", [DAY_S, -DAY_S])
def test_steps_of_the_clock_change_nothing(scheduler, step_s):
    guest = scheduler.vm
    beat = published(guest, BEAT)
    # A round counts what the test before may have been: a pause. The clock may have gone back.
    wait_until(guest, lambda: published(guest, BEAT) != beat, "the next round")
    pauses = published(guest, PAUSES)
    step = 'date -s "@$(($(date +%s) + {}))" >/dev/null'

    def age_s() -> float:
        now = guest.run("date +%s.%N", LIMIT_S).output
        return abs(float(now) - published(guest, BEAT))

    assert guest.run(step.format(step_s), LIMIT_S).rc == 0
    try:
        wait_until(guest, lambda: age_s() < 5, "a round by the new clock")
        assert is_well(guest)
        scheduler.expect_in_charge()
        assert published(guest, PAUSES) == pauses
    finally:
        guest.run(step.format(-step_s), LIMIT_S)


def test_a_daemon_that_gets_no_time_goes_on(scheduler):
    """By a limit that this scheduler itself enforces, beside work on all vCPUs."""
    guest = scheduler.vm
    guest.shape(STARVED)
    held = (
        f"echo +cpu >/sys/fs/cgroup/cgroup.subtree_control; mkdir {HELD}; "
        f"echo 1000 100000 >{HELD}/cpu.max; echo {scheduler.pid} >{HELD}/cgroup.procs"
    )
    assert guest.run(held, LIMIT_S).rc == 0
    try:
        spin(guest, *4 * ["any"], seconds=12)  # hints expire after 10 s
        scheduler.expect_in_charge()
    finally:
        free = f"echo {scheduler.pid} >/sys/fs/cgroup/cgroup.procs; rmdir {HELD}"
        guest.run(f"{free}; echo -cpu >/sys/fs/cgroup/cgroup.subtree_control", LIMIT_S)
        guest.shape(SHAPE)
    wait_until(guest, lambda: is_well(guest), "its health")


def test_many_short_tasks_keep_nobody_from_running(scheduler):
    guest = scheduler.vm
    guest.shape("honest")
    probes = guest.spawn(spinners.command(1.5, "vcpu=1,nice=19", "vcpu=2,policy=idle"))
    spawner = tool("short_tasks.py", RATE / SPAWNERS, 1.5)
    short = guest.run(f"for i in $(seq {SPAWNERS}); do {spawner} & done; wait", LIMIT_S)
    told = probes.wait(LIMIT_S)
    assert short.rc == 0 and told.rc == 0, short.output + told.output
    assert sum(map(float, short.output.split())) > 0.9 * RATE, "too few for this test"
    light, idle = json.loads(told.output.splitlines()[-1])
    assert light["longest_gap_s"] < 1.1 * WAIT_BOUND_S, light
    # Who wakes takes the vCPU from idle work at once: a turn may be cut, and wait twice.
    assert idle["longest_gap_s"] < 2 * WAIT_BOUND_S, idle


def test_tasks_that_may_run_on_a_banned_vcpu_only_run_there(scheduler):
    guest = scheduler.vm
    guest.shape(STRAGGLER)
    wait_until(guest, lambda: published(guest, IS_BANNED) == 1, "the ban")
    tasks = spin(guest, *3 * [f"vcpu={BAD}"], f"vcpu={BAD},policy=idle", seconds=4)
    # A twentieth of a core, by turns that the host gives it each 100 ms.
    assert max(task["longest_gap_s"] for task in tasks) < 2 * WAIT_BOUND_S, tasks
    normal = [task["turns"] for task in tasks[:3]]
    assert min(normal) > 0.5 * max(normal), tasks
    assert published(guest, IS_BANNED) == 1
