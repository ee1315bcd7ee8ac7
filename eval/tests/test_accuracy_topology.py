# SPDX-License-Identifier: GPL-2.0-only
"""How trials of vtop are judged."""

from accuracy.topology.trials import nr_open, stacks
from accuracy.topology.verdict import judge, pairs_of, stacked


def test_pairs_pinned_to_one_core_are_stacked():
    assert stacked([(0,), (0,), (1,), (0,)]) == {(0, 1), (0, 3), (1, 3)}
    assert stacked([(0, 1), (0, 1)]) == set()


def test_a_stack_that_is_none_is_wrong():
    verdict = judge({(0, 1)}, set(), shared=set(), undecided=0)
    assert (verdict.outcome, verdict.wrong, verdict.by_chance) == ("wrong", ((0, 1),), False)
    assert judge({(0, 1)}, set(), shared={(0, 1)}, undecided=0).by_chance


def test_a_stack_that_is_not_found_is_wrong_unless_it_is_said_to_be_unknown():
    assert judge(set(), {(0, 1)}, shared=set(), undecided=1).outcome == "undecided"
    assert judge(set(), {(0, 1)}, shared=set(), undecided=0).outcome == "wrong"
    assert judge({(0, 1)}, {(0, 1)}, shared=set(), undecided=0).outcome == "right"


def test_what_the_guest_is_not_sure_of_is_neither_right_nor_wrong():
    found = {"undecided": 1, "stacks": [{"members": [0, 1], "confidence": 0.2}]}
    assert (stacks(found), nr_open(found)) == (set(), 2)
    assert (
        judge(stacks(found), set(), shared=set(), undecided=nr_open(found)).outcome == "undecided"
    )


def test_groups_are_all_their_pairs():
    assert pairs_of([[2, 0, 1], [5]]) == {(0, 1), (0, 2), (1, 2)}
