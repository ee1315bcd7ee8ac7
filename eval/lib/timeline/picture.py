# SPDX-License-Identifier: GPL-2.0-only
"""Where one task was, and whether its vCPU ran: timelines below each other, as SVG for a document.

The task is the one that was on vCPUs for longest. It needs nothing else, and follows the reader's
choice of light or dark. render.py draws one timeline with all that is known.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import svg

from .model import BadTimeline, Lane, Period, Timeline
from .render import ms, round_step_ns

WIDTH, LEFT, RIGHT = 860, 70, 16
TOP, AXIS_H, FOOT = 32, 8, 24
TITLE_H, LANE_H, BAR_H, GAP = 26, 16, 12, 16
STOPPED_H = 5  # lower, for who does not tell red from green
THINNEST = 0.5  # what is shorter than this many units is still seen

LIGHT = """\
.lane, .tick { stroke: #d8dee4; }
.runs { fill: #2da44e; }
.stopped { fill: #cf222e; }
.other { fill: #8c959f; opacity: .35; }
.move { stroke: #2da44e; stroke-width: 1; fill: none; }
"""
DARK = """\
  .lane, .tick { stroke: #30363d; }
  .runs { fill: #3fb950; }
  .stopped { fill: #f85149; }
  .move { stroke: #3fb950; }
"""
STYLE = svg.style(LIGHT, DARK)
KEYS = (
    ("runs", "the task runs"),
    ("stopped", "the task is stopped with its vCPU"),
    ("other", "the vCPU is stopped without it"),
)


def render(timelines: Sequence[Timeline], conditions: str) -> str:
    """The picture, with `conditions` as its last line. Raises BadTimeline where no task ran."""
    panels = [(timeline, *_parts(timeline)) for timeline in timelines]
    spans = {timeline.end_ns - timeline.begin_ns for timeline in timelines}
    if len(spans) > 1:
        raise BadTimeline("the timelines differ in length; give the same --from-ms and --to-ms")
    heights = [TITLE_H + LANE_H * len(timeline.lanes) + GAP for timeline in timelines]
    height = TOP + sum(heights) + AXIS_H + FOOT
    told = "; ".join(_told(timeline, runs) for timeline, runs, _ in panels)
    out = [
        svg.opening(WIDTH, height, told, STYLE),
        *_legend(),
    ]
    y = TOP
    for (timeline, runs, stopped), tall in zip(panels, heights, strict=True):
        out += _panel(timeline, runs, stopped, y)
        y += tall
    out += _axis(panels[0][0], y)
    return "\n".join([*out, svg.text(14, height - 8, conditions, "small"), "</svg>"]) + "\n"


Parts = list[list[Period]]  # by lane


def _parts(timeline: Timeline) -> tuple[Parts, Parts]:
    """When the task ran, and when it was on a vCPU that was stopped."""
    on = Counter()
    for lane in timeline.lanes:
        for begin, end, name in lane.tasks:
            on[name] += end - begin
    if not on:
        raise BadTimeline("no task ran in that time; choose another part")
    ((task, _),) = on.most_common(1)
    runs, stopped = [], []
    for lane in timeline.lanes:
        there = [(begin, end) for begin, end, name in lane.tasks if name == task]
        stopped.append(list(_common(there, lane.inactive)))
        runs.append([part for period in there for part in _without(period, lane.inactive)])
    return runs, stopped


def _common(some: Iterable[Period], others: Sequence[Period]) -> Iterator[Period]:
    for begin, end in some:
        for from_ns, to_ns in others:
            if max(begin, from_ns) < min(end, to_ns):
                yield max(begin, from_ns), min(end, to_ns)


def _without(period: Period, holes: Sequence[Period]) -> Iterator[Period]:
    begin, end = period
    for from_ns, to_ns in sorted(holes):
        if begin < from_ns < end:
            yield begin, from_ns
        if from_ns < end:
            begin = max(begin, to_ns)
    if begin < end:
        yield begin, end


def _told(timeline: Timeline, runs: Parts) -> str:
    ran_ns = sum(end - begin for lane in runs for begin, end in lane)
    whole_ns = timeline.end_ns - timeline.begin_ns
    return f"{timeline.title}: the task runs for {ran_ns / 1e6:.0f} of {whole_ns / 1e6:.0f} ms"


def _panel(timeline: Timeline, runs: Parts, stopped: Parts, top: float) -> Iterator[str]:
    scale = (WIDTH - LEFT - RIGHT) / (timeline.end_ns - timeline.begin_ns)

    def bar(period: Period, middle: float, kind: str) -> str:
        begin, end = ((at_ns - timeline.begin_ns) * scale for at_ns in period)
        return _bar(kind, LEFT + begin, middle, max(end - begin, THINNEST))

    yield svg.text(14, top + 17, _told(timeline, runs), "head")
    bottom = top + TITLE_H + LANE_H * len(timeline.lanes)
    for x, _ in _ticks(timeline):
        yield f'<path class="tick" d="M{x:.1f} {top + TITLE_H - 2:g}V{bottom:g}"/>'
    for number, lane in enumerate(timeline.lanes):
        y = top + TITLE_H + LANE_H * number
        middle = y + BAR_H / 2
        yield svg.text(14, y + BAR_H - 2, lane.name, "small")
        yield f'<path class="lane" d="M{LEFT} {middle:g}H{WIDTH - RIGHT}"/>'
        there = sorted(runs[number] + stopped[number])
        for period in lane.inactive:
            for part in _without(period, there):
                yield bar(part, middle, "other")
        yield from (bar(period, middle, "runs") for period in runs[number])
        yield from (bar(period, middle, "stopped") for period in stopped[number])
    yield from _moves(timeline.lanes, runs, stopped, top, scale, timeline.begin_ns)


def _moves(
    lanes: Sequence[Lane], runs: Parts, stopped: Parts, top: float, scale: float, begin_ns: int
) -> Iterator[str]:
    """A line from vCPU to vCPU, for the eye to follow."""
    places = sorted(
        (*period, number)
        for number in range(len(lanes))
        for period in runs[number] + stopped[number]
    )
    for (_, left_ns, here), (came_ns, _, there) in pairwise(places):
        if here != there:
            x = LEFT + ((left_ns + came_ns) / 2 - begin_ns) * scale
            ends = (top + TITLE_H + LANE_H * n + BAR_H / 2 for n in (here, there))
            yield '<path class="move" d="M{:.1f} {:g}V{:g}"/>'.format(x, *ends)


def _legend() -> Iterator[str]:
    x = 14.0
    for kind, text in KEYS:
        yield _bar(kind, x, 14, 18)
        yield svg.text(x + 24, 19, text, "small")
        x += 24 + len(text) * svg.SMALL_CHAR_W + 22


def _axis(timeline: Timeline, y: float) -> Iterator[str]:
    for x, at_ns in _ticks(timeline):
        is_last = x > WIDTH - RIGHT - 1
        yield svg.text(
            x + RIGHT / 2 * is_last, y, ms(at_ns), f"small {'end' if is_last else 'middle'}"
        )


def _ticks(timeline: Timeline) -> Iterator[tuple[float, int]]:
    """Where round times are, and which."""
    span_ns = timeline.end_ns - timeline.begin_ns
    for at_ns in range(0, span_ns + 1, round_step_ns(span_ns)):
        yield LEFT + (WIDTH - LEFT - RIGHT) * at_ns / span_ns, at_ns


def _bar(kind: str, x: float, middle: float, width: float) -> str:
    height = STOPPED_H if kind == "stopped" else BAR_H
    return (
        f'<rect class="{kind}" x="{x:.2f}" y="{middle - height / 2:g}" '
        f'width="{width:.2f}" height="{height}"/>'
    )
