# SPDX-License-Identifier: GPL-2.0-only
"""Ratios, intervals and verdicts on cases whose answer is known."""

import math
import random

import pytest
from paired import report, stats


def noisy_pairs(pairs: int, shift: float, spread: float, seed: int) -> list[float]:
    """Log-ratios of pairs whose true ratio is `shift`."""
    draw = random.Random(seed)
    return [math.log(shift) + draw.gauss(0, spread) - draw.gauss(0, spread) for _ in range(pairs)]


def test_a_lower_time_and_a_higher_rate_are_both_above_one():
    assert math.exp(stats.log_ratio(10.0, 5.0, "lower")) == pytest.approx(2.0)
    assert math.exp(stats.log_ratio(10.0, 5.0, "higher")) == pytest.approx(0.5)


@pytest.mark.parametrize("baseline, value", [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0)])
def test_no_ratio_exists_with_what_is_not_positive(baseline, value):
    assert stats.log_ratio(baseline, value, "lower") is None


def test_equal_arms_cover_one():
    """In about 95 of 100 experiments; the bootstrap is a little too narrow at 20 pairs."""
    experiments = [stats.estimate(noisy_pairs(20, 1.0, 0.1, seed)) for seed in range(100)]
    covered = sum(estimate.low <= 1 <= estimate.high for estimate in experiments)
    assert 85 <= covered <= 99


def test_a_shift_beyond_the_noise_is_found():
    shifted = stats.estimate(noisy_pairs(20, 1.3, 0.1, seed=1))
    same = stats.estimate(noisy_pairs(20, 1.0, 0.1, seed=2))
    assert shifted.low < 1.3 < shifted.high
    assert stats.verdict(shifted, same) == "better"
    assert stats.verdict(stats.estimate(noisy_pairs(20, 0.7, 0.1, seed=1)), same) == "worse"
    assert stats.verdict(same, same) == "undecided"


def test_the_ratio_is_the_geometric_mean():
    estimate = stats.estimate([math.log(2), math.log(8), math.log(2), math.log(8)])
    assert estimate.ratio == pytest.approx(4.0)
    assert estimate.pairs == 4


def test_more_pairs_narrow_the_interval():
    few = stats.estimate(noisy_pairs(10, 1.0, 0.1, seed=3))
    many = stats.estimate(noisy_pairs(160, 1.0, 0.1, seed=3))
    assert many.half_width < few.half_width / 2


def test_few_pairs_decide_nothing():
    estimate = stats.estimate([math.log(3)] * (stats.MIN_PAIRS - 1))
    assert estimate.ratio == pytest.approx(3.0)
    assert stats.verdict(estimate, None) == "undecided"
    assert stats.estimate([]) is None
    assert stats.verdict(None, None) == "undecided"


def test_few_pairs_are_shown_as_they_are():
    few = stats.estimate([math.log(0.5), math.log(2.0)])
    assert (few.lowest, few.highest) == pytest.approx((0.5, 2.0))
    assert report.interval(few, 2) == "1.00 [0.50, 2.00]"
    assert "[" not in report.interval(stats.estimate(noisy_pairs(20, 1.0, 0.1, seed=1)))


def test_pairs_without_any_spread_have_an_interval():
    estimate = stats.estimate([math.log(1.5)] * 10)
    assert (estimate.low, estimate.high) == (pytest.approx(1.5), pytest.approx(1.5))


def test_a_gain_within_the_noise_floor_is_no_gain():
    arm = stats.Estimate(ratio=1.02, low=1.01, high=1.03, pairs=20)
    noise = stats.Estimate(ratio=1.00, low=0.96, high=1.04, pairs=20)
    assert stats.verdict(arm, noise) == "undecided"
    assert stats.verdict(arm, None) == "better"


def test_the_same_runs_give_the_same_report():
    pairs = noisy_pairs(12, 1.1, 0.2, seed=4)
    assert stats.estimate(pairs) == stats.estimate(pairs)


def test_wilcoxon_finds_what_always_points_one_way_and_nothing_else():
    assert stats.p_value([0.1 + 0.01 * i for i in range(10)]) == pytest.approx(2 / 2**10)
    assert stats.p_value([0.1, -0.1, 0.2, -0.2, 0.3, -0.3]) > 0.5
    assert stats.p_value([0.0] * 10) == stats.p_value([]) == 1.0


def test_holm_on_a_case_worked_by_hand():
    assert stats.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert stats.holm([0.9, 0.001]) == pytest.approx([0.9, 0.002])
    assert stats.holm([]) == []


def test_a_test_that_does_not_agree_leaves_it_undecided():
    arm = stats.Estimate(ratio=1.2, low=1.1, high=1.3, pairs=20)
    assert stats.verdict(arm, None, p=0.01) == "better"
    assert stats.verdict(arm, None, p=0.06) == "undecided"


def test_cliffs_delta_is_the_balance_of_wins_and_losses():
    assert stats.cliffs_delta([1, 2], [3, 4], "higher") == 1
    assert stats.cliffs_delta([1, 2], [3, 4], "lower") == -1
    assert stats.cliffs_delta([1, 3], [2, 2], "higher") == 0
    assert stats.cliffs_delta([], [1], "higher") is None


def test_the_geometric_mean_counts_each_workload_alike():
    double, half = [math.log(2)] * 20, [math.log(0.5)] * 4
    mean = stats.geometric_mean([double, half])
    assert mean.ratio == pytest.approx(1.0)
    assert mean.low == pytest.approx(mean.high) == pytest.approx(1.0)
    assert stats.geometric_mean([]) is None
    noisy = [noisy_pairs(20, 1.2, 0.1, seed) for seed in range(5)]
    assert stats.geometric_mean(noisy).low > 1


def test_the_change_between_samples_that_are_no_pairs():
    old, new = noisy_pairs(20, 1.0, 0.05, 1), noisy_pairs(20, 1.3, 0.05, 2)
    found = stats.change(old, new)
    assert found.low < 1.3 < found.high and found.low > 1.1
    assert stats.rank_sum_p_value(old, new) < 0.001
    assert stats.change([], new) is None


def test_a_noise_floor_reaches_as_far_in_both_directions():
    noise = stats.Estimate(ratio=1.6, low=1.2, high=2.0, pairs=20)
    worse = stats.Estimate(ratio=0.6, low=0.55, high=0.65, pairs=20)
    assert stats.verdict(worse, noise) == "undecided"
    far_worse = stats.Estimate(ratio=0.4, low=0.35, high=0.45, pairs=20)
    assert stats.verdict(far_worse, noise) == "worse"
