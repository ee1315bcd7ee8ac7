# SPDX-License-Identifier: GPL-2.0-only
"""Shapes: what a line means, and what is said about a bad one."""

import pytest

from vlab import LabError, shapes
from vlab.shapes import Duty

CORES = [0, 2, 1, 3]  # as on a host with two threads per core


def test_honest_gives_each_vcpu_its_own_core():
    assert shapes.plan("honest", 3, CORES).affinity == ((0,), (2,), (1,))


def test_floating_lets_all_vcpus_share_the_first_cores():
    assert shapes.plan("floating:2", 3, CORES).affinity == ((0, 2),) * 3


def test_packed_fills_one_core_after_the_other():
    assert shapes.plan("packed:2", 4, CORES).affinity == ((0,), (0,), (2,), (2,))


def test_stacked_spreads_the_other_vcpus():
    assert shapes.plan("stacked:1,3", 4, CORES).affinity == ((2,), (0,), (1,), (0,))


def test_without_a_placement_vcpus_float_over_all_cores():
    assert shapes.plan("quota:30/100", 2, CORES).affinity == ((0, 2, 1, 3),) * 2


def test_hog_takes_every_core_in_use():
    assert shapes.plan("floating:2+hog", 4, CORES).hogs == (0, 2)


def test_hog_takes_the_named_cores():
    assert shapes.plan("hog:1,3", 4, CORES).hogs == (2, 3)


def test_quota_applies_to_the_named_vcpus_only():
    plan = shapes.plan("quota:30/100:0,2-3", 4, CORES)
    assert plan.quotas_us == ((30000, 100000), None, (30000, 100000), (30000, 100000))


def test_two_quotas_on_different_vcpus_are_one_shape():
    plan = shapes.plan("quota:10/20:0+quota:30/100:1", 2, CORES)
    assert plan.quotas_us == ((10000, 20000), (30000, 100000))


def test_duties_differ_per_core():
    plan = shapes.plan("packed:2+duty:2/2@0+duty:0.5/16:3@1", 4, CORES)
    assert plan.duties == (
        Duty(0, 2_000_000, 2_000_000, 0),
        Duty(2, 500_000, 16_000_000, 3_000_000),
    )


def test_weights_are_one_per_vcpu_and_normal_otherwise():
    assert shapes.plan("weight:50,100,200", 3, CORES).weights == (50, 100, 200)
    assert shapes.plan("floating:1", 3, CORES).weights == (100, 100, 100)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("sideways:2", "unknown term 'sideways:2'"),
        ("floating:2+", "unknown term ''"),
        ("honest", "5 vCPUs need as many cores, and this host has 4"),
        ("honest:1", "takes no argument"),
        ("floating", "number of cores is missing"),
        ("floating:9", "this host has 4 cores"),
        ("packed:1", "need 5 cores"),
        ("stacked:1", "two different vCPUs"),
        ("stacked:1,1", "two different vCPUs"),
        ("stacked:1,9", "no vCPU 9, they go from 0 to 4"),
        ("packed:2+floating:2", "already places its vCPUs by 'packed'"),
        ("hog:7", "no core 7"),
        ("hog+hog", "already has a hog"),
        ("quota:30", "'/' between"),
        ("quota:30/5000", "from 1 to 1000 ms"),
        ("quota:120/100", "from 1 ms to the period"),
        ("quota:30/100:0-9", "no vCPU 5"),
        ("quota:30/100+quota:10/20:1", "already has a quota"),
        ("duty:2", "'/' between"),
        ("duty:2/x", "'x' is not a time"),
        ("duty:2/0", "cannot be kept"),
        ("duty:2/2@", "not a list of numbers"),
        ("weight:1,2", "2 weights for 5 vCPUs"),
        ("weight:0,1,1,1,1", "from 1 to 10000"),
    ],
)
def test_a_bad_shape_is_named_with_its_grammar(shape, words):
    with pytest.raises(LabError) as error:
        shapes.plan(shape, 5, CORES)
    assert error.value.exit_code == 64
    assert words in error.value.message
    name = shape.split("+")[-1].split(":")[0]
    grammar = shapes.GRAMMAR.get(name, ("floating:M",))[0]
    assert grammar in error.value.message
