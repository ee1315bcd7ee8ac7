# SPDX-License-Identifier: GPL-2.0-only
"""A timeline of a real VM: what the guest says ran, against what the host says of its vCPUs."""

import pytest

from accuracy.activity import matching
from guest_scheduler import DEFAULT_KERNEL, on_kernels
from timeline import record

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]


def test_what_ran_in_the_guest_and_when_its_vcpus_halted_hardly_overlap(guest):
    """Two records by two kernels: they agree only if their clocks are aligned."""
    busy = "taskset -c 1 sh -c 'while :; do for i in $(seq 2000); do :; done; sleep 0.02; done'"
    guest.shape("stacked:0,1")
    timeline = record.record(guest, busy, None, seconds=2, settle_s=1)
    lane = timeline.lanes[1]
    ran = matching.merge((begin, end) for begin, end, name in lane.tasks if name.startswith("sh "))
    ran_ns = sum(end - begin for begin, end in ran)
    halted_ns = sum(end - begin for begin, end in lane.halted)
    assert ran_ns > 0 and halted_ns > 0
    while_halted_ns = sum(matching.covered_ns(ran, matching.merge(lane.halted)))
    assert while_halted_ns < 0.01 * ran_ns


def test_who_is_alone_on_a_vcpu_is_seen_all_the_time(guest):
    """No event of the guest tells of it meanwhile."""
    timeline = record.record(
        guest, "exec taskset -c 2 sh -c 'while :; do :; done'", None, seconds=0.2, settle_s=1
    )
    (lane,) = (lane for lane in timeline.lanes if lane.name == "vCPU 2")
    ran_ns = sum(end - begin for begin, end, name in lane.tasks if name.startswith("sh "))
    assert ran_ns > 0.95 * (timeline.end_ns - timeline.begin_ns)
