# SPDX-License-Identifier: GPL-2.0-only
"""What each policy does, against its own switch, by the workload and by the host's truth."""

import json
from functools import partial

import pytest

from guest_scheduler import (
    DEFAULT_KERNEL,
    LIMIT_S,
    decisions,
    on_kernels,
    published,
    spin,
    tool,
    wait_until,
)
from vlab.truth import difference
from workloads import programs, sync

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]
# vCPUs 2 and 3 are stopped for 80 ms of every 160; 0 and 1 share the other core.
STOPS = "packed:2+duty:80/80@1"
ROUNDS = 20  # of 130 ms: their wake-ups come at all phases of the stops
PARTS = 3  # each with so many rounds
LONG_MS = 25  # far above what it takes to wake another vCPU, far below a stop
SLOW = 3
STRAGGLER = f"floating:2+quota:5/100:{SLOW}"
TURNS = "floating:2+quota:20/40:0-3"
BESIDE = "packed:2+hog"
IS_STRAGGLER = f'scx_vaware_vcpu_straggler{{cpu="{SLOW}"}}'
IS_ENABLED = "scx_vaware_kernel_sched_ext_enabled"
WORK_S = 4
TRIES = 4
TIMERS_S = 16  # a second until the daemon asks for a reserve, some for its trial
LATE_MS = 1.5  # far above what it takes to run a timer, far below a stop beside a competitor
LIGHT = "4000 20 8 8"  # requests a second of so many us each, by 8 threads, for 8 s


def switch_on(scheduler, *names):
    """Leave these policies on alone; what the governor found of them is forgotten."""
    text = f"policies = {json.dumps(names)}"
    scheduler.reconfigure(text, f"policies on: {','.join(names) or 'none'}")


def without_and_with(scheduler, shape, policy, measure, once=IS_ENABLED):
    """What `measure()` gives without the policy and with it.

    It begins when the daemon publishes 1 for the series `once`.
    """
    scheduler.vm.shape(shape)
    switch_on(scheduler)
    wait_until(scheduler.vm, lambda: published(scheduler.vm, once) == 1, once)
    without = measure()
    switch_on(scheduler, policy)
    with_it = measure()
    print(without, with_it)
    return without, with_it


def share_of_long_waits(scheduler, *policies):
    """The part of the wake-ups that wait for longer than LONG_MS.

    The governor tries the policies anew in each part: of a single trial chance may decide.
    """
    waits_ms = []
    for _ in range(PARTS):
        switch_on(scheduler)
        switch_on(scheduler, *policies)
        done = scheduler.vm.run(tool("late_wakeups.py", ROUNDS), LIMIT_S)
        assert done.rc == 0, done.output
        waits_ms += json.loads(done.output.splitlines()[-1])
    assert len(waits_ms) == PARTS * ROUNDS
    return sum(wait > LONG_MS for wait in waits_ms) / len(waits_ms)


def work(vm, command):
    """What `command` prints, and the seconds that the host ran each vCPU meanwhile."""
    before = vm.truth()
    done = vm.run(command, LIMIT_S)
    assert done.rc == 0, done.output
    return done.output, [vcpu.run_ns / 1e9 for vcpu in difference(before, vm.truth())]


def spun(vm, task, seconds=WORK_S):
    """The work that a single spinner does."""
    return spin(vm, task, seconds=seconds)[0]["turns"]


@pytest.mark.parametrize("policy, counter", [("rescue", "rescue_won_hedge"), ("bvs", "bvs_picked")])
def test_wake_ups_do_not_wait_for_a_stopped_vcpu(scheduler, policy, counter):
    guest = scheduler.vm
    before = decisions(guest, counter)
    guest.shape(STOPS)
    without = share_of_long_waits(scheduler)
    with_it = share_of_long_waits(scheduler, policy)
    print(without, with_it)
    # (80 - 25) / 160 of the wake-ups find the vCPU stopped for longer, if they all wait for it.
    assert without > 0.2, "the host's stops did not hold up the wake-ups; the test says nothing"
    # Each policy is off in some epochs of its trial, more or fewer of these.
    assert with_it < without * 0.8, f"{without:.0%} waited long without it, {with_it:.0%} with"
    assert decisions(guest, counter) > before


