# SPDX-License-Identifier: GPL-2.0-only
"""A timeline as one HTML page with one SVG: no script, nothing to load, light and dark."""

import math
from collections import Counter
from collections.abc import Iterable
from html import escape

from .model import Lane, Timeline

LEFT, RIGHT, TOP = 76, 30, 34
WIDTH = 1400
TASK_H, HOST_H, GAP_H, LANE_PAD = 26, 10, 5, 16
LANE_H = TASK_H + HOST_H + GAP_H + 8 + LANE_PAD
CHAR_W = 6.6  # of the labels
THINNEST = 0.6  # what is shorter than this many units is still seen
COLORS = 8  # tasks with a colour of their own; the others share one
TICKS = 10

STYLE = """
:root { color-scheme: light dark; --page: #fcfcfb; --ink: #1f2328; --soft: #6a7078; --rule: #e3e4e6;
  --active: #6fa58c; --inactive: #c2413b; --gap: #1f2328; --mark: #7a3ea8; --other: #b9bec5;
  --t0: #7fb2e5; --t1: #f2b36b; --t2: #8fcfa8; --t3: #d9a3d6; --t4: #e6d36a; --t5: #8ad0d6;
  --t6: #e99a94; --t7: #b3a6ea; }
@media (prefers-color-scheme: dark) { :root { --page: #16181b; --ink: #e8eaed; --soft: #9aa1a9;
  --rule: #2d3136; --active: #4f8f72; --inactive: #e5675f; --gap: #e8eaed; --mark: #c79bf2;
  --other: #565c64; } }
body { margin: 0; padding: 20px; background: var(--page); color: var(--ink);
  font: 14px/1.5 system-ui, sans-serif; }
h1 { font-size: 18px; font-weight: 600; margin: 0 0 4px; }
p { margin: 0; color: var(--soft); max-width: 76ch; }
figure { margin: 14px 0 0; overflow-x: auto; }
svg { display: block; min-width: 900px; width: 100%; height: auto; }
svg text { font: 11px system-ui, sans-serif; fill: var(--ink); }
svg .soft { fill: var(--soft); }
svg .label { paint-order: stroke; stroke: var(--page); stroke-width: 3px; }
svg .label { pointer-events: none; }
.rule { stroke: var(--rule); }
.page { fill: var(--page); }
.veil { fill: var(--page); opacity: .62; pointer-events: none; }
.active { fill: var(--active); }
.inactive { fill: var(--inactive); }
.gap { fill: var(--gap); }
.mark { fill: var(--mark); }
.other { fill: var(--other); }
ul { list-style: none; padding: 0; margin: 12px 0 0; }
ul { display: flex; flex-wrap: wrap; gap: 4px 18px; }
li svg { display: inline-block; min-width: 0; width: 14px; height: 12px; vertical-align: -1px; }
"""


def html(timeline: Timeline) -> str:
    """The page."""
    colors = _colors(timeline.lanes)
    notes = "".join(f"<p>{escape(note)}</p>" for note in timeline.notes)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(timeline.title)}</title>"
        f"<style>{STYLE}{_color_rules()}</style>"
        f"<h1>{escape(timeline.title)}</h1>{notes}"
        f"<figure>{svg(timeline, colors)}</figure>{_legend(timeline.lanes, colors)}</html>\n"
    )


def svg(timeline: Timeline, colors: dict[str, str]) -> str:
    """The picture; `colors` maps names of tasks to classes."""
    height = TOP + LANE_H * len(timeline.lanes)
    span_ns = timeline.end_ns - timeline.begin_ns
    scale = (WIDTH - LEFT - RIGHT) / span_ns

    def x(at_ns: int) -> float:
        return LEFT + (at_ns - timeline.begin_ns) * scale

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(timeline.title)}">'
    ]
    parts += _axis(timeline, x, height)
    for number, lane in enumerate(timeline.lanes):
        parts += _lane(lane, timeline, x, TOP + number * LANE_H, colors)
    return "".join([*parts, "</svg>"])


