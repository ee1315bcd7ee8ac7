# SPDX-License-Identifier: GPL-2.0-only
"""Whether the stacks that a guest found are those of the host."""

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

Pair = tuple[int, int]


@dataclass(frozen=True)
class Verdict:
    """Of one pass. `outcome`: right, wrong, or undecided (some pairs are open, none wrongly told).

    `by_chance`: the wrong pairs are vCPUs that may float, and the host kept both on one core all
    the time.
    """

    outcome: str
    wrong: tuple[Pair, ...] = ()
    by_chance: bool = False


def pairs_of(groups: Iterable[Collection[int]]) -> set[Pair]:
    """All pairs within groups, the lower number first."""
    return {pair for group in groups for pair in itertools.combinations(sorted(group), 2)}


def stacked(affinity: Sequence[Sequence[int]]) -> set[Pair]:
    """The pairs of vCPUs that are pinned to the same single core."""
    by_core: dict[int, list[int]] = {}
    for vcpu, cpus in enumerate(affinity):
        if len(cpus) == 1:
            by_core.setdefault(cpus[0], []).append(vcpu)
    return pairs_of(by_core.values())


def judge(found: set[Pair], true: set[Pair], shared: set[Pair], undecided: int) -> Verdict:
    """Judge the stacks that the guest is sure of. `shared`: pairs that the host kept on one core
    throughout, pinned or not; `undecided`: pairs of which the guest says that it is not sure."""
    if wrong := tuple(sorted(found - true)):
        return Verdict("wrong", wrong, by_chance=set(wrong) <= shared)
    if undecided:
        return Verdict("undecided")
    if missing := tuple(sorted(true - found)):
        return Verdict("wrong", missing)
    return Verdict("right")