def test_rwc_lets_no_barrier_wait_for_a_straggler(scheduler):
    programs.build("sync")
    command = f"{programs.path('sync')} barrier block 4 {WORK_S}"
    without, with_it = without_and_with(
        scheduler, STRAGGLER, "rwc", lambda: work(scheduler.vm, command), IS_STRAGGLER
    )
    (said, used_s), (said_with, used_with_s) = without, with_it
    assert f"vCPU {SLOW} (capacity 0." in scheduler.output, scheduler.output
    # A barrier waits 95 of 100 ms for the straggler.
    assert sync.parse(said_with)["rate"] > 2 * sync.parse(said)["rate"]
    # 0.07 to 0.12 s of 0.21 are left, alone more than after the other tests of this file.
    assert used_with_s[SLOW] < used_s[SLOW] * 2 / 3


def test_capacity_moves_work_to_where_there_is_more_of_it(scheduler):
    """Without it, work leaves a slow vCPU only if it happens to wait there when another idles."""

    def least_spun():
        task = f"vcpu={SLOW},free"
        return min(spun(scheduler.vm, task, WORK_S / TRIES) for _ in range(TRIES))

    without, with_it = without_and_with(scheduler, STRAGGLER, "capacity", least_spun, IS_STRAGGLER)
    # A twentieth of a core against half of one or more.
    assert with_it > 2 * without


def test_ivh_moves_a_task_to_a_vcpu_that_is_awake(scheduler):
    """Each vCPU gets half of a core, in turns of 20 ms, so one task could have all of one."""
    guest = scheduler.vm
    before = decisions(guest, "ivh_moved")

    def spun_after_its_trial():
        spun(guest, "any")
        return spun(guest, "any")

    without, with_it = without_and_with(scheduler, TURNS, "ivh", spun_after_its_trial)
    assert decisions(guest, "ivh_moved") > before
    # Half of the core without it, all of it with.
    assert with_it > 1.5 * without


def test_gather_keeps_light_work_to_open_vcpus(scheduler):
    """For how long a vCPU is parked its trial says, by the waits (hints/gathering.rs)."""
    programs.build("requests")
    guest = scheduler.vm
    guest.shape("honest")
    scheduler.reconfigure('policies = ["gather"]', "policies on: gather")
    # The straggler of another test is banned for a while, and three vCPUs all stay open.
    open_vcpus = partial(published, guest, "scx_vaware_open_vcpus")
    vcpus = len(guest.truth())
    wait_until(guest, lambda: open_vcpus() == vcpus, "no vCPU is banned")
    before = [decisions(guest, kind) for kind in ("gather_kept", "gather_spilled")]
    work(guest, f"{programs.path('requests')} {LIGHT}")
    after = [decisions(guest, kind) for kind in ("gather_kept", "gather_spilled")]
    kept, spilled = (now - then for now, then in zip(after, before, strict=True))
    assert kept > 1000, "a vCPU was not parked for a quarter of a round"
    assert kept > 10 * spilled


def test_a_timer_is_on_time_on_a_vcpu_that_is_kept_free(scheduler):
    """A vCPU that spins gets a third of a core, one that is mostly idle gets what it wants."""
    guest = scheduler.vm
    counters = ("reserve_taken", "reserve_left")
    before = [decisions(guest, kind) for kind in counters]

    def share_of_late_timers():
        done = guest.run(tool("late_timers.py", TIMERS_S), LIMIT_S)
        assert done.rc == 0, done.output
        late_ms = json.loads(done.output.splitlines()[-1])
        return sum(late > LATE_MS for late in late_ms) / len(late_ms)

    without, with_it = without_and_with(scheduler, BESIDE, "reserve", share_of_late_timers)
    assert without > 0.1, "the host's stops did not hold up the timers; the test says nothing"
    assert with_it < without / 2, f"{without:.0%} were late without it, {with_it:.0%} with"
    assert published(guest, "scx_vaware_reserve_vcpus") == 1
    for kind, then in zip(counters, before, strict=True):
        assert decisions(guest, kind) > then, kind
