# SPDX-License-Identifier: GPL-2.0-only
"""Shapes for the simulated host: plans written in the grammar of vtime/host/describe.c."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import shapes
from .errors import EX_USAGE, LabError
from .presets import Phase
from .shapes import Plan

MAX_PCPUS = 256
_PLACEMENTS = ("honest", "floating", "packed", "stacked", "pin")


@dataclass(frozen=True)
class Machine:
    """The host's kernel. None: the simulated host's default, which describe.c documents."""

    costs: str | None = None  # none, posted or exits
    hz: int | None = None
    slice_ms: float | None = None
    poll_ms: float | None = None  # KVM's halt_poll_ns; 0: the host does not poll


def describe(
    phases: Sequence[Phase], vcpus: int, cores: int | None = None, machine: Machine | None = None
) -> str:
    """The text for the simulated host. Several phases repeat, if each has a length.

    `cores`: how many the shapes may use. None: as many as they name; without a placement, one for
    each vCPU. Raises LabError (64) for a shape that does not fit.
    """
    plans = [simulated_plan(phase.shape, vcpus, cores) for phase in phases]
    lines = list(_machine(machine or Machine()))
    if len(phases) > 1 and all(phase.seconds > 0 for phase in phases):
        lines.append(f"cycle {_ms(sum(phase.seconds for phase in phases) * 1000)}")
    begin_s = 0.0
    for phase, plan in zip(phases, plans, strict=True):
        if begin_s:
            lines.append(f"at {_ms(begin_s * 1000)}")
        lines += _section(plan)
        begin_s += phase.seconds
    return "".join(f"{line}\n" for line in lines)


def simulated_plan(shape: str, vcpus: int, cores: int | None = None) -> Plan:
    """Work out a shape on simulated cores, which are numbered from 0. See describe()."""
    if cores is not None and not 1 <= cores <= MAX_PCPUS:
        raise LabError(f"a simulated host has 1 to {MAX_PCPUS} cores, not {cores}", EX_USAGE)
    names = {term.strip().partition(":")[0] for term in shape.split("+")}
    if cores is None and not names & set(_PLACEMENTS):
        shape = "+".join(filter(None, (f"floating:{min(vcpus, MAX_PCPUS)}", shape)))
    return shapes.plan(shape, vcpus, range(cores or MAX_PCPUS))


def _machine(machine: Machine) -> Iterable[str]:
    words = [
        f"costs={machine.costs}" if machine.costs else "",
        f"hz={machine.hz}" if machine.hz else "",
        f"slice={_ms(machine.slice_ms)}" if machine.slice_ms else "",
        f"poll={_ms(machine.poll_ms)}" if machine.poll_ms is not None else "",
    ]
    if any(words):
        yield " ".join(["host", *filter(None, words)])


def _section(plan: Plan) -> Iterable[str]:
    smt = f" smt={plan.smt_rate:g}" if plan.smt_rate else ""
    yield f"pcpus {_pcpus(plan)}{smt}"
    for ratio in sorted({ratio for _, ratio in plan.speeds}):
        yield f"speed {ratio:g} on={_list(cpu for cpu, r in plan.speeds if r == ratio)}"
    places = list(zip(plan.affinity, plan.weights, strict=True))
    for place in dict.fromkeys(places):
        mask, weight = place
        heavy = "" if weight == shapes.NORMAL_WEIGHT else f" weight={weight}"
        yield f"vcpu {_list(_where(places, place))} on={_list(mask)}{heavy}"
    for quota_us in dict.fromkeys(filter(None, plan.quotas_us)):
        yield f"quota {_quota(quota_us)} vcpu={_list(_where(plan.quotas_us, quota_us))}"
    if plan.vm_quota_us:
        yield f"quota {_quota(plan.vm_quota_us)} vcpu={_list(range(len(plan.affinity)))} shared"
    if plan.hogs:
        yield f"hog on={_list(plan.hogs)}"
    for sleeper in plan.sleepers:
        times = ",".join(f"{_ms(on)}/{_ms(off)}" for on, off in sleeper.times_ms)
        floating = f" floating={sleeper.floating}" if sleeper.floating else ""
        yield f"{sleeper.kind} {times} on={_list(sleeper.cpus)}{floating}"
    for duty in plan.duties:
        on, off, phase = (_ms(ns / 1e6) for ns in (duty.on_ns, duty.off_ns, duty.phase_ns))
        yield f"duty {on}/{off} on={duty.cpu} phase={phase}"


def _where(values: Sequence[object], value: object) -> list[int]:
    return [i for i, own in enumerate(values) if own == value]


def _pcpus(plan: Plan) -> int:
    used = {cpu for mask in plan.affinity for cpu in mask}
    used.update(plan.hogs, (duty.cpu for duty in plan.duties), (cpu for cpu, _ in plan.speeds))
    used.update(cpu for sleeper in plan.sleepers for cpu in sleeper.cpus)
    count = max(used) + 1
    return count + count % 2 if plan.smt_rate else count


def _quota(quota_us: tuple[int, int]) -> str:
    return f"{_ms(quota_us[0] / 1000)}/{_ms(quota_us[1] / 1000)}"


def _ms(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _list(numbers: Iterable[int]) -> str:
    """Such as 0-3,6."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in parts)
