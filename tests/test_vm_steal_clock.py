# SPDX-License-Identifier: GPL-2.0-only
"""KVM's steal clock as a guest sees it, and what the scheduler makes of it."""

import json

import pytest

from accuracy.activity import finders, loads
from accuracy.activity.finders import FINDERS, Search
from accuracy.activity.session import sums
from guest_scheduler import DEFAULT_KERNEL, LIMIT_S, on_kernels, tool
from vlab import truth

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]
READINGS = 50
WATCH_S = 4


@pytest.fixture(scope="module")
def stacked(guests, kernel):
    """A VM with two vCPUs on one core, and a spinner on the second."""
    guest = guests.get(kernel)
    guest.shape("stacked:0,1")
    spinner = guest.spawn("taskset -c 1 sh -c 'while :; do :; done'")
    guest.sleep(0.5)
    yield guest
    spinner.kill()
    spinner.wait(LIMIT_S)


def read(vm, times=1):
    """Readings from within the guest, on its first vCPU: lists of one dict per vCPU."""
    told = vm.run(f"taskset -c 0 {tool('steal_time.py', times)}", LIMIT_S)
    assert told.rc == 0, told.output
    return [json.loads(line) for line in told.output.splitlines()]


def test_the_guest_is_told_the_time_that_its_vcpus_waited(stacked):
    earliest, first, early = stacked.truth(), read(stacked)[0], stacked.truth()
    stacked.sleep(2)
    late, last, latest = stacked.truth(), read(stacked)[0], stacked.truth()
    for vcpu in range(2):
        told_ns = last[vcpu]["steal_ns"] - first[vcpu]["steal_ns"]
        assert told_ns >= late[vcpu].delay_ns - early[vcpu].delay_ns
        assert told_ns <= latest[vcpu].delay_ns - earliest[vcpu].delay_ns


@pytest.fixture(scope="module")
def readings(stacked):
    return read(stacked, READINGS)


def test_a_vcpu_that_waits_for_the_others_core_is_preempted_and_who_looks_is_not(readings):
    """They share a core: whoever looks has it, and the other, which never halts, has not."""
    assert [own["preempted"] for own, *_ in readings] == [0] * READINGS
    assert [other["preempted"] for _, other, *_ in readings] == [1] * READINGS


def test_a_version_is_odd_only_while_the_clock_is_written(readings):
    assert all(own["version"] % 2 == 0 for own, *_ in readings)
    for vcpu in range(2):
        told = [reading[vcpu] for reading in readings]
        assert told[-1]["version"] > told[0]["version"]
        for before, after in zip(told, told[1:], strict=False):
            assert after["steal_ns"] >= before["steal_ns"]
            assert after["version"] != before["version"] or (
                after["steal_ns"] == before["steal_ns"]
            )


def waited_ns(before, after):
    """How long the vCPUs waited for a core between two looks at the host."""
    return sum(vcpu.delay_ns for vcpu in truth.difference(before, after))


def test_what_the_scheduler_counts_as_stolen_follows_the_clock(stacked, binary):
    loads.install(stacked)
    finders.install(stacked, binary)
    search = Search(stacked, FINDERS["steal"])
    search.start()
    earliest, first, early = stacked.truth(), sums(stacked), stacked.truth()
    stacked.sleep(WATCH_S)
    late, last, latest = stacked.truth(), sums(stacked), stacked.truth()
    search.end()
    counted_ns = sum(last["stolen_ns"]) - sum(first["stolen_ns"])
    # The guest starts and ends the program that tells its sums between two looks at the host.
    assert counted_ns >= 0.9 * waited_ns(early, late)
    assert counted_ns <= 1.1 * waited_ns(earliest, latest)
