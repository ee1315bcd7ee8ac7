# SPDX-License-Identifier: GPL-2.0-only
"""Shapes by name: the VMs of the papers, scaled to the cores of this host."""

from dataclasses import dataclass

from . import shapes
from .errors import EX_USAGE, LabError

DEFAULT_VCPUS = 4


@dataclass(frozen=True)
class Phase:
    """A shape that holds for so many seconds."""

    shape: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Preset:
    """A VM: how many vCPUs, what the host does to them, and after whom.

    More than one phase: the shape changes while a workload runs. `neighbours` are VMs beside it,
    each with a shell command as its own work.
    """

    name: str
    vcpus: int
    phases: tuple[Phase, ...]
    meaning: str
    neighbours: tuple[str, ...] = ()


def find(name: str, vcpus: int | None = None, cores: int | None = None) -> Preset:
    """The preset of this name, or one made of a shape of the lab's grammar.

    Raises LabError (64) for what is neither, or does not fit `vcpus`.
    """
    known = all_for(cores or len(shapes.host_cores()))
    if name in known:
        preset = known[name]
        if vcpus and vcpus != preset.vcpus:
            raise LabError(
                f"'{name}' has {preset.vcpus} vCPUs on this host; leave --vcpus away", EX_USAGE
            )
        return preset
    vcpus = vcpus or DEFAULT_VCPUS
    try:
        shapes.plan(name, vcpus)
    except LabError as why:
        raise LabError(f"{why.message}; or take one of {', '.join(known)}", EX_USAGE) from None
    return Preset(name, vcpus, (Phase(name),), "a shape of the lab's grammar")


def all_for(cores: int) -> dict[str, Preset]:
    """The presets on a host with so many cores (at least 2 for most)."""
    found = [make(cores) for make in _MAKERS]
    return {preset.name: preset for preset in found}


def _honest(cores: int) -> Preset:
    return Preset("honest", cores, (Phase("honest"),), "nothing is taken: nothing may be lost")


def _symmetric(cores: int) -> Preset:
    return Preset(
        "symmetric-50",
        2 * cores,
        (Phase(f"packed:2+{_duties(cores, 8, 8)}"),),
        "two vCPUs on a core, which a competitor takes half of the time",
    )


def _overcommitted(cores: int) -> Preset:
    return Preset(
        "overcommitted",
        2 * cores,
        (Phase(f"floating:{cores}+hog"),),
        "vCPUs and competitors float over the cores: plain overcommitment",
    )


def _capacity(cores: int) -> Preset:
    fast = ",".join(["400"] * cores + ["100"] * cores)
    return Preset(
        "asymmetric-capacity",
        2 * cores,
        (Phase(f"floating:{cores}+weight:{fast}"),),
        "half of the vCPUs have four times the weight of the others",
    )


def _latency(cores: int) -> Preset:
    count = 2 * cores
    few, many = _list(range(cores)), _list(range(cores, count))
    return Preset(
        "asymmetric-latency",
        count,
        (Phase(f"floating:{cores}+quota:4/8:{few}+quota:32/64:{many}"),),
        "all get half a core: one half in turns of 4 ms, the other in turns of 32 ms",
    )


def _straggler(cores: int) -> Preset:
    return Preset(
        "straggler",
        cores + 1,
        (Phase(f"floating:{cores}+quota:5/100:{cores}"),),
        "one vCPU gets a twentieth of a core",
    )


def _stacked(cores: int) -> Preset:
    return Preset(
        "stacked",
        cores + 1,
        (Phase("stacked:0,1"),),
        "two vCPUs on one core, the others on cores of their own",
    )


def _rcvm(cores: int) -> Preset:
    """vSched 5.1: pairs of high and low capacity with high and low latency, stragglers, a stack.

    Eight pairs of SMT siblings become single vCPUs that float over the host's cores under quotas:
    capacity and latency as there (half a core against a quarter, latencies 3:1), together less than
    the cores give, so that no quota waits for another.
    """
    kinds = ((30, 60), (10, 20), (15, 60), (5, 20))  # hchl, hcll, lchl, lcll: ms of ms
    quotas = "".join(f"+quota:{on}/{period}:{i}" for i, (on, period) in enumerate(kinds))
    last = str(cores - 1)
    everywhere = f"0-{last}" if cores > 1 else last
    pins = "/".join([everywhere] * 5 + [last] * 2)
    return Preset(
        "rcvm",
        7,
        (Phase(f"pin:{pins}{quotas}+quota:5/100:4+quota:10/50:5-6"),),
        "vSched's resource-constrained VM: four kinds, a straggler, two stacked",
    )


def _hpvm(cores: int) -> Preset:
    """vSched 5.1: the same four kinds less contended, and one group that is alone on its cores.

    Two cores carry the last three groups as one vCPU each.
    """
    kinds = ((15, 30), (5, 10), (8, 30))
    quotas = "".join(f"+quota:{on}/{period}:{i + 1}" for i, (on, period) in enumerate(kinds))
    shared = f"1-{cores - 1}" if cores > 2 else str(cores - 1)
    pins = "/".join(["0"] + [shared] * 3)
    return Preset(
        "hpvm",
        4,
        (Phase(f"pin:{pins}{quotas}"),),
        "vSched's high-performance VM: one vCPU of its own core, three kinds that share",
    )


def _changing(cores: int) -> Preset:
    """vSched figure 16: dedicated, overcommitted, asymmetric, then stacked and throttled."""
    count = 2 * cores
    weights = ",".join(["200"] * cores + ["100"] * cores)
    return Preset(
        "changing",
        count,
        (
            Phase(f"floating:{cores}", 1.5),
            Phase(f"floating:{cores}+hog", 1.5),
            Phase(f"floating:{cores}+hog+weight:{weights}", 1.5),
            Phase(f"stacked:0,1+quota:10/100:{count - 1}", 1.5),
        ),
        "vSched's figure 16: alone, overcommitted, asymmetric, stacked and throttled, 1.5 s each",
    )


def _neighbours(cores: int) -> Preset:
    """vSched figure 17: VMs that float over the same cores, with work that comes and goes."""
    return Preset(
        "neighbours",
        2 * cores,
        (Phase(f"floating:{cores}"),),
        "vSched's figure 17: two more VMs on the same cores, one talks, one computes in bursts",
        (
            "hackbench -g 2 --pipe -l 100; sleep 0.5",
            "sysbench cpu --threads=2 --time=1 run; sleep 0.7",
        ),
    )


def _duties(cores: int, on_ms: int, off_ms: int) -> str:
    """Competitors on each core, their phases spread so that not all cores are taken at once."""
    step_ms = (on_ms + off_ms) / cores
    return "+".join(f"duty:{on_ms}/{off_ms}:{i * step_ms:g}@{i}" for i in range(cores))


def _list(numbers: range) -> str:
    return f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else str(numbers[0])


_MAKERS = (
    *(_honest, _overcommitted, _symmetric, _capacity, _latency, _straggler, _stacked),
    *(_rcvm, _hpvm, _changing, _neighbours),
)
