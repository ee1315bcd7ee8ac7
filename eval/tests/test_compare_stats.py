# SPDX-License-Identifier: GPL-2.0-only
"""Contrasts, intervals and verdicts: properties, cases with a known answer, and error rates.

Simulations are seeded, so that they tell the same in each run.
"""

import math
from collections import Counter

import numpy
import pytest

from compare import stats
from compare.stats import ALPHA, DEFAULT_BLOCKS, MARGIN_RATIO, MIN_BLOCKS, Evidence

# What `make eval` compares at most: shapes, workloads, arms beside the baseline.
PAGE_CELLS = 11 * 16 * 7
ARMS = 7
PAGES = 400


def page(draw, spread: float, effect: float = 0.0, workloads=16, arms=ARMS, arm_spread=None):
    """Contrasts and A/A noise of a page, a column per cell; arms of a workload share baselines."""
    shape = DEFAULT_BLOCKS, workloads
    one, other = draw.normal(0, spread, (2, *shape))
    values = effect + draw.normal(0, arm_spread or spread, (*shape, arms))
    contrasts = values - ((one + other) / 2)[:, :, None]
    return contrasts.reshape(DEFAULT_BLOCKS, -1), numpy.repeat(one - other, arms, axis=1)


def verdicts(contrasts, noise, family: int = 0) -> list[str]:
    found = stats.evidence(contrasts, noise)
    claims = zip(found.better, found.worse, found.level, strict=True)
    return [word for word, _ in stats.verdicts([Evidence(*each) for each in claims], family)]


def stopped(contrasts, noise) -> list[str]:
    """The verdicts if each cell gets blocks until it has one."""
    cells = [Evidence()] * contrasts.shape[1]
    words = ["undecided"] * len(cells)
    for blocks in range(MIN_BLOCKS, len(contrasts) + 1):
        found = stats.evidence(contrasts[:blocks], noise[:blocks])
        claims = zip(found.better, found.worse, found.level, strict=True)
        for i, claim in enumerate(claims):
            if words[i] == "undecided":
                cells[i] = Evidence(*claim)
        now = stats.verdicts(cells)
        words = [
            new if old == "undecided" else old for old, (new, _) in zip(words, now, strict=True)
        ]
    return words


def alone(logs, margin_ratio: float = MARGIN_RATIO) -> Evidence:
    """The evidence where the baselines agree."""
    return stats.evidence(logs, [0.0] * len(logs), margin_ratio)


def block_values(seed: int, blocks: int = 8) -> list[dict[int, float]]:
    """An arm's and two baselines' values, with blocks that differ by a factor of 4."""
    draw = numpy.random.default_rng(seed)
    level = draw.uniform(1, 4, blocks)
    return [
        dict(enumerate(level * factor * draw.lognormal(0, 0.05, blocks)))
        for factor in (1.2, 1.0, 1.0)
    ]


def scaled(values: dict[int, float], factors) -> dict[int, float]:
    return {block: value * factors[block] for block, value in values.items()}


@pytest.mark.parametrize("seed", range(10))
def test_neither_a_unit_nor_a_slow_block_changes_anything(seed):
    arm, *baselines = block_values(seed)
    expected = stats.contrasts(arm, baselines, "lower")
    for factors in (8 * [1000.0], numpy.random.default_rng(seed).uniform(0.1, 10, 8)):
        same = [scaled(each, factors) for each in (arm, *baselines)]
        assert stats.contrasts(same[0], same[1:], "lower") == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(10))
def test_the_baselines_are_equals_and_the_other_direction_is_the_inverse(seed):
    arm, *baselines = block_values(seed)
    logs = stats.contrasts(arm, baselines, "higher")
    assert stats.contrasts(arm, baselines[::-1], "higher") == pytest.approx(logs)
    inverse = stats.contrasts(arm, baselines, "lower")
    assert inverse == pytest.approx([-log for log in logs])
    one, other = alone(logs), alone(inverse)
    assert (one.better, one.worse, one.level) == pytest.approx(
        (other.worse, other.better, other.level)
    )
    ratio, inverted = stats.estimate(logs), stats.estimate(inverse)
    assert (ratio.low, ratio.high) == pytest.approx((1 / inverted.high, 1 / inverted.low))


