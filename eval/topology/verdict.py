# SPDX-License-Identifier: GPL-2.0-only
"""Whether the stacks that a guest found are those of the host."""

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

Pair = tuple[int, int]


@dataclass(frozen=True)
class Verdict:
    """Of one trial. `outcome`: right, wrong, or undecided (a stack not found, none wrongly so).

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
    """Judge stacks. `shared`: pairs that the host kept on one core throughout, pinned or not;
    `undecided`: pairs of which the guest says that it could not tell."""
    if wrong := tuple(sorted(found - true)):
        return Verdict("wrong", wrong, by_chance=set(wrong) <= shared)
    if missing := tuple(sorted(true - found)):
        return Verdict("undecided" if undecided else "wrong", missing)
    return Verdict("right")
