# SPDX-License-Identifier: GPL-2.0-only
"""The scheduler's life in the smallest of VMs."""

import pytest

from guest_scheduler import DEFAULT_KERNEL, LIMIT_S, GuestScheduler, boot

pytestmark = pytest.mark.vm
MESSAGES = "hackbench --pipe --groups 2 --loops 100"


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
