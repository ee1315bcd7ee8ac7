# SPDX-License-Identifier: GPL-2.0-only
"""Trials as a table, and the error against the budget as a picture."""

import math
import statistics
from collections import Counter, defaultdict

from workloads.workload import percentile

WIDTH, HEIGHT, MARGIN = 640, 360, 56
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#888888", "#ee8866")


def table(trials: list[dict]) -> str:
    """All trials, summed up by kind."""
    lines = []
    by_case = _groups(trials, "accuracy", "case", "guest", "budget_percent")
    if by_case:
        lines.append(
            f"{'shape':<18}{'guest':<7}{'budget':>7}{'runs':>6}{'mean error':>12}"
            f"{'worst vCPU':>12}{'within 5 points':>17}"
        )
    for (case, guest, budget), group in by_case.items():
        means = [trial["mean_error"] for trial in group]
        within = statistics.mean(mean <= 0.05 for mean in means)
        lines.append(
            f"{case:<18}{guest:<7}{budget:>5} %{len(group):>6}{statistics.mean(means):>12.3f}"
            f"{max(trial['worst_error'] for trial in group):>12.3f}{within:>16.0%}"
        )
    for (guest,), group in _groups(trials, "duty", "guest").items():
        own = max(trial["own_account"] for trial in group)
        host = [trial["host_account"] for trial in group if trial["host_account"] is not None]
        shown = f", by the host's {max(host):.2%}" if host else ""
        lines.append(f"duty, {guest} guest: by its own account {own:.2%} of a vCPU{shown}")
    work = _groups(trials, "work", "probing")
    if work:
        off = [trial["turns"] for trial in work[(False,)]]
        on = [trial["turns"] for trial in work[(True,)]]
        ratios = [b / a for a, b in zip(off[::2], off[1::2], strict=False)]
        noise = max(abs(ratio - 1) for ratio in ratios) if ratios else float("nan")
        slow = 1 - statistics.median(on) / statistics.median(off)
        lines.append(
            f"slow-down of a busy honest guest: {slow:.2%} (median of {len(on)}), "
            f"A/A up to {noise:.2%}"
        )
    for (change, guest), group in _groups(trials, "reaction", "change", "guest").items():
        times = [t["seconds"] if t["seconds"] is not None else math.inf for t in group]
        p50, p95 = (percentile(Counter(times), percent) for percent in (50, 95))
        lines.append(
            f"reaction, {guest}, {change}: p50 {p50:.1f} s, p95 {p95:.1f} s, {len(times)} runs"
        )
    return "\n".join(lines)


def _groups(trials: list[dict], kind: str, *keys: str) -> dict[tuple, list[dict]]:
    groups = defaultdict(list)
    for trial in trials:
        if trial["trial"] == kind:
            groups[tuple(trial[key] for key in keys)].append(trial)
    return groups


def plot(trials: list[dict]) -> str:
    """Mean error against the budget, a line per shape and load, as SVG."""
    series = defaultdict(dict)
    for (case, guest, budget), group in _groups(
        trials, "accuracy", "case", "guest", "budget_percent"
    ).items():
        series[f"{case}, {guest}"][budget] = statistics.mean(t["mean_error"] for t in group)
    series = {name: points for name, points in series.items() if len(points) > 1}
    budgets = sorted({budget for points in series.values() for budget in points})
    top = max((e for points in series.values() for e in points.values()), default=0.1) * 1.1

    def x(budget: float) -> float:
        return MARGIN + budgets.index(budget) * (WIDTH - 3.5 * MARGIN) / max(1, len(budgets) - 1)

    def y(error: float) -> float:
        return HEIGHT - MARGIN - error / top * (HEIGHT - 2 * MARGIN)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{MARGIN}" y="24">mean error of the share against the probe budget</text>',
        f'<line x1="{MARGIN}" x2="{WIDTH - 2.4 * MARGIN}" y1="{y(0.05):.0f}" y2="{y(0.05):.0f}" '
        'stroke="#999" stroke-dasharray="4"/>',
        f'<text x="8" y="{y(0.05):.0f}">0.05</text><text x="8" y="{y(0):.0f}">0</text>',
    ]
    parts += [
        f'<text x="{x(budget):.0f}" y="{HEIGHT - MARGIN + 20}">{budget} %</text>'
        for budget in budgets
    ]
    for (name, points), colour in zip(series.items(), COLOURS * 4, strict=False):
        path = " ".join(f"{x(budget):.0f},{y(points[budget]):.0f}" for budget in sorted(points))
        last = max(points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}"/>')
        parts.append(
            f'<text x="{x(last) + 6:.0f}" y="{y(points[last]):.0f}" fill="{colour}">{name}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])
