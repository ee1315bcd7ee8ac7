# SPDX-License-Identifier: GPL-2.0-only
"""The lab by wall time against the host's own truth: what a shape takes from a VM."""

import os
import signal
import statistics
import time
from pathlib import Path

import pytest

from vlab import LabError, Vm, runs, truth

pytestmark = [pytest.mark.vm, pytest.mark.long]
SPIN = "taskset -c {} sh -c 'echo spins; while :; do :; done'"
MEASURE_S = 2.0


@pytest.fixture(scope="module")
def pair():
    """A VM with two vCPUs; each test shapes it as it needs."""
    try:
        machine = Vm(vcpus=2, memory_mib=1024, shape="floating:1", clock="wall").up()
    except LabError as why:
        if why.exit_code == 69:
            pytest.skip(why.message)
        raise
    yield machine
    machine.down()


@pytest.fixture
def spinning(pair):
    """The VM with a spinner on each vCPU."""
    spinners = [pair.spawn(SPIN.format(vcpu)) for vcpu in range(2)]
    deadline = time.monotonic() + 60
    while not all("spins" in spinner.output for spinner in spinners):
        assert time.monotonic() < deadline, "the spinners did not start within 60 s"
        time.sleep(0.05)
    yield pair
    for spinner in spinners:
        spinner.kill(signal.SIGKILL)
        spinner.wait(60)
    pair.shape("floating:1")


def measure(machine, shape):
    """Shape the machine; returns the truth of the next seconds and their number."""
    machine.shape(shape)
    time.sleep(0.3)
    before, began = machine.truth(), time.monotonic()
    time.sleep(MEASURE_S)
    return truth.difference(before, machine.truth()), time.monotonic() - began


def taken_ratios(truths):
    return [t.delay_ns / (t.run_ns + t.delay_ns) for t in truths]


def host_busy_s():
    """Time in which the host's cores ran anything, or were themselves stolen from."""
    user, nice, system, _, _, *others = (
        int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]
    )
    return (user + nice + system + sum(others)) / os.sysconf("SC_CLK_TCK")


def test_two_stacked_vcpus_lose_half_each(spinning):
    truths, passed_s = measure(spinning, "stacked:0,1")
    assert min(taken_ratios(truths)) > 0.4
    assert sum(t.run_ns for t in truths) / 1e9 < 1.05 * passed_s


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two honest vCPUs take two cores")
def test_honest_vcpus_lose_only_what_the_rest_of_the_host_uses(spinning):
    before_s = host_busy_s()
    truths, passed_s = measure(spinning, "honest")
    others_s = host_busy_s() - before_s - sum(t.run_ns for t in truths) / 1e9
    assert sum(t.delay_ns for t in truths) / 1e9 < max(0, others_s) + 0.2 * passed_s


def test_quota_takes_what_it_says(spinning):
    truths, passed_s = measure(spinning, "quota:30/100")
    assert max(t.run_ns for t in truths) / 1e9 < 0.36 * passed_s
    assert min(t.delay_ns for t in truths) / 1e9 > 0.6 * passed_s


def test_a_quota_is_for_the_named_vcpu_and_ends_with_the_shape(spinning):
    limited, free = measure(spinning, "packed:2+quota:5/100:0")[0]
    assert free.run_ns > 1.5 * limited.run_ns
    once_limited, free = measure(spinning, "packed:2")[0]
    assert once_limited.run_ns > 0.7 * free.run_ns


def test_weights_divide_a_core(spinning):
    truths, _ = measure(spinning, "packed:2+weight:100,300")
    assert truths[1].run_ns > 2 * truths[0].run_ns


def test_a_hog_takes_its_share_and_goes_with_the_shape(spinning):
    truths, passed_s = measure(spinning, "packed:2+hog")
    assert sum(t.run_ns for t in truths) / 1e9 < 0.8 * passed_s
    run_id = spinning.folder.name
    competitors = len(runs.processes(run_id))
    spinning.shape("packed:2")
    assert len(runs.processes(run_id)) == competitors - 1


@pytest.mark.parametrize("source", ["sched_switch", "duty log"])
def test_single_inactive_periods_are_those_of_the_duty(spinning, source, monkeypatch):
    if source == "duty log":
        monkeypatch.setattr(truth, "SwitchRecorder", refuse)
    spinning.shape("packed:2+duty:20/20@0")
    time.sleep(0.3)
    with spinning.inactive_periods() as recorded:
        time.sleep(MEASURE_S)
    if recorded.source != source:
        pytest.skip("this host has no tracefs")
    long_ms = [(end - begin) / 1e6 for begin, end in recorded.periods[0] if end - begin > 19e6]
    assert len(long_ms) > 0.4 * MEASURE_S / 0.040
    assert all(begin < end for begin, end in recorded.periods[0])
    if source == "duty log":
        assert 19.9 < statistics.median(long_ms) < 21


def refuse(*_):
    raise OSError("no tracefs in this test")
