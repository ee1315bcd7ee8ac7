# SPDX-License-Identifier: GPL-2.0-only
"""By wall time, with a thread of this machine for each vCPU, races show that virtual time hides."""

import pytest

from guest_scheduler import ALL_KERNELS, LIMIT_S, GuestScheduler, boot, on_kernels, tool
from test_vm_kernels import replug_a_vcpu

pytestmark = [pytest.mark.vm, pytest.mark.long, on_kernels(*ALL_KERNELS)]
MIX_S = 40
# The kernel complains of an RCU stall after 21 s. khugepaged makes them: at nice 19 it copies a
# whole huge page as one RCU reader, and it is to do so often.
PROVOKE_RCU_STALLS = """
echo 7 > /sys/module/rcupdate/parameters/rcu_cpu_stall_timeout
echo always > /sys/kernel/mm/transparent_hugepage/enabled
echo 1000 > /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs
"""


def test_it_survives_an_overcommitted_mix_and_a_vcpu_that_goes_and_comes_back(binary, kernel):
    vm = boot(kernel, binary, clock="wall")
    try:
        with GuestScheduler(vm) as scheduler:
            assert vm.run(PROVOKE_RCU_STALLS, LIMIT_S).rc == 0
            mix = vm.run(tool("mix.sh", MIX_S), MIX_S + LIMIT_S)
            assert mix.rc == 0, mix.output
            replug_a_vcpu(scheduler, times=5)
    finally:
        vm.down()
