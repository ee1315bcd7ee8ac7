# SPDX-License-Identifier: GPL-2.0-only
"""VMs by name: they fit hosts of any size, and are what the papers had."""

import pytest

from vlab import LabError, presets, shapes


@pytest.mark.parametrize("cores", [2, 3, 4, 16])
def test_every_preset_is_a_shape_on_hosts_of_any_size(cores):
    for preset in presets.all_for(cores).values():
        assert preset.phases and preset.meaning
        for phase in preset.phases:
            plan = shapes.plan(phase.shape, preset.vcpus, range(cores))
            assert len(plan.affinity) == preset.vcpus
        assert (len(preset.phases) > 1) == all(phase.seconds > 0 for phase in preset.phases)


@pytest.mark.parametrize("cores", [2, 4])
def test_the_resource_constrained_vm_has_its_four_kinds_a_straggler_and_a_stack(cores):
    preset = presets.find("rcvm", cores=cores)
    plan = shapes.plan(preset.phases[0].shape, preset.vcpus, range(cores))
    shares = [run_us / period_us for run_us, period_us in plan.quotas_us]
    gaps_us = [period_us - run_us for run_us, period_us in plan.quotas_us]
    assert shares[0] == shares[1] == 2 * shares[2] == 2 * shares[3]
    assert gaps_us[0] == 3 * gaps_us[1] and gaps_us[2] == 3 * gaps_us[3]
    assert shares[4] < min(shares[:4]) / 4
    assert plan.affinity[5] == plan.affinity[6] and len(plan.affinity[5]) == 1
    assert sum(shares) < 2, "the quotas must not wait for each other on two cores"


def test_a_shape_of_the_grammar_is_taken_as_it_is():
    preset = presets.find("floating:1+hog", 3, cores=2)
    assert (preset.vcpus, preset.phases[0].shape) == (3, "floating:1+hog")


def test_what_does_not_fit_is_told():
    with pytest.raises(LabError, match="rcvm") as unknown:
        presets.find("no-such-thing")
    assert unknown.value.exit_code == 64
    with pytest.raises(LabError, match="leave --vcpus away"):
        presets.find("rcvm", 4)
    with pytest.raises(LabError, match="2 lists for 3 vCPUs"):
        shapes.plan("pin:0/1", 3, [0, 1])


def test_pin_places_each_vcpu_by_itself():
    assert shapes.plan("pin:0/0-1", 2, [4, 6]).affinity == ((4,), (4, 6))
