# SPDX-License-Identifier: GPL-2.0-only
"""What each policy does, against its own switch, by the workload and by the host's truth."""

import json
import time

import pytest
from guest_scheduler import (
    CONFIG,
    DEFAULT_KERNEL,
    LIMIT_S,
    METRICS,
    GuestScheduler,
    configure,
    on_kernels,
    tool,
    wait_until,
)
from lab.truth import difference
from prometheus_tools import value_if_known
from workloads import programs, sync

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]
BASE = ["preempt", "sync"]  # balance would help a stuck queue as well, later
# vCPUs 2 and 3 are stopped for 80 ms of every 160; 0 and 1 share the other core.
STOPS = "packed:2+duty:80/80@1"
ROUNDS = 160  # so that chance does not decide
LONG_MS = 25  # far above what it takes to wake another vCPU, far below a stop
SLOW = 3
STRAGGLER = f"floating:2+quota:5/100:{SLOW}"
TURNS = "floating:2+quota:20/40:0-3"
IS_STRAGGLER = f'scx_vaware_vcpu_straggler{{cpu="{SLOW}"}}'
IS_ENABLED = "scx_vaware_kernel_sched_ext_enabled"
WORK_S = 6
TRIES = 4


def published(vm, series):
    """What the daemon publishes for `series` now, None if it does not (yet)."""
    return value_if_known(vm.run(METRICS, LIMIT_S).output, series)


def without_and_with(vm, shape, policy, measure, once=IS_ENABLED, before=lambda: None):
    """What `measure()` gives without the policy and with it, and what the scheduler said.

    The VM gets `shape` when the scheduler is loaded: the verifier would take minutes on a vCPU that
    hardly runs. It begins when the daemon publishes 1 for the series `once`. `before()` is called
    when the policy has been switched on.
    """

    def policies(names):
        return f"policies = {json.dumps(names)}"

    configure(vm, policies(BASE))
    with GuestScheduler(vm, "--config", CONFIG) as scheduler:
        vm.shape(shape)
        wait_until(lambda: published(vm, once) == 1, once)
        without = measure()
        scheduler.reconfigure(policies([*BASE, policy]), policy)
        before()
        with_it = measure()
    print(without, with_it)
    return without, with_it, scheduler.output


def share_of_long_waits(vm):
    """The part of the wake-ups that wait for longer than LONG_MS."""
    done = vm.run(tool("late_wakeups.py", ROUNDS), LIMIT_S)
    assert done.rc == 0, done.output
    waits_ms = json.loads(done.output.splitlines()[-1])
    assert len(waits_ms) == ROUNDS
    return sum(wait > LONG_MS for wait in waits_ms) / ROUNDS


def work(vm, command):
    """What `command` prints, and the seconds that the host ran each vCPU meanwhile."""
    before = vm.truth()
    done = vm.run(command, LIMIT_S)
    assert done.rc == 0, done.output
    return done.output, [vcpu.run_ns / 1e9 for vcpu in difference(before, vm.truth())]


def spun(vm, task, seconds=WORK_S):
    """The work that a single spinner does, and the seconds that the host ran each vCPU."""
    output, run_s = work(vm, tool("spinners.py", seconds, task))
    return json.loads(output.splitlines()[-1])[0]["turns"], run_s


@pytest.mark.parametrize("policy, counter", [("rescue", "rescue_won_hedge"), ("bvs", "bvs_picked")])
def test_wake_ups_do_not_wait_for_a_stopped_vcpu(guest, policy, counter):
    without, with_it, said = without_and_with(
        guest, STOPS, policy, lambda: share_of_long_waits(guest)
    )
    assert without > 0.15, "the host's stops did not hold up the wake-ups; the test says nothing"
    assert with_it < without / 2, f"{without:.0%} waited long without it, {with_it:.0%} with"
    assert counter in said, said


def test_rwc_lets_no_barrier_wait_for_a_straggler(guest):
    programs.build("sync")
    command = f"{programs.path('sync')} barrier block 4 {WORK_S}"
    without, with_it, _ = without_and_with(
        guest, STRAGGLER, "rwc", lambda: work(guest, command), IS_STRAGGLER
    )
    (said, used_s), (said_with, used_with_s) = without, with_it
    assert sync.parse(said_with)["rate"] > 2 * sync.parse(said)["rate"]
    assert used_with_s[SLOW] < used_s[SLOW] / 2


def test_capacity_moves_work_to_where_there_is_more_of_it(guest):
    """Without it, work leaves a slow vCPU only if it happens to wait there when another idles."""

    def least_spun():
        return min(spun(guest, f"vcpu={SLOW},free", WORK_S / TRIES)[0] for _ in range(TRIES))

    without, with_it, _ = without_and_with(guest, STRAGGLER, "capacity", least_spun, IS_STRAGGLER)
    assert with_it > 2 * without


def test_ivh_leaves_a_vcpu_before_it_is_stopped(guest):
    """Each vCPU gets half of a core, in turns of 20 ms, so one task could have all of one."""

    def harvested_s():
        return published(guest, 'scx_vaware_ivh_trial_wall_seconds_total{ivh="on"}') or 0

    def is_on():
        before_s = harvested_s()
        time.sleep(2)
        return harvested_s() - before_s > 1

    def decided():
        worker = guest.spawn(tool("spinners.py", LIMIT_S, "any"))
        wait_until(is_on, "a verdict for ivh")
        worker.kill()
        worker.wait(LIMIT_S)

    without, with_it, _ = without_and_with(
        guest, TURNS, "ivh", lambda: spun(guest, "any"), before=decided
    )
    assert sum(with_it[1]) > 1.2 * sum(without[1])