def test_a_block_counts_only_if_it_is_whole_and_positive():
    arm, one, two = {1: 2.0, 2: 2.0, 3: 0.0, 4: 8.0}, {1: 1.0, 3: 1.0, 4: 4.0}, {1: 4.0, 3: 1.0}
    assert stats.contrasts(arm, [one, two], "higher") == pytest.approx([0.0])
    assert stats.contrasts(arm, [one], "higher") == pytest.approx([math.log(2)] * 2)


def test_the_interval_is_students():
    """Of 1, 2, 3, 4, 5: mean 3, standard error 0.7071, and t of 0.975 at 4 is 2.776 (a table's)."""
    found = stats.estimate([0.01, 0.02, 0.03, 0.04, 0.05])
    assert found.ratio == pytest.approx(math.exp(0.03))
    assert math.log(found.high) == pytest.approx(0.03 + 2.776 * 0.007071, abs=1e-5)
    assert math.log(found.low) == pytest.approx(0.03 - 2.776 * 0.007071, abs=1e-5)


def test_an_interval_of_few_blocks_is_wide_and_only_for_those_who_ask():
    logs = [math.log(2), math.log(2.2), math.log(1.8)]
    found = stats.estimate(logs, min_blocks=2)
    assert 1 < found.low < 1.7 < found.ratio < 2.3 < found.high < 3
    assert stats.estimate(logs).low == 0
    assert stats.estimate(logs[:1], min_blocks=2).low == 0


def test_few_blocks_have_no_interval_and_decide_nothing():
    logs = [math.log(3)] * (MIN_BLOCKS - 1)
    assert stats.estimate(logs) == stats.Estimate(pytest.approx(3.0), 0.0, math.inf, len(logs))
    assert alone(logs) == alone([]) == Evidence(1.0, 1.0, 1.0)
    assert stats.estimate([]) is None


def test_equal_readings_are_no_proof_of_a_small_difference():
    resolution = math.log(1 + stats.RESOLUTION)
    assert alone([resolution] * MIN_BLOCKS).better > ALPHA
    assert alone([math.log(1.5)] * MIN_BLOCKS).better < ALPHA


def test_a_certain_difference_within_the_margin_is_level():
    logs = [0.5 * math.log1p(MARGIN_RATIO) + noise for noise in (1e-4, -1e-4) * 5]
    found = alone(logs)
    assert found.better < ALPHA and found.verdict(ALPHA) == "level"
    assert alone(logs, MARGIN_RATIO / 4).verdict(ALPHA) == "better"


@pytest.mark.parametrize("seed", range(20))
def test_more_blocks_never_weaken_a_claim(seed):
    draw = numpy.random.default_rng(seed)
    logs = draw.normal(draw.choice([0, 0.02, -0.1]), 0.01, 20)
    before = Evidence()
    for blocks in range(len(logs) + 1):
        now = alone(logs[:blocks])
        assert now.better <= before.better
        assert now.worse <= before.worse and now.level <= before.level
        before = now


def test_many_cells_at_once_are_the_cells_one_by_one():
    logs, noise = page(numpy.random.default_rng(1), 0.01, workloads=3)
    together = stats.evidence(logs, noise)
    for cell in range(logs.shape[1]):
        single = stats.evidence(logs[:, cell], noise[:, cell])
        assert single.better == pytest.approx(together.better[cell])
        assert single.level == pytest.approx(together.level[cell])


