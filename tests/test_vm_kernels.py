# SPDX-License-Identifier: GPL-2.0-only
"""On each kernel: it comes, survives everything, and goes.

What it gives to whom is asked elsewhere. All tests of a kernel share a VM and a scheduler, which
the last one kills.
"""

import json

import pytest

from guest_scheduler import ALL_KERNELS, LIMIT_S, decisions, on_kernels, online, sched_ext, tool
from workloads import spinners

pytestmark = [pytest.mark.vm, on_kernels(*ALL_KERNELS)]
MESSAGES = "hackbench --pipe --groups 2 --loops 100"
ENABLED = "grep -E '^ext.enabled' /proc/self/sched | grep -o '[01]$'"
ROUNDS = 300
MIX_S = 4  # some of its parts are slow to emulate
PROBES = {1: "vcpu=1,nice=19", 2: "vcpu=2,policy=idle"}
WAIT_BOUND_S = 1.0  # the scheduler's default
STORMS = 3  # each loses one now and then, where one can be lost
SPIN = "sh -c 'while :; do :; done'"


def left_to_wait(vm, woken_by):
    """How many wake-ups beside a computation counted as part of it."""
    before = decisions(vm, "preempt_left")
    done = vm.run(tool("wakes_beside_work.py", woken_by, ROUNDS), LIMIT_S)
    assert done.rc == 0, done.output
    return decisions(vm, "preempt_left") - before


def replug_a_vcpu(scheduler, times):
    """Take a vCPU offline and back, under load."""
    guest, vcpu3 = scheduler.vm, online(3)
    work = guest.spawn(f"until test -e /tmp/enough; do {MESSAGES} || exit; done")
    for state in (0, 1) * times:
        changed = guest.run(f"sleep 0.5; echo {state} >{vcpu3} && cat {vcpu3}", LIMIT_S)
        assert changed.output == f"{state}\n"
        scheduler.expect_in_charge()
    assert guest.run("taskset -c 3 true").rc == 0
    assert guest.run("touch /tmp/enough").rc == 0
    assert work.wait(LIMIT_S).rc == 0, work.output


def test_it_takes_all_normal_tasks(scheduler):
    assert "scx_vaware: enabled\n" in scheduler.output
    assert scheduler.vm.run(ENABLED).output == "1\n"


def test_what_a_computation_wakes_is_part_of_it_and_what_a_timer_wakes_is_not(scheduler):
    """Who wakes is told by each kernel in its own way."""
    assert left_to_wait(scheduler.vm, "work") > ROUNDS / 2
    assert left_to_wait(scheduler.vm, "timer") < ROUNDS / 10


def test_it_stays_while_a_vcpu_goes_and_comes_back(scheduler):
    replug_a_vcpu(scheduler, times=2)


def own_interrupts(vm):
    """How many interrupts each vCPU has taken that it had sent to itself."""
    counted = vm.run("grep IWI: /proc/interrupts", LIMIT_S).output
    return [int(number) for number in counted.split()[1:5]]


def test_vcpus_that_come_and_go_all_the_time_lose_no_interrupt(scheduler):
    """One that goes takes none any more. Where it asked for one, it gets no other for good."""
    guest = scheduler.vm
    for seed in range(STORMS):
        work = guest.spawn(f"for i in 1 2 3 4; do timeout 20 {SPIN} & done; wait")
        storm = guest.run(tool("replug.py", seed, 20), LIMIT_S)
        assert storm.rc == 0, storm.output
        before = own_interrupts(guest)
        guest.sleep(0.5)
        work.kill()
        work.wait(LIMIT_S)
        assert guest.run(MESSAGES, LIMIT_S).rc == 0
        after = own_interrupts(guest)
        assert all(now > then for now, then in zip(after, before, strict=True)), (before, after)


def test_nobody_starves_in_an_overcommitted_mix(scheduler):
    guest = scheduler.vm
    probes = guest.spawn(spinners.command(MIX_S, *PROBES.values()))
    mix = guest.run(tool("mix.sh", MIX_S), MIX_S + LIMIT_S)
    told = probes.wait(LIMIT_S)
    assert mix.rc == 0, mix.output
    assert told.rc == 0, told.output
    for vcpu, probe in zip(PROBES, json.loads(told.output.splitlines()[-1]), strict=True):
        # Half of the time the vCPU waits for a core, a few ms each time. Whoever is overdue takes
        # turns with others who are, and there are many in this mix. Starving is ten times as long.
        assert probe["longest_gap_s"] < 3 * WAIT_BOUND_S, (vcpu, probe)


def test_the_kernels_own_scheduler_is_back_at_once_when_the_daemon_is_killed(scheduler):
    guest = scheduler.vm
    work = guest.spawn(f"for i in 1 2 3; do {MESSAGES} || exit; done")
    guest.sleep(1)
    assert work.rc is None, work.output
    killed = guest.run(tool("end_by_kill.py", scheduler.pid), LIMIT_S)
    assert killed.rc == 0, killed.output
    # The kernel waits for grace periods of RCU, some of 20 ms each.
    assert float(killed.output) < 0.5
    assert work.wait(LIMIT_S).rc == 0, work.output
    assert scheduler.wait().rc == 128 + 9
    assert sched_ext(guest).state == "disabled"
    assert guest.run(ENABLED).output == "0\n"
