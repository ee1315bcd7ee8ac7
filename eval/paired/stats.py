# SPDX-License-Identifier: GPL-2.0-only
"""Paired ratios, their bootstrap intervals, tests and effect sizes, and what may be concluded."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy
import scipy.stats

CONFIDENCE = 0.95
RESAMPLES = 9999
ALPHA = 0.05  # of the tests, over all workloads of a comparison together (Holm)
MIN_PAIRS = 4  # below, an interval says nothing; with fewer than 6, no test can decide

# The bootstrap draws at random; a fixed seed makes a report of the same file say the same.
BOOTSTRAP_SEED = 1


@dataclass(frozen=True)
class Estimate:
    """A paired ratio (geometric mean; more than 1 is better) and its 95 % interval.

    `low` is 0 and `high` infinite when there are too few pairs to tell; then `lowest` and `highest`
    of them are given, if the ratio is one of pairs.
    """

    ratio: float
    low: float
    high: float
    pairs: int
    lowest: float | None = None
    highest: float | None = None

    @property
    def span(self) -> tuple[float, float] | None:
        """From where to where the pairs say it is: the interval, or else all that they were."""
        if self.low > 0:
            return self.low, self.high
        if self.lowest is None or self.highest is None:
            return None
        return self.lowest, self.highest

    @property
    def half_width(self) -> float:
        """Half the width of the interval: 0.03 means about plus or minus 3 %."""
        return (self.high - self.low) / 2


def log_ratio(baseline: float, value: float, better: str) -> float | None:
    """Logarithm of how many times better `value` is than `baseline`.

    `better` is "higher" or "lower". None when one of the two is not positive: no ratio exists.
    """
    if baseline <= 0 or value <= 0:
        return None
    ratio = value / baseline if better == "higher" else baseline / value
    return math.log(ratio)


def estimate(log_ratios: Sequence[float]) -> Estimate | None:
    """The paired ratio and its interval: BCa bootstrap of the mean log-ratio. None if empty.

    Honest from about 10 pairs on; with fewer, bootstrap intervals come out too narrow.
    """
    pairs = len(log_ratios)
    if pairs == 0:
        return None
    mean = fmean(log_ratios)
    if pairs < MIN_PAIRS:
        lowest, highest = math.exp(min(log_ratios)), math.exp(max(log_ratios))
        return Estimate(math.exp(mean), 0.0, math.inf, pairs, lowest, highest)
    if math.isclose(min(log_ratios), max(log_ratios), abs_tol=1e-12):
        return Estimate(math.exp(mean), math.exp(mean), math.exp(mean), pairs)
    with warnings.catch_warnings():
        # Few or very skewed pairs: scipy says that it is unsure, and gives what there is.
        warnings.simplefilter("ignore")
        interval = scipy.stats.bootstrap(
            (numpy.asarray(log_ratios),),
            numpy.mean,
            confidence_level=CONFIDENCE,
            n_resamples=RESAMPLES,
            method="BCa",
            random_state=BOOTSTRAP_SEED,
        ).confidence_interval
    return Estimate(math.exp(mean), math.exp(interval.low), math.exp(interval.high), pairs)


def p_value(log_ratios: Sequence[float]) -> float:
    """Wilcoxon's signed-rank test of "as often better as worse", two-sided. 1 if nothing differs.

    The smallest it can be is 0.03 with 6 pairs and 0.002 with 10.
    """
    values = [value for value in log_ratios if not math.isclose(value, 0, abs_tol=1e-12)]
    if not values:
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few pairs, or ties: the normal approximation is taken
        return float(scipy.stats.wilcoxon(values).pvalue)


def rank_sum_p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """Mann and Whitney's test for samples that are no pairs, two-sided."""
    if not first or not second:
        return 1.0
    return float(scipy.stats.mannwhitneyu(first, second).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """The same p values, corrected for being several (Holm 1979): comparable with ALPHA each."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    corrected, floor = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        floor = max(floor, min(1.0, p_values[i] * (len(p_values) - rank)))
        corrected[i] = floor
    return corrected


def cliffs_delta(baseline: Sequence[float], values: Sequence[float], better: str) -> float | None:
    """How often a run of the arm beats one of the baseline, less how often it loses: -1 to 1."""
    if not baseline or not values:
        return None
    sign = 1 if better == "higher" else -1
    difference = numpy.subtract.outer(numpy.asarray(values), numpy.asarray(baseline))
    return float(numpy.sign(difference).mean() * sign)


def geometric_mean(by_workload: Sequence[Sequence[float]]) -> Estimate | None:
    """The mean ratio over workloads, each of which counts alike; None if there is none.

    Its interval is of these workloads: pairs are resampled within each (percentile bootstrap).
    """
    groups = [numpy.asarray(group) for group in by_workload if len(group)]
    if not groups:
        return None
    mean = fmean(float(group.mean()) for group in groups)
    pairs = min(map(len, groups))
    if pairs < MIN_PAIRS:
        return Estimate(math.exp(mean), 0.0, math.inf, pairs)
    draw = numpy.random.default_rng(BOOTSTRAP_SEED)
    means = numpy.mean(
        [draw.choice(group, (RESAMPLES, len(group))).mean(axis=1) for group in groups], axis=0
    )
    low, high = numpy.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(math.exp(mean), math.exp(low), math.exp(high), pairs)


def change(old: Sequence[float], new: Sequence[float]) -> Estimate | None:
    """How the mean log-ratio has changed between two comparisons that are no pairs of each other.

    The ratio of ratios (more than 1: the new one is better) and its BCa bootstrap interval.
    """
    if not old or not new:
        return None
    difference = fmean(new) - fmean(old)
    pairs = min(len(old), len(new))
    if pairs < MIN_PAIRS:
        return Estimate(math.exp(difference), 0.0, math.inf, pairs)
    if max(map(numpy.ptp, (old, new))) < 1e-12:
        return Estimate(*[math.exp(difference)] * 3, pairs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interval = scipy.stats.bootstrap(
            (numpy.asarray(new), numpy.asarray(old)),
            lambda a, b, axis: a.mean(axis=axis) - b.mean(axis=axis),
            confidence_level=CONFIDENCE,
            n_resamples=RESAMPLES,
            method="BCa",
            random_state=BOOTSTRAP_SEED,
        ).confidence_interval
    return Estimate(math.exp(difference), math.exp(interval.low), math.exp(interval.high), pairs)


def verdict(arm: Estimate | None, noise: Estimate | None, p: float = 0.0) -> str:
    """Return "better", "worse" or "undecided".

    An arm is better only if its whole interval is, if the test agrees (`p`, corrected), and if it
    is farther from 1 than the baseline got from itself under the same conditions, in whichever
    direction (`noise`, the A/A estimate; None: not measured): which of the two runs is called the
    twin is arbitrary.
    """
    if arm is None or p >= ALPHA:
        return "undecided"
    reach = 1.0
    if noise:
        reach = max(noise.high, 1 / noise.low) if noise.low > 0 else math.inf
    if arm.low > 1 and arm.ratio > reach:
        return "better"
    if arm.high < 1 and arm.ratio < 1 / reach:
        return "worse"
    return "undecided"