def test_contrasts_that_agree_by_chance_are_not_believed_if_the_baselines_do_not():
    contrasts = [math.log(1.4)] * DEFAULT_BLOCKS
    noise = [math.log(2), -math.log(2)] * (DEFAULT_BLOCKS // 2)
    assert alone(contrasts).better < 1e-6
    assert stats.evidence(contrasts, noise).better > 1e-4


def test_holm_on_a_case_worked_by_hand():
    assert stats.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert stats.holm([0.9, 0.001]) == pytest.approx([0.9, 0.002])
    assert stats.holm([0.001, 0.02], family=10) == pytest.approx([0.01, 0.18])
    assert stats.holm([]) == []


def test_a_page_with_more_cells_asks_for_more():
    cell = Evidence(better=0.01)
    assert stats.verdicts([cell]) == [("better", 0.01)]
    assert stats.verdicts([cell], family=10) == [("undecided", pytest.approx(0.1))]
    assert stats.verdicts([cell, Evidence(level=0.0)])[1] == ("level", 0.0)


@pytest.mark.parametrize(
    "effect, verdict", [(math.log(1.03), "better"), (-math.log(1.03), "worse"), (0.0, "level")]
)
def test_the_default_number_of_blocks_decides(effect, verdict):
    """Of 3 %, or of nothing, at an A/A noise of 0.5 %, on the largest page: 9 of 10 cells or more.

    The A/A noise is the standard deviation of the logarithm of two baselines' ratio.
    """
    contrasts, noise = page(
        numpy.random.default_rng(1), 0.005 / math.sqrt(2), effect, PAGE_CELLS // ARMS
    )
    found = verdicts(contrasts, noise)
    assert len(found) == PAGE_CELLS
    assert found.count(verdict) >= 0.9 * PAGE_CELLS


@pytest.mark.parametrize("spread, arm_spread", [(0.005, 0.005), (0.05, 0.05), (0.005, 0.1)])
def test_without_an_effect_one_page_of_twenty_may_be_wrong(spread, arm_spread):
    """Whether all blocks run, or each cell stops as soon as it looks decided."""
    draw = numpy.random.default_rng(2)
    wrong = Counter()
    for _ in range(PAGES):
        cells = page(draw, spread, workloads=8, arms=3, arm_spread=arm_spread)
        for procedure in (verdicts, stopped):
            wrong[procedure] += not {"better", "worse"}.isdisjoint(procedure(*cells))
    assert max(wrong.values()) <= ALPHA * PAGES


def test_looking_after_each_block_without_a_correction_would_be_wrong_more_often():
    """So the simulation can tell: the same cells by plain t intervals at 95 % after each block."""
    draw = numpy.random.default_rng(2)
    logs = draw.normal(0, 0.02, (DEFAULT_BLOCKS, 2000))
    estimates = [
        [stats.estimate(cell[:blocks]) for blocks in range(MIN_BLOCKS, DEFAULT_BLOCKS + 1)]
        for cell in logs.T
    ]
    wrong = sum(any(not each.low <= 1 <= each.high for each in cell) for cell in estimates)
    assert wrong > 2 * ALPHA * len(estimates)


def test_baselines_that_are_fast_or_slow_by_chance_do_not_make_verdicts():
    """As without a steal clock: where a task starts decides, and a seed is one or the other."""
    draw = numpy.random.default_rng(3)
    wrong = 0
    for _ in range(PAGES):
        runs = draw.choice([0.0, math.log(2)], (DEFAULT_BLOCKS, 8, 3)) + draw.normal(
            0, 0.01, (DEFAULT_BLOCKS, 8, 3)
        )
        arm, one, other = numpy.moveaxis(runs, 2, 0)
        found = verdicts(arm - (one + other) / 2, one - other)
        wrong += any(word != "undecided" for word in found)
    assert wrong <= ALPHA * PAGES


def test_a_difference_as_large_as_the_margin_is_not_called_level():
    draw = numpy.random.default_rng(4)
    edge = math.log1p(MARGIN_RATIO)
    wrong = sum(
        "level" in verdicts(*page(draw, 0.005, edge, workloads=8, arms=3)) for _ in range(PAGES)
    )
    assert wrong <= ALPHA * PAGES


def test_the_interval_covers_the_truth_as_often_as_it_says():
    draw = numpy.random.default_rng(5)
    estimates = [stats.estimate(draw.normal(0.1, 0.03, 6)) for _ in range(2000)]
    covered = sum(each.low <= math.exp(0.1) <= each.high for each in estimates) / 2000
    assert covered == pytest.approx(0.95, abs=0.015)  # three standard errors


def test_the_change_between_two_comparisons():
    draw = numpy.random.default_rng(6)
    old, new = list(draw.normal(0, 0.02, 10)), list(draw.normal(math.log(1.3), 0.05, 8))
    found, p = stats.change(old, new)
    assert found.low < 1.3 < found.high and found.low > 1.1 and p < 0.001
    back, same_p = stats.change(new, old)
    assert (back.ratio, same_p) == pytest.approx((1 / found.ratio, p))
    assert stats.change(old[:2], new)[0].low == 0
    assert stats.change([], new) == (None, 1.0)
