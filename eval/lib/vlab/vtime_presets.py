# SPDX-License-Identifier: GPL-2.0-only
"""The papers' VMs at their real sizes, for the simulated host."""

import re

from .errors import EX_USAGE, LabError
from .presets import DEFAULT_VCPUS, Phase, Preset
from .vtime_shape import simulated_plan

# vSched, section 5.1, pairs of vCPUs by capacity and latency: hchl, hcll, lchl, lcll, as run time
# and period in ms. The high capacity is twice the low, the high latency three times the low.
_KINDS = ((9, 18), (3, 6), (3, 12), (1, 4))
_STRAGGLER = "5/100"


def find(name: str, vcpus: int | None = None) -> Preset:
    """The preset of this name, or one made of shapes of the lab's grammar.

    Shapes that follow each other are written "SHAPE for SECONDS; SHAPE for SECONDS".
    Raises LabError (64) for what is neither, or does not fit `vcpus`.
    """
    if name in PRESETS:
        preset = PRESETS[name]
        if vcpus and vcpus != preset.vcpus:
            raise LabError(f"'{name}' has {preset.vcpus} vCPUs; leave --vcpus away", EX_USAGE)
        return preset
    vcpus = vcpus or DEFAULT_VCPUS
    phases = _phases(name)
    try:
        for phase in phases:
            simulated_plan(phase.shape, vcpus)
    except LabError as why:
        raise LabError(f"{why.message}; or take one of {', '.join(PRESETS)}", EX_USAGE) from None
    return Preset(name, vcpus, phases, "a shape of the lab's grammar")


def _phases(text: str) -> tuple[Phase, ...]:
    if ";" not in text:
        return (Phase(text),)
    found = []
    for part in text.split(";"):
        shape, _, seconds = part.strip().rpartition(" for ")
        if not re.fullmatch(r"\d{1,4}(\.\d{1,3})?", seconds) or float(seconds) <= 0:
            raise LabError(
                f"phase '{part.strip()}' does not say how long it holds; write it as "
                "SHAPE for SECONDS",
                EX_USAGE,
            )
        found.append(Phase(shape.strip(), float(seconds)))
    return tuple(found)


def _preset(name: str, vcpus: int, shape: str, meaning: str) -> Preset:
    return Preset(name, vcpus, (Phase(shape),), meaning)


def _pairs(first: int) -> str:
    """Quotas for four pairs of siblings, one of each kind, from vCPU `first` on."""
    return "".join(
        f"+quota:{on}/{period}:{first + 2 * i}-{first + 2 * i + 1}"
        for i, (on, period) in enumerate(_KINDS)
    )


def _rcvm() -> Preset:
    """Five pairs of siblings, of which one are stragglers, and two vCPUs stacked on a core."""
    pins = "/".join([*map(str, range(10)), "10", "10"])
    return _preset(
        "rcvm",
        12,
        f"pin:{pins}+smt{_pairs(0)}+quota:{_STRAGGLER}:8-9",
        "vSched 5.1: four kinds of sibling pairs, two stragglers, two stacked",
    )


def _hpvm() -> Preset:
    """Four sockets with four pairs of siblings each; the last one is the VM's alone."""
    return _preset(
        "hpvm",
        32,
        f"honest+smt{_pairs(0)}{_pairs(8)}{_pairs(16)}",
        "vSched 5.1: four kinds of sibling pairs on three sockets, a fourth for itself",
    )


def _changing() -> Preset:
    weights = ",".join(["200"] * 8 + ["50"] * 8)
    return Preset(
        "changing",
        16,
        (
            Phase("honest", 1.5),
            Phase("honest+hog", 1.5),
            Phase(f"honest+hog+weight:{weights}", 1.5),
            Phase(f"stacked:0,1+quota:{_STRAGGLER}:14-15", 1.5),
        ),
        "vSched's figure 16: alone, overcommitted, asymmetric, stacked and throttled, 1.5 s each",
    )


def _neighbours() -> Preset:
    """Two other VMs of 16 vCPUs: first they synchronize a lot, then they compute."""
    return Preset(
        "neighbours",
        16,
        (Phase("floating:16+bursty:1/1*32", 3.0), Phase("floating:16+bursty:500/50*32", 3.0)),
        "vSched's figure 17: two more VMs on the same 16 cores, that talk, then compute",
    )


def _named(*presets: Preset) -> dict[str, Preset]:
    return {preset.name: preset for preset in presets}


PRESETS = _named(
    _preset("honest", 16, "honest", "nothing is taken: nothing may be lost"),
    _preset("symmetric-50", 16, "honest+hog", "vSched's figure 15: half of each core is another's"),
    _preset(
        "asymmetric-capacity",
        16,
        "honest+hog+weight:" + ",".join(["50"] * 12 + ["200"] * 4),
        "vSched's figure 11: the last four have twice the capacity of the others",
    ),
    _preset(
        "asymmetric-latency",
        16,
        "honest+quota:4/8:0-7+quota:8/16:8-15",
        "vSched's figure 14: all get half a core, the first half of them in turns half as long",
    ),
    _preset("smt", 32, "honest+smt", "vSched's figure 12: 16 pairs of siblings, nothing is taken"),
    _preset(
        "straggler",
        16,
        f"honest+quota:{_STRAGGLER}:15",
        "vSched's figure 4: one vCPU gets a twentieth of a core",
    ),
    _preset("stacked", 16, "packed:2", "vSched's figure 4: pairs of vCPUs on 8 cores"),
    _rcvm(),
    _hpvm(),
    _changing(),
    _neighbours(),
    *(
        _preset(f"irs-{n}", 4, f"honest+hog:{cores}", f"IRS: {n} of four vCPUs interfered with")
        for n, cores in ((1, "0"), (2, "0-1"), (4, "0-3"))
    ),
    _preset("overcommitted", 16, "floating:16+bursty:500/50*16", "another VM on the same 16 cores"),
)
