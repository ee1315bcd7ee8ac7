# SPDX-License-Identifier: GPL-2.0-only
"""The scheduler under a minute of everything at once: it stays, and nobody starves."""

import json

import pytest
from guest_scheduler import ALL_KERNELS, LIMIT_S, GuestScheduler, on_kernels, tool
from host_stops import HostStops

pytestmark = pytest.mark.vm
MIX_S = 60
PROBES = {1: "vcpu=1,nice=19", 2: "vcpu=2,policy=idle"}
WAIT_BOUND_S = 1.0  # the scheduler's default
SLACK_S = 1.0
# The kernel complains of an RCU stall after 21 s. khugepaged makes them: at nice 19 it copies a
# whole huge page as one RCU reader, and it is to do so often.
PROVOKE_RCU_STALLS = """
echo 7 > /sys/module/rcupdate/parameters/rcu_cpu_stall_timeout
echo always > /sys/kernel/mm/transparent_hugepage/enabled
echo 1000 > /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs
"""


@on_kernels(*ALL_KERNELS)
def test_it_survives_an_overcommitted_mix_in_which_nobody_starves(guest):
    provoked = guest.run(PROVOKE_RCU_STALLS, LIMIT_S)
    assert provoked.rc == 0, provoked.output
    with GuestScheduler(guest), HostStops(guest) as stops:
        probes = guest.spawn(tool("spinners.py", MIX_S, *PROBES.values()))
        mix = guest.run(tool("mix.sh", MIX_S), MIX_S + LIMIT_S)
        told = probes.wait(LIMIT_S)
    assert mix.rc == 0, mix.output
    assert told.rc == 0, told.output
    for vcpu, probe in zip(PROBES, json.loads(told.output.splitlines()[-1]), strict=True):
        gap_s = probe["longest_gap_s"]
        stopped_s = stops.longest_s(vcpu, gap_s)
        assert gap_s < WAIT_BOUND_S + SLACK_S + stopped_s, (
            f"{PROBES[vcpu]} waited for {gap_s:.2f} s, "
            f"and the host had stopped its vCPU for {stopped_s:.2f} s of them at most"
        )
