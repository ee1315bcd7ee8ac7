# SPDX-License-Identifier: GPL-2.0-only
"""The order of runs."""

from collections import Counter

import pytest
from paired import blocks

ARMS = ["eevdf", "eevdf'", "scx_vaware", "scx_bpfland"]


@pytest.mark.parametrize("number", range(8))
def test_each_block_and_each_pair_holds_every_arm_alike(number):
    slots = blocks.block(number, ARMS, "seed")
    assert Counter(slot.arm for slot in slots) == dict.fromkeys(ARMS, 2)
    for pair in (2 * number, 2 * number + 1):
        assert sorted(slot.arm for slot in slots if slot.pair == pair) == sorted(ARMS)
    assert [slot.order for slot in slots] == list(range(len(slots)))


@pytest.mark.parametrize("number", range(8))
def test_a_linear_drift_hits_every_arm_alike(number):
    slots = blocks.block(number, ARMS, "seed")
    drift = Counter()
    for slot in slots:
        drift[slot.arm] += slot.order
    assert len(set(drift.values())) == 1


def test_the_order_is_random_and_repeatable():
    orders = [[slot.arm for slot in blocks.block(n, ARMS, "seed")] for n in range(20)]
    assert orders == [[slot.arm for slot in blocks.block(n, ARMS, "seed")] for n in range(20)]
    assert len({tuple(order) for order in orders}) > 5
    first = Counter(order[0] for order in orders)
    assert set(first) == set(ARMS)
