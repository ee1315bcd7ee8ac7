# SPDX-License-Identifier: GPL-2.0-only
"""What happens to a machine happens to the scheduler: no stall, no ejection, nothing left.

Other faults are tested where their subject is: kills and operators (test_vm_service.py), pauses
(test_vm_pause.py), hotplug and broken configuration (test_vm_daemon.py, test_vm_settings.py), full
disks (test_vm_outputs.py), other schedulers (test_vm_exit_codes.py), stalls (test_vm_stall.py),
real-time and deadline tasks (test_vm_fairness.py).
"""

from signal import SIGCONT, SIGKILL, SIGSTOP

import pytest

from guest_scheduler import (
    DEFAULT_KERNEL,
    LIMIT_S,
    METRICS,
    GuestScheduler,
    on_kernels,
    published,
    sched_ext,
    wait_until,
)
from prometheus_tools import value
from workloads import spinners

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]
DAY_S = 86_400
GROUP = "/sys/fs/cgroup/small"
BACK_WITHIN_S = 1
BEAT = "scx_vaware_control_loop_timestamp_seconds"


def test_a_daemon_that_is_stopped_for_a_minute_goes_on(scheduler):
    guest = scheduler.vm
    scheduler.signal(SIGSTOP)
    guest.sleep(60)  # hints expire after 10 s
    assert guest.run(spinners.command(1, "vcpu=0,free"), LIMIT_S).rc == 0
    scheduler.expect_in_charge()
    scheduler.signal(SIGCONT)
    well = "curl -sf localhost:9817/healthz"
    wait_until(guest, lambda: guest.run(well, LIMIT_S).output == "ok\n", "its health")
    scheduler.expect_in_charge()


@pytest.mark.parametrize("step_s", [DAY_S, -DAY_S])
def test_steps_of_the_clock_change_nothing(scheduler, step_s):
    guest = scheduler.vm
    step = 'date -s "@$(($(date +%s) + {}))" >/dev/null'

    def age_s() -> float:
        now = guest.run("date +%s.%N", LIMIT_S).output
        return abs(float(now) - published(guest, BEAT))

    assert guest.run(step.format(step_s), LIMIT_S).rc == 0
    try:
        wait_until(guest, lambda: age_s() < 5, "a round by the new clock")
        assert guest.run("curl -sf localhost:9817/healthz", LIMIT_S).output == "ok\n"
        scheduler.expect_in_charge()
        assert published(guest, "scx_vaware_vm_pauses_total") == 0
    finally:
        guest.run(step.format(-step_s), LIMIT_S)


def expect_the_kernels_own_scheduler(guest) -> None:
    """It is back within a second, and work runs."""
    guest.sleep(BACK_WITHIN_S)
    assert sched_ext(guest).state == "disabled"
    assert guest.run(spinners.command(1, "vcpu=0,free"), LIMIT_S).rc == 0


def test_a_daemon_without_memory_leaves_the_kernels_own_scheduler(guest):
    with GuestScheduler(guest) as scheduler:
        squeeze = (
            f"echo +memory >/sys/fs/cgroup/cgroup.subtree_control; mkdir {GROUP} && "
            f"echo {scheduler.pid} >{GROUP}/cgroup.procs && echo 0 >{GROUP}/memory.swap.max; "
            f"echo 1M >{GROUP}/memory.max; while curl -sf localhost:9817/metrics; do :; done"
        )
        assert guest.run(f"({squeeze}) >/dev/null 2>&1; true", LIMIT_S).rc == 0
        ended = scheduler.wait()
        assert ended.rc in (-SIGKILL, 128 + SIGKILL), ended.output
        killed = guest.run(f"grep '^oom_kill ' {GROUP}/memory.events", LIMIT_S).output
        assert int(killed.split()[1]) >= 1
        expect_the_kernels_own_scheduler(guest)
    guest.run(f"rmdir {GROUP}; echo -memory >/sys/fs/cgroup/cgroup.subtree_control", LIMIT_S)


def test_tasks_that_may_run_on_banned_vcpus_alone_run_there(scheduler):
    """Of two vCPUs of a stack one is banned: its task has half of a core, and is not lost."""
    guest = scheduler.vm
    guest.shape("pin:0/0/1/1")
    banned = [f'scx_vaware_vcpu_banned{{cpu="{cpu}"}}' for cpu in range(4)]

    def bans() -> list[int]:
        page = guest.run(METRICS, LIMIT_S).output
        return [cpu for cpu, series in enumerate(banned) if f"{series} 1" in page]

    wait_until(guest, bans, "a ban")
    vcpu, seconds = bans()[0], 2
    before = value(guest.run(METRICS, LIMIT_S).output, run_of(vcpu))
    assert guest.run(spinners.command(seconds, f"vcpu={vcpu}"), LIMIT_S).rc == 0
    ran_s = value(guest.run(METRICS, LIMIT_S).output, run_of(vcpu)) - before
    assert ran_s > seconds / 4
    scheduler.expect_in_charge()


def run_of(vcpu: int) -> str:
    return f'scx_vaware_vcpu_run_seconds_total{{cpu="{vcpu}"}}'


def test_ten_thousand_short_tasks_starve_nobody(scheduler):
    guest = scheduler.vm
    before = published(guest, "scx_vaware_switches_total")
    forks = "i=0; while [ $i -lt 2500 ]; do (:) ; i=$((i + 1)); done"
    storm = f"for n in 1 2 3 4; do sh -c '{forks}' & done; wait"
    began_ns = guest.clock.now_ns()
    assert guest.run(storm, LIMIT_S).rc == 0
    passed_s = (guest.clock.now_ns() - began_ns) / 1e9
    ended = published(guest, "scx_vaware_switches_total") - before
    print(f"10000 tasks in {passed_s:.1f} s")
    assert ended > 10_000
    scheduler.expect_in_charge()