def _lane(lane: Lane, timeline: Timeline, x, top: float, colors: dict[str, str]) -> Iterable[str]:
    host, gap = top + TASK_H + 3, top + TASK_H + HOST_H + 6
    yield f'<text x="{LEFT - 8}" y="{top + 17}" text-anchor="end">{escape(lane.name)}</text>'
    for begin, end, name in lane.tasks:
        told = f"{name}, {ms(end - begin)}"
        yield _bar(x, begin, end, top, TASK_H, colors.get(name, "other"), told)
    # On a core of the host is what is neither of the others.
    yield _bar(x, timeline.begin_ns, timeline.end_ns, host, HOST_H, "active", "on a core")
    for begin, end in lane.halted:
        yield _bar(x, begin, end, host, HOST_H, "page", f"halted for {ms(end - begin)}")
    for begin, end in lane.inactive:
        yield _bar(x, begin, end, top, TASK_H, "veil", "")
        yield _bar(x, begin, end, host, HOST_H, "inactive", f"inactive for {ms(end - begin)}")
    for begin, end, name in lane.tasks:
        if x(end) - x(begin) > len(name) * CHAR_W + 6:
            yield f'<text class="label" x="{x(begin) + 4:.1f}" y="{top + 17}">{escape(name)}</text>'
    for begin, end in lane.gaps:
        yield _bar(x, begin, end, gap, GAP_H, "gap", f"found: {ms(end - begin)}")
    for at, kind, text in lane.decisions:
        yield (
            f'<path class="mark" d="M{x(at):.1f} {top} l-4 -8 h8 z">'
            f"<title>{escape(kind)}: {escape(text)}</title></path>"
        )


def _bar(x, begin: int, end: int, y: float, height: float, kind: str, told: str) -> str:
    width = max(x(end) - x(begin), THINNEST)
    title = f"<title>{escape(told)}</title>" if told else ""
    return (
        f'<rect class="{kind}" x="{x(begin):.2f}" y="{y}" width="{width:.2f}" '
        f'height="{height}">{title}</rect>'
    )


def _axis(timeline: Timeline, x, height: float) -> Iterable[str]:
    step_ns = round_step_ns(timeline.end_ns - timeline.begin_ns)
    passed_ns = 0
    while passed_ns <= timeline.end_ns - timeline.begin_ns:
        at = x(timeline.begin_ns + passed_ns)
        yield f'<line class="rule" x1="{at:.1f}" x2="{at:.1f}" y1="18" y2="{height}"/>'
        yield f'<text class="soft" x="{at:.1f}" y="12" text-anchor="middle">{ms(passed_ns)}</text>'
        passed_ns += step_ns


def round_step_ns(span_ns: int) -> int:
    """A round step that makes about TICKS of the span."""
    rough = span_ns / TICKS
    power = 10 ** math.floor(math.log10(rough))
    return round(next(power * n for n in (1, 2, 5, 10) if power * n >= rough))


def ms(ns: int) -> str:
    """A time for people."""
    return f"{ns / 1e6:.3f}".rstrip("0").rstrip(".") + " ms"


def _colors(lanes: Iterable[Lane]) -> dict[str, str]:
    """Classes of the tasks that ran longest; the rest have none."""
    ran = Counter()
    for lane in lanes:
        for begin, end, name in lane.tasks:
            ran[name] += end - begin
    return {name: f"t{i}" for i, (name, _) in enumerate(ran.most_common(COLORS))}


def _color_rules() -> str:
    return "".join(f".t{i} {{ fill: var(--t{i}); }}" for i in range(COLORS))


def _legend(lanes: list[Lane], colors: dict[str, str]) -> str:
    """What is in the picture, and only that."""
    entries = [("active", "on a core of the host"), ("inactive", "inactive: wants one, has none")]
    if any(lane.gaps for lane in lanes):
        entries.append(("gap", "found by the scheduler"))
    if any(lane.decisions for lane in lanes):
        entries.append(("mark", "decision"))
    entries += [(kind, name) for name, kind in colors.items()]
    if any(name not in colors for lane in lanes for _, _, name in lane.tasks):
        entries.append(("other", "other tasks"))
    items = "".join(
        f'<li><svg viewBox="0 0 14 12"><rect class="{kind}" width="14" height="12" rx="2"/></svg> '
        f"{escape(name)}</li>"
        for kind, name in entries
    )
    return f"<ul>{items}</ul>"
