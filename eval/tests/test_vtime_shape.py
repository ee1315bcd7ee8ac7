# SPDX-License-Identifier: GPL-2.0-only
"""Shapes and the papers' VMs, as the simulated host understands them."""

import pytest

from simulated_host import MS, Host, ShapeError
from vlab import LabError, shapes, vtime_presets, vtime_shape
from vlab.presets import Phase
from vlab.shaping import Shaper
from vlab.vtime_presets import PRESETS


def text(shape: str, vcpus: int, cores: int | None = None, **machine) -> str:
    return vtime_shape.describe(
        [Phase(shape)], vcpus, cores, vtime_shape.Machine(**machine) if machine else None
    )


def run(shape_text: str, vcpus: int, seconds: float) -> Host:
    host = Host(vcpus, shape_text, quantum_ns=MS)
    for vcpu in range(vcpus):
        host.live(vcpu)
    host.run(round(seconds * 1000) * MS)
    return host


def capacities(host: Host, seconds: float) -> list[float]:
    return [host.truth(vcpu).ran_ns / (seconds * 1e9) for vcpu in range(host.vcpus)]


@pytest.mark.parametrize(
    ("shape", "lines"),
    [
        ("honest", ["pcpus 2", "vcpu 0 on=0", "vcpu 1 on=1"]),
        ("packed:2+hog", ["pcpus 1", "vcpu 0-1 on=0", "hog on=0"]),
        ("", ["pcpus 2", "vcpu 0-1 on=0-1"]),
        ("hog:3", ["pcpus 4", "vcpu 0-1 on=0-1", "hog on=3"]),
        ("floating:3+smt", ["pcpus 4 smt=0.6", "vcpu 0-1 on=0-2"]),
        ("honest+weight:100,7", ["pcpus 2", "vcpu 0 on=0", "vcpu 1 on=1 weight=7"]),
        ("packed:2+quota:5/20:1", ["pcpus 1", "vcpu 0-1 on=0", "quota 5/20 vcpu=1"]),
        ("packed:2+vmquota:30/20", ["pcpus 1", "vcpu 0-1 on=0", "quota 30/20 vcpu=0-1 shared"]),
        ("packed:2+duty:1.5/2:3", ["pcpus 1", "vcpu 0-1 on=0", "duty 1.5/2 on=0 phase=3"]),
        ("packed:2+bursty:1/2*3", ["pcpus 1", "vcpu 0-1 on=0", "bursty 1/2 on=0 floating=3"]),
        ("packed:2+recorded:1/2,3/4@0", ["pcpus 1", "vcpu 0-1 on=0", "recorded 1/2,3/4 on=0"]),
        ("packed:2+speed:0.5@0", ["pcpus 1", "speed 0.5 on=0", "vcpu 0-1 on=0"]),
    ],
)
def test_each_term_has_its_line(shape, lines):
    written = text(shape, 2)
    assert written.splitlines() == lines
    Host(2, written)  # which understands it


def test_the_machine_comes_first():
    written = text("honest", 1, costs="exits", hz=250, slice_ms=3, poll_ms=0)
    assert written.splitlines()[0] == "host costs=exits hz=250 slice=3 poll=0"
    assert Host(1, written).costs().ipi_ns > 1000


def test_cores_can_be_given():
    assert text("hog", 4, 2).splitlines() == ["pcpus 2", "vcpu 0-3 on=0-1", "hog on=0-1"]
    with pytest.raises(LabError, match="1 to 256 cores"):
        text("hog", 4, 257)
    with pytest.raises(LabError, match="4 vCPUs need as many cores"):
        text("honest", 4, 2)


def test_phases_become_sections_that_repeat():
    phases = vtime_presets.find("honest for 0.5; honest+hog for 1.5", 1).phases
    assert vtime_shape.describe(phases, 1).splitlines() == [
        *("cycle 2000", "pcpus 1", "vcpu 0 on=0"),
        *("at 500", "pcpus 1", "vcpu 0 on=0", "hog on=0"),
    ]
    with pytest.raises(LabError, match="does not say how long"):
        vtime_presets.find("honest; honest+hog for 1.5", 1)


@pytest.mark.parametrize(
    "term",
    ["smt:0", "smt:x", "speed:2@0", "speed:0.5", "bursty:1/0", "bursty:1/2,3/4", "recorded:1/2,3"]
    + ["bursty:1/2*0", "vmquota:0/10", "recorded:1/2@9", "smt+smt", "vmquota:5/10+vmquota:5/10"],
)
def test_a_bad_term_is_named(term):
    with pytest.raises(LabError, match=rf"shape term '{term.split('+')[0].partition(':')[0]}"):
        shapes.plan(f"honest+{term}", 2, range(2))


def test_the_wall_clock_lab_refuses_what_needs_a_simulated_host():
    plan = shapes.plan("honest+smt", 2, range(2))
    with pytest.raises(LabError, match="only a simulated host has 'smt'") as refused:
        Shaper.apply(None, plan)
    assert refused.value.exit_code == 64


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_the_host_understands_every_preset(preset):
    host = Host(preset.vcpus)
    try:
        host.shape(vtime_shape.describe(preset.phases, preset.vcpus), plain=True)
    except ShapeError as error:
        pytest.fail(str(error))
    assert preset.meaning


def test_the_resource_constrained_vm_is_that_of_the_paper():
    """12 vCPUs: four kinds in sibling pairs, two stragglers, two stacked (vSched, section 5.1)."""
    host = run(vtime_shape.describe(PRESETS["rcvm"].phases, 12), 12, 4)
    got = capacities(host, 4)
    assert got[:4] == pytest.approx([0.5] * 4, rel=0.03)
    assert got[4:8] == pytest.approx([0.25] * 4, rel=0.03)
    assert max(got[8:10]) < 0.07
    assert got[10:] == pytest.approx([0.5] * 2, rel=0.03)

    def latency_ms(vcpu: int) -> float:
        """Mean length of its preempted periods."""
        stops = sum(e.entity == vcpu and e.why in ("throttled", "preempted") for e in host.events)
        return host.truth(vcpu).stolen_ns / stops / MS

    assert latency_ms(0) / latency_ms(2) == pytest.approx(3, rel=0.25)
    assert latency_ms(4) / latency_ms(6) == pytest.approx(3, rel=0.25)


def test_the_high_performance_vm_is_that_of_the_paper():
    """32 vCPUs: three groups of those kinds, and one whose cores are its own."""
    got = capacities(run(vtime_shape.describe(PRESETS["hpvm"].phases, 32), 32, 2), 2)
    for first in (0, 8, 16):
        assert got[first : first + 4] == pytest.approx([0.5] * 4, rel=0.05)
        assert got[first + 4 : first + 8] == pytest.approx([0.25] * 4, rel=0.05)
    assert got[24:] == [1.0] * 8


def test_the_last_four_have_twice_the_capacity():
    got = capacities(run(vtime_shape.describe(PRESETS["asymmetric-capacity"].phases, 16), 16, 2), 2)
    assert got[:12] == pytest.approx([1 / 3] * 12, rel=0.03)
    assert got[12:] == pytest.approx([2 / 3] * 4, rel=0.03)
