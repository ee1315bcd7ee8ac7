# SPDX-License-Identifier: GPL-2.0-only
"""A page in one picture: scx_vaware against the baseline on each workload, by shape, as SVG.

It needs nothing else, and follows the reader's choice of light or dark. The numbers are those of
the page (report.py), and the best is on top.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

import svg
from vlab import LabError
from vlab.errors import EX_USAGE

from . import report, stats
from .arms import OURS
from .plots import RatioScale
from .report import Row, Table
from .stats import Estimate

WIDTH = 860
MARGIN = 14
TOP, FOOT = 76, 20
AXIS_H, ROW_H, HEADING_H, PANEL_GAP = 22, 24, 26, 14
# Of a row: the interval is above its middle, the others below, so that neither hides the other.
UP, DOWN = -4.0, 6.5
ONE_COLUMN_ROWS = 20  # more are set in two columns, so that a page of a README holds them
# No interval is so wide that the others cannot be read: the scale holds all ratios, with room.
ROOM = 1.12
LABEL_W = 34  # of a tick, with room
LONGEST_NAME = 22  # a workload may be a whole command line

# In the order of the arms; drawn quietly, for the picture is of one of them.
GLYPHS = (
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
    "M0-4 4 3H-4z",
    "M0-4.5 4.5 0 0 4.5-4.5 0z",
    "M-3-3h6v6h-6z",
    "M-3-3 3 3M-3 3 3-3",
    "M0-4V4M-4 0H4",
    "M0 4 4-3H-4z",
)
LIGHT = """\
.grid { stroke: #d8dee4; }
.one { stroke: #57606a; stroke-width: 1.5; }
.noise { fill: #afb8c1; opacity: .3; }
.other { fill: none; stroke: #8c959f; stroke-width: 1.2; }
.bar { fill: none; stroke-width: 3; stroke-linecap: round; }
.dot { stroke-width: 2; }
.better { stroke: #1a7f37; fill: #1a7f37; }
.level { stroke: #0969da; fill: #0969da; }
.worse, .failed { stroke: #cf222e; fill: #cf222e; }
.undecided { stroke: #57606a; fill: #ffffff; }
text.better, text.level, text.worse, text.failed { stroke: none; font-weight: bold; }
text.undecided { stroke: none; fill: #57606a; }
"""
DARK = """\
  .grid { stroke: #30363d; }
  .one { stroke: #9198a1; }
  .noise { fill: #6e7681; }
  .other { stroke: #6e7681; }
  .better { stroke: #3fb950; fill: #3fb950; }
  .level { stroke: #58a6ff; fill: #58a6ff; }
  .worse, .failed { stroke: #f85149; fill: #f85149; }
  .undecided { stroke: #9198a1; fill: #0d1117; }
  text.undecided { fill: #9198a1; }
"""
STYLE = svg.style(LIGHT, DARK, always=".bar { fill: none; }\n")


@dataclass(frozen=True)
class Panel:
    """What is shown of one table: the rows of scx_vaware, and those of the others by workload."""

    table: Table
    rows: list[Row]
    others: dict[str, list[Row]]

    @property
    def height(self) -> float:
        return HEADING_H + ROW_H * len(self.rows) + PANEL_GAP


@dataclass(frozen=True)
class Column:
    """Where panels are set below each other: names, plot and numbers side by side."""

    left: float
    width: float
    is_wide: bool

    @property
    def plot(self) -> tuple[float, float]:
        """Its left and right end."""
        names, numbers = (170, 210) if self.is_wide else (146, 44)
        return self.left + names, self.left + self.width - numbers


def render(runs: Sequence[dict], margin_ratio: float = stats.MARGIN_RATIO) -> str:
    """The picture of these runs. Raises LabError (64) if they make no page, or lack scx_vaware."""
    tables = report.tables(runs, margin_ratio)
    panels = [panel for table in tables if (panel := _panel(table)).rows]
    if not panels:
        raise LabError(f"the runs have no {OURS}, which the picture is of; add that arm", EX_USAGE)
    scale = _scale(panels)
    columns = _columns(panels)
    height = TOP + FOOT + AXIS_H + max(sum(panel.height for panel in each) for _, each in columns)
    baseline = runs[0]["baseline"]
    headline = _headline(tables, baseline)
    parts = [
        svg.opening(WIDTH, height, headline, STYLE),
        svg.text(MARGIN, 22, headline, "head"),
        *_legend(tables, baseline, margin_ratio),
    ]
    for column, some in columns:
        parts += _column(column, some, scale)
    parts += [svg.text(MARGIN, height - 8, _conditions(runs), "small"), "</svg>"]
    return "\n".join(parts) + "\n"


def _panel(table: Table) -> Panel:
    rows = [row for row in table.rows if row.is_first]
    ours = [row for row in rows if row.arm == OURS]
    others: dict[str, list[Row]] = {row.workload: [] for row in rows}
    for row in rows:
        if row.arm != OURS and row.ratio and not row.failures:
            others[row.workload].append(row)
    return Panel(table, sorted(ours, key=_rank, reverse=True), others)


def _rank(row: Row) -> float:
    return row.ratio.ratio if row.ratio and not row.failures else 0.0


def _scale(panels: Sequence[Panel]) -> RatioScale:
    shown = [row for panel in panels for row in panel.rows]
    shown += [row for panel in panels for some in panel.others.values() for row in some]
    estimates = [row.ratio for row in shown if row.ratio]
    points = [1.0, *(each.ratio for each in estimates)]
    return RatioScale(estimates, (min(points) / ROOM, max(points) * ROOM))


def _columns(panels: Sequence[Panel]) -> list[tuple[Column, list[Panel]]]:
    whole = WIDTH - 2 * MARGIN
    if sum(len(panel.rows) for panel in panels) <= ONE_COLUMN_ROWS or len(panels) == 1:
        return [(Column(MARGIN, whole, is_wide=True), list(panels))]
    half = (whole - 2 * MARGIN) / 2
    first = -(-len(panels) // 2)
    return [
        (Column(MARGIN, half, is_wide=False), list(panels[:first])),
        (Column(WIDTH - MARGIN - half, half, is_wide=False), list(panels[first:])),
    ]


def _headline(tables: Sequence[Table], baseline: str) -> str:
    won, level, lost, undecided, failed = report.scores(tables)[OURS].counts
    told = [(won, "better"), (level, "level"), (lost, "worse"), (undecided, "undecided")]
    told += [(failed, "failed")] if failed else []
    return f"{OURS} against {baseline}: " + ", ".join(f"{count} {word}" for count, word in told)


def _legend(tables: Sequence[Table], baseline: str, margin_ratio: float) -> Iterator[str]:
    x, y = MARGIN + 6.0, 42
    words = [("better", "better"), ("level", f"level, within {100 * margin_ratio:g} %")]
    words += [("worse", "worse"), ("undecided", "undecided")]
    for kind, text in words:
        yield f'<circle class="dot {kind}" cx="{x:g}" cy="{y - 4}" r="4"/>'
        yield svg.text(x + 9, y, text, "small")
        x += 9 + len(text) * svg.SMALL_CHAR_W + 20
    yield f'<path class="bar undecided" d="M{x:g} {y - 4}h22"/>'
    yield svg.text(x + 29, y, "95 % interval", "small")
    x += 29 + 13 * svg.SMALL_CHAR_W + 20
    yield f'<rect class="noise" x="{x:g}" y="{y - 13}" width="22" height="18" rx="2"/>'
    yield svg.text(x + 29, y, f"{baseline} against itself", "small")
    x, y = MARGIN + 56.0, y + 20
    yield svg.text(MARGIN, y, "others:", "small")
    for arm, glyph in _glyphs(tables).items():
        yield _glyph(glyph, x, y - 4)
        yield svg.text(x + 9, y, arm, "small")
        x += 9 + len(arm) * svg.SMALL_CHAR_W + 20


def _glyphs(tables: Sequence[Table]) -> dict[str, str]:
    arms = dict.fromkeys(arm for table in tables for arm in report.compared_arms(table.runs))
    others = [arm for arm in arms if arm != OURS]
    return {arm: GLYPHS[number % len(GLYPHS)] for number, arm in enumerate(others)}


def _conditions(runs: Sequence[dict]) -> str:
    versions = runs[0]["versions"]
    ours = versions.get(OURS, OURS)
    dates = sorted(run["date"] for run in runs)
    return (
        f"{ours}, repository {versions['repository']}, {dates[-1][:10]}, "
        f"{report.clock(runs[0])}, seeds: {len({run['seed'] for run in runs})}"
    )


def _column(column: Column, panels: Sequence[Panel], scale: RatioScale) -> Iterator[str]:
    left, right = column.plot
    ticks = scale.ticks(gap=100 * LABEL_W / (right - left))
    yield from _axis(column, scale, ticks)
    glyphs = _glyphs([panel.table for panel in panels])
    y = float(TOP + AXIS_H)
    for panel in panels:
        yield from _grid(column, scale, ticks, y + HEADING_H, y + panel.height - PANEL_GAP)
        yield svg.text(column.left, y + 18, report.short_title(panel.table), "head")
        yield svg.text(column.left + column.width, y + 18, _taken(panel), "small end")
        for number, row in enumerate(panel.rows):
            middle = y + HEADING_H + ROW_H * (number + 0.5)
            yield from _row(row, panel.others[row.workload], column, scale, middle, glyphs)
        y += panel.height


def _axis(column: Column, scale: RatioScale, ticks: Iterable[float]) -> Iterator[str]:
    one, base = _x(column, scale, 1), TOP + AXIS_H
    yield svg.text(one - 16, base - 18, "← worse", "small end")
    yield svg.text(one + 16, base - 18, "better →", "small")
    for tick in ticks:
        yield svg.text(_x(column, scale, tick), base - 4, f"{tick:g}", "small middle")


def _grid(
    column: Column, scale: RatioScale, ticks: Iterable[float], top: float, bottom: float
) -> Iterator[str]:
    for tick in ticks:
        kind = "one" if tick == 1 else "grid"
        yield f'<path class="{kind}" d="M{_x(column, scale, tick):.1f} {top:g}V{bottom:g}"/>'


def _taken(panel: Panel) -> str:
    """How much the host takes under the baseline: what the shape's name stands for."""
    parts = [100 * row.stolen[0] for row in panel.rows if row.stolen]
    if not parts:
        return ""
    ends = f"{min(parts):.0f}", f"{max(parts):.0f}"
    return f"the host takes {ends[0] if ends[0] == ends[1] else ' to '.join(ends)} %"


def _row(
    row: Row,
    others: Sequence[Row],
    column: Column,
    scale: RatioScale,
    middle: float,
    glyphs: dict[str, str],
) -> Iterator[str]:
    base = middle + 4.5
    yield (
        f'<text x="{column.left:g}" y="{base:g}">{escape(_cut(row.workload))} '
        f'<tspan class="small">{escape(row.metric)}</tspan></text>'
    )
    if row.noise and row.noise.low:
        left, right = _x(column, scale, row.noise.low), _x(column, scale, row.noise.high)
        yield (
            f'<rect class="noise" x="{left:.1f}" y="{middle - ROW_H / 2 + 1:g}" '
            f'width="{right - left:.1f}" height="{ROW_H - 2}" rx="2"/>'
        )
    for other in others:
        yield _glyph(glyphs[other.arm], _x(column, scale, other.ratio.ratio), middle + DOWN)
    kind = row.verdict.split(" ")[0]
    if row.ratio and not row.failures:
        yield from _interval(row.ratio, kind, column, scale, middle + UP)
    yield from _numbers(row, kind, column, base)


def _interval(
    estimate: Estimate, kind: str, column: Column, scale: RatioScale, middle: float
) -> Iterator[str]:
    """The interval, with an arrow where it goes on beyond the scale, and the ratio on it."""
    if estimate.low:
        left, right = _x(column, scale, estimate.low), _x(column, scale, estimate.high)
        path = f"M{left:.1f} {middle:g}H{right:.1f}"
        if not scale.holds(estimate.low):
            path += f"M{left + 5:.1f} {middle - 4:g}l-5 4 5 4"
        if not scale.holds(estimate.high):
            path += f"M{right - 5:.1f} {middle - 4:g}l5 4-5 4"
        yield f'<path class="bar {kind}" d="{path}"/>'
    at = _x(column, scale, estimate.ratio)
    yield f'<circle class="dot {kind}" cx="{at:.1f}" cy="{middle:g}" r="5"/>'


def _numbers(row: Row, kind: str, column: Column, base: float) -> Iterator[str]:
    end = column.left + column.width
    if not column.is_wide:
        told = "failed" if row.failures else f"{row.ratio.ratio:.2f}" if row.ratio else "-"
        yield svg.text(end, base, told, f"{kind} end")
        return
    told = "-" if row.failures else report.interval(row.ratio, digits=2)
    yield svg.text(column.plot[1] + 12, base, told, "small")
    yield svg.text(end, base, row.verdict, f"{kind} end")


def _x(column: Column, scale: RatioScale, ratio: float) -> float:
    left, right = column.plot
    return left + (right - left) * scale.at(ratio) / 100


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _glyph(path: str, x: float, y: float) -> str:
    return f'<path class="other" transform="translate({x:.1f} {y:g})" d="{path}"/>'
