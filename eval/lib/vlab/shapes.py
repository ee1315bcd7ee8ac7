# SPDX-License-Identifier: GPL-2.0-only
"""Shapes: what the host does to the vCPUs, by name. Text in, a plan of pins, weights, quotas and
competitors out; nothing here touches the machine."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .errors import EX_USAGE, LabError, notice

UNSHAPED = ""  # no pins beyond the host's cores, no competitors
NORMAL_WEIGHT = 100  # cgroup v2 units; competitors always have it

# Grammar of each term and its meaning; `vlab shapes`, the README and the errors speak from it.
GRAMMAR = {
    "honest": ("honest", "each vCPU pinned to a core of its own: nothing is taken"),
    "floating": ("floating:M", "all vCPUs float over M cores: plain overcommitment"),
    "packed": ("packed:N", "pinned, N vCPUs per core: vCPU i on core i/N"),
    "stacked": ("stacked:I,J", "vCPUs I and J pinned to one core, the others to the other cores"),
    "pin": ("pin:CORES/CORES/...", "each vCPU on the cores of its place in the list"),
    "hog": ("hog[:CORES]", "a spinner of equal weight on each core (default: every core in use)"),
    "quota": (
        "quota:ON/PERIOD[:VCPUS]",
        "each vCPU runs at most ON of every PERIOD ms (throttled)",
    ),
    "duty": (
        "duty:ON/OFF[:PHASE][@CORES]",
        "a real-time competitor takes the core for ON ms, leaves it for OFF ms, PHASE ms late",
    ),
    "weight": ("weight:W0,W1,...", "cgroup weight per vCPU, 1 to 10000; 100 is normal"),
    "smt": (
        "smt[:RATE]",
        "cores 2i and 2i+1 are siblings: each works at RATE (default 0.6) beside a busy one",
    ),
    "speed": ("speed:RATIO@CORES", "these cores work at RATIO of the fastest, 0.01 to 1"),
    "vmquota": ("vmquota:ON/PERIOD", "all vCPUs together run at most ON of every PERIOD ms"),
    "bursty": (
        "bursty:ON/OFF[*N][@CORES]",
        "competitors on each core, or N that float, compute ON and sleep OFF ms on average",
    ),
    "recorded": (
        "recorded:ON/OFF,ON/OFF,...[*N][@CORES]",
        "the same, for just these times, again and again",
    ),
}

# Terms of which only a simulated host is capable.
SIMULATED = ("smt", "speed", "vmquota", "bursty", "recorded")
SMT_RATE = 0.6  # two busy siblings do 1.2 times the work of one thread


@dataclass(frozen=True)
class Duty:
    """A real-time competitor on one host CPU: on for `on_ns`, off for `off_ns`, repeatedly."""

    cpu: int
    on_ns: int
    off_ns: int
    phase_ns: int


@dataclass(frozen=True)
class Sleeper:
    """Competitors that compute and sleep in turns: one on each core, or `floating` on all.

    `times_ms`: pairs of computing and sleeping; of `kind` "bursty" the only pair is the means.
    """

    kind: str
    cpus: tuple[int, ...]
    times_ms: tuple[tuple[float, float], ...]
    floating: int = 0


@dataclass(frozen=True)
class Plan:
    """A shape worked out for one VM on this host; CPU numbers are the host's.

    `simulated` names the terms that only a simulated host can follow.
    """

    affinity: tuple[tuple[int, ...], ...]  # per vCPU
    weights: tuple[int, ...]  # per vCPU, cgroup v2 units
    quotas_us: tuple[tuple[int, int] | None, ...]  # per vCPU: (run time, period)
    hogs: tuple[int, ...] = ()
    duties: tuple[Duty, ...] = ()
    sleepers: tuple[Sleeper, ...] = ()
    smt_rate: float | None = None
    speeds: tuple[tuple[int, float], ...] = ()  # CPU, ratio
    vm_quota_us: tuple[int, int] | None = None  # run time, period
    simulated: tuple[str, ...] = ()


@dataclass
class _Draft:
    """A plan while its terms are read."""

    vcpus: int
    cores: Sequence[int]
    placement: str = ""
    affinity: list[tuple[int, ...]] = field(default_factory=list)
    weights: tuple[int, ...] = ()
    quotas_us: list[tuple[int, int] | None] = field(default_factory=list)
    hogs: str | None = None
    duties: list[tuple[float, float, float, str]] = field(default_factory=list)
    sleepers: list[tuple[str, tuple[tuple[float, float], ...], int, str]] = field(
        default_factory=list
    )
    smt_rate: float | None = None
    speeds: dict[int, float] = field(default_factory=dict)
    vm_quota_us: tuple[int, int] | None = None
    simulated: list[str] = field(default_factory=list)


class _Bad(Exception):
    """Why a term does not fit; `plan` adds the term and its grammar."""


def host_cores() -> list[int]:
    """CPUs this process may use, one hardware thread of each core before any second one."""

    def rank(cpu: int) -> tuple[int, int]:
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        siblings = _numbers(path.read_text().strip()) if path.exists() else [cpu]
        return siblings.index(cpu), cpu

    return sorted(os.sched_getaffinity(0), key=rank)


def plan(text: str, vcpus: int, cores: Sequence[int] | None = None) -> Plan:
    """Work out shape `text` for a VM with `vcpus` vCPUs on host CPUs `cores`.

    Raises LabError (exit code 64) that names the bad term and the grammar it should follow.
    """
    draft = _Draft(vcpus, host_cores() if cores is None else cores)
    draft.quotas_us = [None] * vcpus
    for term in text.split("+") if text != UNSHAPED else ():
        name, _, rest = term.strip().partition(":")
        if name not in GRAMMAR:
            accepted = ", ".join(grammar for grammar, _ in GRAMMAR.values())
            raise LabError(
                f"shape '{text}' has an unknown term '{term.strip()}'; "
                f"join terms of these with '+': {accepted}",
                EX_USAGE,
            )
        try:
            _READERS[name](draft, rest)
        except _Bad as why:
            raise LabError(
                f"shape term '{term.strip()}' does not fit: {why}; write it as {GRAMMAR[name][0]}",
                EX_USAGE,
            ) from None
        if name in SIMULATED:
            draft.simulated.append(name)
    if not draft.placement:
        draft.affinity = [tuple(draft.cores)] * vcpus
    return _finish(draft)


def _finish(draft: _Draft) -> Plan:
    in_use = [cpu for cpu in draft.cores if any(cpu in mask for mask in draft.affinity)]
    hogs: list[int] = []
    if draft.hogs is not None:
        hogs = _cpus(draft.hogs, draft.cores) if draft.hogs else in_use
    duties = [
        Duty(cpu, *(round(ms * 1e6) for ms in (on_ms, off_ms, phase_ms)))
        for on_ms, off_ms, phase_ms, where in draft.duties
        for cpu in (_cpus(where, draft.cores) if where else in_use)
    ]
    sleepers = [
        Sleeper(kind, tuple(_cpus(where, draft.cores) if where else in_use), times, floating)
        for kind, times, floating, where in draft.sleepers
    ]
    return Plan(
        affinity=tuple(draft.affinity),
        weights=draft.weights or (NORMAL_WEIGHT,) * draft.vcpus,
        quotas_us=tuple(draft.quotas_us),
        hogs=tuple(hogs),
        duties=tuple(duties),
        sleepers=tuple(sleepers),
        smt_rate=draft.smt_rate,
        speeds=tuple(sorted(draft.speeds.items())),
        vm_quota_us=draft.vm_quota_us,
        simulated=tuple(draft.simulated),
    )


def _place(draft: _Draft, name: str, affinity: list[tuple[int, ...]]) -> None:
    if draft.placement:
        raise _Bad(f"the shape already places its vCPUs by '{draft.placement}'")
    draft.placement = name
    draft.affinity = affinity


def _honest(draft: _Draft, rest: str) -> None:
    if rest:
        raise _Bad("it takes no argument")
    if draft.vcpus > len(draft.cores):
        raise _Bad(f"{draft.vcpus} vCPUs need as many cores, and this host has {len(draft.cores)}")
    _place(draft, "honest", [(cpu,) for cpu in draft.cores[: draft.vcpus]])


def _floating(draft: _Draft, rest: str) -> None:
    count = _count(rest, "the number of cores")
    if count > len(draft.cores):
        raise _Bad(f"this host has {len(draft.cores)} cores")
    _place(draft, "floating", [tuple(draft.cores[:count])] * draft.vcpus)


def _packed(draft: _Draft, rest: str) -> None:
    per_core = _count(rest, "the number of vCPUs per core")
    needed = -(-draft.vcpus // per_core)
    if needed > len(draft.cores):
        raise _Bad(
            f"{draft.vcpus} vCPUs at {per_core} per core need {needed} cores, "
            f"and this host has {len(draft.cores)}"
        )
    _place(draft, "packed", [(draft.cores[i // per_core],) for i in range(draft.vcpus)])


def _stacked(draft: _Draft, rest: str) -> None:
    pair = _numbers(rest)
    if len(pair) != 2:
        raise _Bad("it takes two different vCPUs")
    _check_below(pair, draft.vcpus, "vCPU")
    others = [vcpu for vcpu in range(draft.vcpus) if vcpu not in pair]
    free = draft.cores[1:]
    if others and not free:
        raise _Bad("the other vCPUs need a second core, and this host has 1")
    if len(others) > len(free):
        notice(
            f"stacked:{rest} leaves {len(others)} vCPUs for {len(free)} other core(s), so they are "
            f"stacked as well; use {2 + len(free)} vCPUs or fewer to stack only the two."
        )
    affinity = [(draft.cores[0],)] * draft.vcpus
    for i, vcpu in enumerate(others):
        affinity[vcpu] = (free[i % len(free)],)
    _place(draft, "stacked", affinity)


def _pin(draft: _Draft, rest: str) -> None:
    lists = rest.split("/")
    if len(lists) != draft.vcpus:
        raise _Bad(f"it has {len(lists)} lists for {draft.vcpus} vCPUs")
    _place(draft, "pin", [tuple(_cpus(cores, draft.cores)) for cores in lists])


def _hog(draft: _Draft, rest: str) -> None:
    if draft.hogs is not None:
        raise _Bad("the shape already has a hog")
    if rest:
        _cpus(rest, draft.cores)
    draft.hogs = rest


def _quota(draft: _Draft, rest: str) -> None:
    ratio, _, vcpus = rest.partition(":")
    on_ms, period_ms = _quota_times(ratio)
    if on_ms > period_ms:
        raise _Bad("the run time must be from 1 ms to the period")
    chosen = _numbers(vcpus) if vcpus else range(draft.vcpus)
    _check_below(chosen, draft.vcpus, "vCPU")
    for vcpu in chosen:
        if draft.quotas_us[vcpu]:
            raise _Bad(f"vCPU {vcpu} already has a quota")
        draft.quotas_us[vcpu] = (round(on_ms * 1000), round(period_ms * 1000))


def _quota_times(text: str) -> tuple[float, float]:
    on_ms, period_ms = _ratio(text)
    if not 1 <= period_ms <= 1000:
        raise _Bad("the kernel takes periods from 1 to 1000 ms")
    if on_ms < 1:
        raise _Bad("the run time must be 1 ms or more")
    return on_ms, period_ms


def _vmquota(draft: _Draft, rest: str) -> None:
    if draft.vm_quota_us:
        raise _Bad("the shape already has a quota of all vCPUs")
    on_ms, period_ms = _quota_times(rest)
    draft.vm_quota_us = (round(on_ms * 1000), round(period_ms * 1000))


def _duty(draft: _Draft, rest: str) -> None:
    times, _, cores = rest.partition("@")
    ratio, _, phase = times.partition(":")
    on_ms, off_ms = _ratio(ratio)
    if off_ms < 0.1:
        raise _Bad("off times shorter than 0.1 ms cannot be kept")
    phase_ms = _milliseconds(phase) if phase else 0.0
    if cores or "@" in rest:
        _cpus(cores, draft.cores)
    draft.duties.append((on_ms, off_ms, phase_ms, cores))


def _weight(draft: _Draft, rest: str) -> None:
    if draft.weights:
        raise _Bad("the shape already has weights")
    values = rest.split(",")
    if not all(re.fullmatch(r"\d{1,5}", v) and 1 <= int(v) <= 10000 for v in values):
        raise _Bad("weights are whole numbers from 1 to 10000")
    if len(values) != draft.vcpus:
        raise _Bad(f"it has {len(values)} weights for {draft.vcpus} vCPUs")
    draft.weights = tuple(int(v) for v in values)


def _smt(draft: _Draft, rest: str) -> None:
    if draft.smt_rate:
        raise _Bad("the shape already says so")
    draft.smt_rate = _between(rest, 0.1) if rest else SMT_RATE


def _speed(draft: _Draft, rest: str) -> None:
    ratio, _, cores = rest.partition("@")
    for cpu in _cpus(cores, draft.cores):
        if cpu in draft.speeds:
            raise _Bad(f"core {cpu} already has a speed")
        draft.speeds[cpu] = _between(ratio, 0.01)


def _bursty(draft: _Draft, rest: str) -> None:
    _sleepers(draft, "bursty", rest, 1)


def _recorded(draft: _Draft, rest: str) -> None:
    _sleepers(draft, "recorded", rest, 100_000)


def _sleepers(draft: _Draft, kind: str, rest: str, most: int) -> None:
    work, _, cores = rest.partition("@")
    pairs, star, floating = work.partition("*")
    times_ms = tuple(_ratio(pair) for pair in pairs.split(","))
    if len(times_ms) > most:
        raise _Bad(f"it takes {most} pair of times")
    if min(map(min, times_ms)) <= 0:
        raise _Bad("times must be above 0")
    if cores or "@" in rest:
        _cpus(cores, draft.cores)
    count = _count(floating, "the number that float") if star else 0
    draft.sleepers.append((kind, times_ms, count, cores))


_READERS = {
    "honest": _honest,
    "floating": _floating,
    "packed": _packed,
    "stacked": _stacked,
    "pin": _pin,
    "hog": _hog,
    "quota": _quota,
    "duty": _duty,
    "weight": _weight,
    "smt": _smt,
    "speed": _speed,
    "vmquota": _vmquota,
    "bursty": _bursty,
    "recorded": _recorded,
}


def _count(text: str, what: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,3}", text):
        raise _Bad(f"{what} is missing or not a whole number above 0")
    return int(text)


def _numbers(text: str) -> list[int]:
    """Read a list such as `0,2-3`, in order and without repeats."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part)
        if not match:
            raise _Bad(f"'{text}' is not a list of numbers such as 0,2-3")
        first, last = int(match[1]), int(match[2] or match[1])
        found.update(range(first, last + 1))
    return sorted(found)


def _cpus(text: str, cores: Sequence[int]) -> list[int]:
    indexes = _numbers(text)
    _check_below(indexes, len(cores), "core")
    return [cores[i] for i in indexes]


def _check_below(numbers: Sequence[int], limit: int, what: str) -> None:
    for number in numbers:
        if number >= limit:
            raise _Bad(f"there is no {what} {number}, they go from 0 to {limit - 1}")


def _ratio(text: str) -> tuple[float, float]:
    first, slash, second = text.partition("/")
    if not slash:
        raise _Bad("it needs two times in ms with a '/' between them")
    return _milliseconds(first), _milliseconds(second)


def _between(text: str, least: float) -> float:
    if not re.fullmatch(r"\d(\.\d{1,6})?", text) or not least <= float(text) <= 1:
        raise _Bad(f"'{text}' is not a number from {least} to 1")
    return float(text)


def _milliseconds(text: str) -> float:
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", text):
        raise _Bad(f"'{text}' is not a time in ms")
    return float(text)
