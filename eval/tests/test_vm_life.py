# SPDX-License-Identifier: GPL-2.0-only
"""The scheduler's life in a VM: how it ends, and that nobody starves while it lasts."""

import json
from signal import SIGKILL

import pytest
from guest_scheduler import (
    DEFAULT_KERNEL,
    LIMIT_S,
    GuestScheduler,
    boot,
    on_kernels,
    tool,
)

pytestmark = pytest.mark.vm
MESSAGES = "hackbench --pipe --groups 2 --loops 100"
MIX_S = 10
PROBES = {1: "vcpu=1,nice=19", 2: "vcpu=2,policy=idle"}
WAIT_BOUND_S = 1.0  # the scheduler's default


@on_kernels(DEFAULT_KERNEL)
def test_nobody_starves_in_an_overcommitted_mix(scheduler):
    guest = scheduler.vm
    probes = guest.spawn(tool("spinners.py", MIX_S, *PROBES.values()))
    mix = guest.run(tool("mix.sh", MIX_S), MIX_S + LIMIT_S)
    told = probes.wait(LIMIT_S)
    assert mix.rc == 0, mix.output
    assert told.rc == 0, told.output
    for vcpu, probe in zip(PROBES, json.loads(told.output.splitlines()[-1]), strict=True):
        # Half of the time the vCPU waits for a core, a few ms each time. Whoever is overdue takes
        # turns with others who are.
        assert probe["longest_gap_s"] < 2 * WAIT_BOUND_S, (vcpu, probe)


@on_kernels(DEFAULT_KERNEL)
def test_the_kernels_own_scheduler_is_back_at_once_when_the_daemon_is_killed(guest):
    with GuestScheduler(guest) as scheduler:
        work = guest.spawn(f"while {MESSAGES}; do :; done")
        guest.sleep(1)
        killed = guest.run(tool("end_by_kill.py", scheduler.pid), LIMIT_S)
        assert scheduler.wait().rc == 128 + SIGKILL
        work.kill()
        work.wait(LIMIT_S)
    assert killed.rc == 0, killed.output
    # The kernel waits for grace periods of RCU, some of 20 ms each.
    assert float(killed.output) < 0.5


def test_it_runs_where_there_is_no_other_vcpu_and_ends_after_the_given_time(binary):
    vm = boot(DEFAULT_KERNEL, binary, vcpus=1, shape="floating:1")
    try:
        began_ns = vm.clock.now_ns()
        with GuestScheduler(vm, "--for", "5") as scheduler:
            assert vm.run(MESSAGES, LIMIT_S).rc == 0
            ended = scheduler.wait()
        assert ended.rc == 0, ended.output
        assert vm.clock.now_ns() - began_ns >= 5e9
    finally:
        vm.down()
