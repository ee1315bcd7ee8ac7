# SPDX-License-Identifier: GPL-2.0-only
"""The order of runs: randomised mirrored blocks, so that drift and order hit every arm alike."""

import random
from dataclasses import dataclass

PAIRS_PER_BLOCK = 2


@dataclass(frozen=True)
class Slot:
    """One run's place: `order` counts within the block, `pair` within the workload."""

    block: int
    order: int
    pair: int
    arm: str


def block(number: int, arms: list[str], seed: str) -> list[Slot]:
    """The runs of one block: the arms in random order, then in reverse (ABBA for two arms).

    Each half holds every arm once: these runs form a pair. A drift that is linear in time gives the
    two pairs of a block opposite errors. The same seed gives the same order.
    """
    first_half = list(arms)
    random.Random(f"{seed}/{number}").shuffle(first_half)
    order = first_half + first_half[::-1]
    return [
        Slot(number, place, number * PAIRS_PER_BLOCK + place // len(arms), arm)
        for place, arm in enumerate(order)
    ]
