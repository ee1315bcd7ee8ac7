# SPDX-License-Identifier: GPL-2.0-only
"""Paired ratios, their bootstrap intervals, and what may be concluded from them."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy
import scipy.stats

CONFIDENCE = 0.95
RESAMPLES = 9999
MIN_PAIRS = 4  # below, an interval says nothing

# The bootstrap draws at random; a fixed seed makes a report of the same file say the same.
BOOTSTRAP_SEED = 1


@dataclass(frozen=True)
class Estimate:
    """A paired ratio (geometric mean; more than 1 is better) and its 95 % interval.

    `low` is 0 and `high` infinite when there are too few pairs to tell.
    """

    ratio: float
    low: float
    high: float
    pairs: int

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
        return Estimate(math.exp(mean), 0.0, math.inf, pairs)
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


def verdict(arm: Estimate | None, noise: Estimate | None) -> str:
    """Return "better", "worse" or "undecided".

    An arm is better only if its whole interval is, and if it beats what the baseline reached
    against itself under the same conditions (`noise`, the A/A estimate; None: not measured).
    """
    if arm is None:
        return "undecided"
    noise_low, noise_high = (noise.low, noise.high) if noise else (1.0, 1.0)
    if arm.low > 1 and arm.ratio > noise_high:
        return "better"
    if arm.high < 1 and arm.ratio < noise_low:
        return "worse"
    return "undecided"
