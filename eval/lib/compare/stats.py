# SPDX-License-Identifier: GPL-2.0-only
"""Ratios by block, their intervals, and the verdicts of a page.

A block is one seed: every arm runs once, the baseline twice. The model is log y = block + arm +
error. A block's contrast, the arm's logarithm less the mean of both baselines', is free of the
block's effect; seeds are independent, so the mean contrast has an exact t interval, however much
more an arm varies than the baseline. Errors are not pooled over arms, because a gain may depend on
the seed, and the difference of the two baselines does not show that. That difference is used as a
floor: contrasts cannot vary less than the mean of two baselines does. It catches a baseline that is
fast or slow by chance and a few contrasts that agree by chance.

A t interval takes contrasts for roughly normal. What happens in fewer than one of so many seeds as
were run cannot be excluded by any test.

Sequential stopping: the page is looked at after each block from MIN_BLOCKS on. Look k may spend
1 / (k (k + 1)) of the error. These shares sum to 1, so by Boole's inequality the error rate holds
wherever a cell stops, and blocks can be added at any time. Group-sequential boundaries (O'Brien and
Fleming) would need the joint distribution of successive t statistics, and a fixed last look.

Several cells: Holm 1979, over the cells of a page. Simulations in eval/tests/test_compare_stats.py.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev, variance

import numpy
import scipy.stats

CONFIDENCE = 0.95
ALPHA = 0.05  # chance of any false verdict on a page
MARGIN_RATIO = 0.02  # a ratio within 1 +- this is level: as much as DEFAULT_BLOCKS can tell from 1
MIN_BLOCKS = 5  # the first look
DEFAULT_BLOCKS = 10  # the last look; decides 3 % at an A/A noise of 0.5 % on a page of 1232 cells
# A smaller standard deviation of log values counts as this: equal readings of a coarse counter do
# not prove that there is no noise.
RESOLUTION = 0.001
TINY = 1e-300


@dataclass(frozen=True)
class Estimate:
    """A ratio (above 1 is better) and its 95 % interval for one row and this number of blocks.

    `low` is 0 and `high` infinite with fewer than MIN_BLOCKS blocks.
    """

    ratio: float
    low: float
    high: float
    blocks: int


@dataclass(frozen=True)
class Evidence:
    """The p value of each claim on a cell, corrected for all looks so far.

    A claim is a position of the two-sided interval: above 1, below 1, within the margin. So a claim
    is false only if the interval misses the true ratio.
    """

    better: float = 1.0
    worse: float = 1.0
    level: float = 1.0

    @property
    def p(self) -> float:
        """The p value of the best supported claim."""
        return min(self.better, self.worse, self.level)

    def verdict(self, alpha: float) -> str:
        """The claim that holds at `alpha`; "level" where it holds beside another."""
        for claim in ("level", "better", "worse"):
            if getattr(self, claim) <= alpha:
                return claim
        return "undecided"


def contrasts(
    arm: Mapping[int, float], baselines: Sequence[Mapping[int, float]], better: str
) -> list[float]:
    """Per block: the arm's logarithm less the baselines' mean; above 0 where the arm is better.

    Values are given by block, `better` is "higher" or "lower". A block counts if all its values are
    there and positive.
    """
    sign = 1 if better == "higher" else -1
    found = []
    for block in baselines[0]:
        values = [each.get(block, 0.0) for each in (arm, *baselines)]
        if min(values) > 0:
            own, *reference = map(math.log, values)
            found.append(sign * (own - fmean(reference)))
    return found


def estimate(logs: Sequence[float], min_blocks: int = MIN_BLOCKS) -> Estimate | None:
    """The ratio and its interval from the contrasts of blocks. None without any.

    With fewer than `min_blocks` (2 or more) it has no interval.
    """
    blocks = len(logs)
    if blocks == 0:
        return None
    if blocks < min_blocks:
        return Estimate(math.exp(fmean(logs)), 0.0, math.inf, blocks)
    error = max(stdev(logs), RESOLUTION) / math.sqrt(blocks)
    return _estimate(fmean(logs), error, blocks - 1, blocks)


def evidence(logs, noise, margin_ratio: float = MARGIN_RATIO) -> Evidence:
    """What the contrasts of blocks, in the order of their runs, say of a cell.

    `noise`: the logarithm of one baseline to the other, in the same blocks. Also for many cells at
    once, one per column: then the p values are arrays.
    """
    values, noise = numpy.asarray(logs, dtype=float), numpy.asarray(noise, dtype=float)
    bound = math.log1p(margin_ratio)
    claims = [numpy.ones(values.shape[1:])] * 3
    for blocks in range(MIN_BLOCKS, len(values) + 1):
        mean = values[:blocks].mean(axis=0)
        # The variance of the mean of two baselines is a quarter of that of their difference.
        floor = numpy.sqrt((noise[:blocks] ** 2).mean(axis=0)) / 2
        deviation = values[:blocks].std(axis=0, ddof=1)
        deviation = numpy.maximum(deviation, numpy.maximum(floor, RESOLUTION))
        distances = numpy.stack([mean, -mean, bound - abs(mean)])
        tails = scipy.stats.t.sf(distances / deviation * math.sqrt(blocks), blocks - 1)
        claims = numpy.minimum(claims, 2 * tails / _share(blocks))
    return Evidence(*(each if each.ndim else float(each) for each in claims))


def verdicts(cells: Sequence[Evidence], family: int = 0) -> list[tuple[str, float]]:
    """The verdict on each cell of a page, and its p value after Holm's correction.

    `family`: how many cells the page will have, if more than are given.
    """
    corrected = holm([cell.p for cell in cells], family)
    # What the best claim of a cell was multiplied by, any other claim on it is.
    return [
        (cell.verdict(ALPHA * cell.p / max(p, TINY)) if p <= ALPHA else "undecided", p)
        for cell, p in zip(cells, corrected, strict=True)
    ]


def holm(p_values: Sequence[float], family: int = 0) -> list[float]:
    """Corrected for being several, or `family` if that is more: each comparable with ALPHA."""
    family = max(family, len(p_values))
    corrected, floor = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        corrected[i] = floor = max(floor, min(1.0, p_values[i] * (family - rank)))
    return corrected


def change(old: Sequence[float], new: Sequence[float]) -> tuple[Estimate | None, float]:
    """How a ratio differs between two comparisons (above 1: the new one is better), and its p.

    Welch's t on contrasts, two-sided: the comparisons are independent and may differ in noise.
    """
    blocks = min(len(old), len(new))
    if blocks == 0:
        return None, 1.0
    difference = fmean(new) - fmean(old)
    if blocks < MIN_BLOCKS:
        return Estimate(math.exp(difference), 0.0, math.inf, blocks), 1.0
    parts = [max(variance(each), RESOLUTION**2) / len(each) for each in (old, new)]
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(each) - 1) for part, each in zip(parts, (old, new), strict=True)
    )
    error = math.sqrt(sum(parts))
    p = 2 * float(scipy.stats.t.sf(abs(difference) / error, freedom))
    return _estimate(difference, error, freedom, blocks), p


def _estimate(mean: float, error: float, freedom: float, blocks: int) -> Estimate:
    reach = error * float(scipy.stats.t.ppf((1 + CONFIDENCE) / 2, freedom))
    return Estimate(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach), blocks)


def _share(blocks: int) -> float:
    """The share of the error that the look after so many blocks may spend."""
    look = blocks - MIN_BLOCKS + 1
    return 1 / (look * (look + 1))
