# SPDX-License-Identifier: GPL-2.0-only
"""Plots as SVG whose text keeps its size at any width: positions are percentages."""

import math
from collections.abc import Mapping, Sequence

from workloads.workload import percentile

from .stats import Estimate

RATIO_TICKS = (0.05, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20)
WIDEST = (0.04, 25.0)
ROW_PX, AXIS_PX = 18, 18
TICK_GAP = 7.0  # percent of the width that a label needs at least


class RatioScale:
    """A logarithmic scale that holds all of these estimates, as far as `widest` goes, and 1."""

    def __init__(self, estimates: Sequence[Estimate | None], widest: tuple[float, float] = WIDEST):
        ends = [1 / 1.15, 1.15]
        for each in estimates:
            if each:
                ends += (each.low, each.high) if each.low else (each.ratio, each.ratio)
        low, high = max(min(ends), widest[0]), min(max(ends), widest[1])
        self._low, self._high = math.log(low) - 0.03, math.log(high) + 0.03

    def at(self, ratio: float) -> float:
        """Position of a ratio in percent, within 0 to 100."""
        place = math.log(max(ratio, 1e-9)) if math.isfinite(ratio) else self._high
        return min(100.0, max(0.0, 100 * (place - self._low) / (self._high - self._low)))

    def holds(self, ratio: float) -> bool:
        """Whether a ratio has a place of its own, and not that of the end of the scale."""
        return ratio > 0 and self._low <= math.log(ratio) <= self._high

    def ticks(self, gap: float = TICK_GAP) -> list[float]:
        """Ratios to label, 1 first and those too close to another left out."""
        kept: list[float] = []
        for tick in sorted(RATIO_TICKS, key=lambda t: abs(math.log(t))):
            at = self.at(tick)
            if 3 < at < 97 and all(abs(at - self.at(other)) > gap for other in kept):
                kept.append(tick)
        return kept


def ratio_row(scale: RatioScale, estimate: Estimate | None, noise: Estimate | None) -> str:
    """A ratio with its interval, over the band of the noise."""
    middle, one = ROW_PX / 2, scale.at(1)
    parts = [_svg_open(ROW_PX, "ratio and interval")]
    if noise and noise.low:
        left, right = scale.at(noise.low), scale.at(noise.high)
        parts.append(
            f'<rect class="noise" x="{left:.2f}%" width="{max(right - left, 0.3):.2f}%" '
            f'y="0" height="{ROW_PX}"/>'
        )
    parts.append(f'<line class="one" x1="{one:.2f}%" x2="{one:.2f}%" y1="0" y2="{ROW_PX}"/>')
    if estimate:
        if estimate.low:
            left, right = scale.at(estimate.low), scale.at(estimate.high)
            parts.append(
                f'<line class="interval" x1="{left:.2f}%" x2="{right:.2f}%" '
                f'y1="{middle}" y2="{middle}"/>'
            )
        parts.append(
            f'<circle class="dot" cx="{scale.at(estimate.ratio):.2f}%" cy="{middle}" r="4"/>'
        )
    return "".join([*parts, "</svg>"])


def ratio_axis(scale: RatioScale) -> str:
    """The labels below the rows."""
    labels = "".join(
        f'<text x="{scale.at(tick):.2f}%" y="13" text-anchor="middle">{tick:g}</text>'
        for tick in scale.ticks()
    )
    return f"{_svg_open(AXIS_PX, 'axis')}{labels}</svg>"


def tails(by_arm: Mapping[str, Mapping[float, int]], colours: Mapping[str, int]) -> str:
    """Distributions of latencies: how many of all were longer, both axes logarithmic.

    `colours` gives the number of each arm's colour. The part of the curve that less than ten
    samples carry is left away.
    """
    height, left, bottom = 190, 9.0, 24
    least = min(min(counts) for counts in by_arm.values())
    most = max(_end(counts) for counts in by_arm.values())
    low, high = math.log10(max(least, 1e-3)), math.log10(max(most, least * 1.1, 1e-2))
    smallest = min(10 / sum(counts.values()) for counts in by_arm.values())
    floor = min(-1, math.floor(math.log10(smallest)))

    def x(latency: float) -> float:
        return left + (99 - left) * (math.log10(max(latency, 1e-3)) - low) / max(high - low, 1e-6)

    def y(part: float) -> float:
        return 6 + (height - bottom - 6) * math.log10(max(part, 1e-9)) / floor

    parts = [_svg_open(height, "how many waited longer")]
    for power in range(0, floor - 1, -1):
        at = y(10**power)
        label = f"{100 * 10**power:g}%"
        parts.append(f'<line class="grid" x1="{left}%" x2="100%" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{left - 1}%" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
    for tick in _latency_ticks(low, high, x):
        at = x(tick)
        parts.append(
            f'<line class="grid" x1="{at:.2f}%" x2="{at:.2f}%" y1="6" y2="{height - bottom}"/>'
            f'<text x="{at:.2f}%" y="{height - 8}" text-anchor="middle">{_short(tick)}</text>'
        )
    # Only the lines scale with the width: text and strokes keep their size.
    parts.append(f'<svg viewBox="0 0 100 {height}" preserveAspectRatio="none" height="{height}">')
    for arm, counts in by_arm.items():
        total = sum(counts.values())
        longer, points = total, []
        for latency in sorted(counts):
            points.append((x(latency), y(longer / total)))
            longer -= counts[latency]
            if longer < 10:
                break
            points.append((x(latency), y(longer / total)))
        path = " ".join(f"{px:.2f},{py:.2f}" for px, py in points)
        parts.append(f'<polyline class="tail c{colours.get(arm, 0)}" points="{path}"/>')
    return "".join([*parts, "</svg></svg>"])


def _end(counts: Mapping[float, int]) -> float:
    total = sum(counts.values())
    return percentile(counts, 100 * max(0.5, 1 - 10 / total))


def _latency_ticks(low: float, high: float, x) -> list[float]:
    kept: list[float] = []
    powers = range(math.floor(low), math.ceil(high) + 1)
    for step in (1, 3):
        for power in powers:
            tick = step * 10.0**power
            inside = low <= math.log10(tick) <= high and x(tick) < 97
            if inside and all(abs(x(tick) - x(other)) > TICK_GAP * 1.4 for other in kept):
                kept.append(tick)
    return kept


def _short(us: float) -> str:
    """A latency in microseconds, with the unit that suits it."""
    for factor, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= factor:
            return f"{us / factor:g} {unit}"
    return f"{us:g} us"


def _svg_open(height: float, label: str) -> str:
    return f'<svg class="plot" width="100%" height="{height}" role="img" aria-label="{label}">'
