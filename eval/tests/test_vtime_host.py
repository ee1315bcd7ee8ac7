# SPDX-License-Identifier: GPL-2.0-only
"""The simulated host: properties that hold for every shape, and cases derived by hand."""

import pytest
from simulated_host import MS, Host, ShapeError


def alive(vcpus: int, shape: str, seed: int = 1, seconds: float = 3.0, **more) -> Host:
    """A host on which all vCPUs have computed for so long."""
    host = Host(vcpus, shape, seed, **more)
    for vcpu in range(vcpus):
        host.live(vcpu)
    host.run(round(seconds * 1000) * MS)
    return host


def test_a_hog_of_equal_weight_takes_half():
    host = alive(1, "pcpus 1\nhog on=0")
    assert host.truth(0).ran_ns == pytest.approx(1500 * MS, abs=4 * MS)
    assert host.truth(0).stolen_ns == 3000 * MS - host.truth(0).ran_ns


def test_shares_follow_weights():
    host = alive(2, "pcpus 1\nvcpu 0 weight=300\nhog on=0")
    ran_ms = [host.truth(entity).ran_ns / MS for entity in range(3)]
    assert ran_ms == pytest.approx([1800, 600, 600], abs=8)


def test_a_duty_takes_its_time_exactly():
    host = alive(1, "pcpus 1\nduty 3/7 on=0 phase=1")
    assert host.truth(0).stolen_ns == 900 * MS
    assert host.competitor(0).ran_ns == 900 * MS
    assert [event.now_ns for event in host.events if event.why == "preempted"] == [
        (1 + 10 * k) * MS for k in range(300)
    ]


def test_a_quota_is_kept_within_a_bandwidth_slice():
    host = alive(2, "pcpus 2\nvcpu 0 on=0\nvcpu 1 on=1\nquota 20/50 vcpu=0")
    assert host.truth(0).ran_ns == pytest.approx(1200 * MS, abs=(20 + 5) * MS)
    assert host.truth(1).ran_ns == 3000 * MS


def test_floating_vcpus_get_near_even_shares():
    host = alive(3, "pcpus 2", seconds=10)
    for vcpu in range(3):
        assert host.truth(vcpu).ran_ns == pytest.approx(10_000 * MS * 2 / 3, rel=0.05)


def test_a_bad_line_is_named():
    with pytest.raises(ShapeError, match="line 3: on= is '7'; it takes a number from 0 to 1"):
        Host(1, "pcpus 2\nhog on=7")
