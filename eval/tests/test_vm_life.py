# SPDX-License-Identifier: GPL-2.0-only
"""The scheduler's life in a VM: it comes, stays while vCPUs come and go, and leaves nothing."""

import time
from signal import SIGINT, SIGTERM

import pytest
from guest_scheduler import (
    ALL_KERNELS,
    DEFAULT_KERNEL,
    LIMIT_S,
    GuestScheduler,
    boot,
    on_kernels,
    tool,
)
from host_stops import HostStops

pytestmark = pytest.mark.vm
MESSAGES = "hackbench --pipe --groups 2 --loops 100"
ENABLED = "grep -E '^ext.enabled' /proc/self/sched | grep -o '[01]$'"


@on_kernels(*ALL_KERNELS)
@pytest.mark.parametrize("signal", [SIGINT, SIGTERM])
def test_it_takes_all_normal_tasks_until_it_is_asked_to_end(guest, signal):
    assert guest.run(ENABLED).output == "0\n"
    with GuestScheduler(guest) as scheduler:
        assert "scx_vaware: enabled\n" in scheduler.output
        scheduler.expect_in_charge()
        assert guest.run(ENABLED).output == "1\n"
        assert scheduler.end(signal).rc == 0
    assert guest.run(ENABLED).output == "0\n"


@on_kernels(*ALL_KERNELS)
def test_the_kernels_own_scheduler_is_back_when_the_daemon_is_killed(guest):
    with GuestScheduler(guest) as scheduler, HostStops(guest) as stops:
        work = guest.spawn(f"for i in 1 2 3; do {MESSAGES} || exit; done")
        time.sleep(1)
        assert work.rc is None, work.output
        killed = guest.run(tool("end_by_kill.py", scheduler.pid), LIMIT_S)
        assert work.wait(LIMIT_S).rc == 0, work.output
        assert scheduler.wait().rc == 128 + 9
    assert killed.rc == 0, killed.output
    took_s = float(killed.output)
    stopped_s = sum(stops.longest_s(vcpu, took_s) for vcpu in range(guest.vcpus))
    assert took_s < 1 + stopped_s


@on_kernels(*ALL_KERNELS)
def test_it_stays_while_a_vcpu_goes_and_comes_back(guest):
    online = "/sys/devices/system/cpu/cpu3/online"
    with GuestScheduler(guest) as scheduler:
        work = guest.spawn(f"until test -e /tmp/enough; do {MESSAGES} || exit; done")
        for _ in range(2):
            for state in (0, 1):
                changed = guest.run(f"sleep 1; echo {state} >{online} && cat {online}", LIMIT_S)
                assert changed.output == f"{state}\n"
                scheduler.expect_in_charge()
        assert guest.run("taskset -c 3 true").rc == 0
        assert guest.run("touch /tmp/enough").rc == 0
        assert work.wait(LIMIT_S).rc == 0, work.output
    assert guest.run("rm /tmp/enough").rc == 0


def test_it_runs_where_there_is_no_other_vcpu(binary):
    vm = boot(DEFAULT_KERNEL, binary, vcpus=1, shape="floating:1")
    try:
        with GuestScheduler(vm):
            assert vm.run(MESSAGES, LIMIT_S).rc == 0
    finally:
        vm.down()


@on_kernels(DEFAULT_KERNEL)
def test_it_ends_by_itself_after_the_given_time(guest):
    began = time.monotonic()
    with GuestScheduler(guest, "--for", "5") as scheduler:
        ended = scheduler.wait()
    assert ended.rc == 0, ended.output
    assert time.monotonic() - began >= 5
