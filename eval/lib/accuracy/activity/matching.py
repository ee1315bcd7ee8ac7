# SPDX-License-Identifier: GPL-2.0-only
"""Matching found gaps with true periods: pure, on sorted lists of (begin_ns, end_ns)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from vlab.tracing import OffCore, Period

COVERED_RATIO = 0.5  # of a period has to be covered for a match
LONG_NS = (1_000_000, 2_000_000)


@dataclass
class Score:
    """How the gaps of one vCPU, or of several, match the truth. Counts, and ns.

    A true period counts that began and ended within the window. `preempted`: the vCPU had been
    running; `woken`: it had been halted, and came late after its wake-up. Of the gaps, `emulator`
    are those in which its thread waited for another thread of the emulator, and `false` those in
    which it ran.
    """

    preempted_1ms: int = 0
    preempted_1ms_found: int = 0
    preempted_2ms: int = 0
    preempted_2ms_found: int = 0
    woken_1ms: int = 0
    woken_1ms_found: int = 0
    gaps: int = 0
    emulator: int = 0
    false: int = 0
    false_1ms: int = 0  # those of them that are at least 1 ms long
    stolen_ns: int = 0  # by the host's record
    found_ns: int = 0  # by the gaps
    emulator_ns: int = 0  # of that, what its thread waited for another of the emulator's

    def __add__(self, other: "Score") -> "Score":
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Score(**sums)


def covered_ns(periods: Sequence[Period], others: Sequence[Period]) -> list[int]:
    """How much of each period others cover. Both are sorted; the others do not overlap."""
    covered, first = [], 0
    for begin, end in periods:
        while first < len(others) and others[first][1] <= begin:
            first += 1
        total, at = 0, first
        while at < len(others) and others[at][0] < end:
            total += min(end, others[at][1]) - max(begin, others[at][0])
            at += 1
        covered.append(total)
    return covered


def merge(periods: Iterable[Period]) -> list[Period]:
    """The same time in order and without overlaps; what touches is joined."""
    merged: list[Period] = []
    for begin, end in sorted(periods):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def clip(periods: Iterable[Period], window: Period) -> list[Period]:
    """The parts of periods within a window."""
    return [
        (max(begin, window[0]), min(end, window[1]))
        for begin, end in periods
        if begin < window[1] and end > window[0]
    ]


def within(periods: Iterable[Period], window: Period) -> list[Period]:
    """The periods that are within a window as a whole."""
    return [(b, e) for b, e in sorted(periods) if window[0] <= b and e <= window[1]]


def score(truth: OffCore, gaps: Sequence[Period], window: Period) -> Score:
    """Match the gaps found on one vCPU, in the host's time, with the truth."""
    gaps = merge(gaps)
    inactive, asleep = merge(truth.inactive), merge(truth.asleep)
    inside = within(gaps, window)
    result = Score(
        gaps=len(inside),
        stolen_ns=total_ns(clip(inactive, window)),
        found_ns=total_ns(clip(gaps, window)),
        emulator_ns=sum(covered_ns(clip(gaps, window), asleep)),
    )
    stolen_in, asleep_in = covered_ns(inside, inactive), covered_ns(inside, asleep)
    for (begin, end), stolen_ns, asleep_ns in zip(inside, stolen_in, asleep_in, strict=True):
        needed_ns = (end - begin) * COVERED_RATIO
        if stolen_ns < needed_ns:
            if stolen_ns + asleep_ns < needed_ns:
                result.false += 1
                result.false_1ms += end - begin >= LONG_NS[0]
            else:
                result.emulator += 1
    one, two = LONG_NS
    result.preempted_1ms, result.preempted_1ms_found = _found(truth.preempted, gaps, window, one)
    result.preempted_2ms, result.preempted_2ms_found = _found(truth.preempted, gaps, window, two)
    result.woken_1ms, result.woken_1ms_found = _found(truth.woken, gaps, window, one)
    return result


def _found(
    truth: Sequence[Period], gaps: Sequence[Period], window: Period, at_least_ns: int
) -> tuple[int, int]:
    """How many true periods of a length there were, and how many of them were found."""
    periods = [(b, e) for b, e in within(truth, window) if e - b >= at_least_ns]
    shares = zip(periods, covered_ns(periods, gaps), strict=True)
    return len(periods), sum(ns >= (e - b) * COVERED_RATIO for (b, e), ns in shares)


def total_ns(periods: Iterable[Period]) -> int:
    """How long periods are together."""
    return sum(end - begin for begin, end in periods)
