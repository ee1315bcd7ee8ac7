# SPDX-License-Identifier: GPL-2.0-only
"""The report as one HTML page that needs nothing else: light and dark, and readable on a phone."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from . import plots, report
from .report import Row, Table
from .stats import MARGIN_RATIO

STYLE = Path(__file__).with_name("page.css")
COLOURS = 7
INTRODUCTION = """\
<p>Each line is a ratio to the baseline: right of 1 is better, whatever the unit. The bar is its
exact 95 % interval over blocks, each of which is one seed; the grey band is the baseline's second
turn against its first in the same blocks (A/A). Verdicts are corrected for stopping early and for
the number of cells on this page: a bar beside 1 is not enough.</p>"""


def render(
    runs: Sequence[dict], margin_ratio: float = MARGIN_RATIO, timelines: Sequence[str] = ()
) -> str:
    """The page for these runs; `timelines` are pictures, as SVG or as whole HTML pages.

    `runs` is not empty. Raises LabError (64) if they make no page.
    """
    tables = report.tables(runs, margin_ratio)
    colours = _colours(tables)
    dates = sorted(run["date"] for run in runs if "date" in run) or ["", ""]
    body = [
        "<h1>Schedulers compared</h1>",
        f'<p class="soft">{escape(dates[0][:16])} to {escape(dates[-1][:16])} UTC, {len(runs)} runs'
        f"{_failed(runs)}</p>",
        f"<ul class='soft'>{_facts(runs)}</ul>",
        INTRODUCTION,
        _overview(tables, colours),
    ]
    for number, table in enumerate(tables):
        body += [f'<h2 id="t{number}">{escape(table.title)}</h2>', _ratios(table, colours)]
        body += [f'<p class="remark">{escape(remark)}</p>' for remark in table.remarks]
        body += [_latencies(table, colours), _numbers(table, margin_ratio)]
    body += _timelines(timelines)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Schedulers compared</title><style>{STYLE.read_text()}</style></head>"
        f"<body>{''.join(body)}</body></html>\n"
    )


def _colours(tables: Sequence[Table]) -> dict[str, int]:
    """A colour number per arm, the same in all tables; the baselines have the first one."""
    arms = dict.fromkeys(arm for table in tables for arm in report.compared_arms(table.runs))
    found = {arm: 1 + i % (COLOURS - 1) for i, arm in enumerate(arms)}
    return found | {table.runs[0]["baseline"]: 0 for table in tables}


def _failed(runs: Sequence[dict]) -> str:
    failures = report.failed(list(runs))
    return f', <span class="failed">{failures} failed</span>' if failures else ""


def _facts(runs: Sequence[dict]) -> str:
    facts = []
    for run in runs:
        if "machine" in run:
            facts.append(report.machine(run["machine"]))
    facts += [report.versions(runs), report.preparation(runs), *report.caveats(runs)]
    return "".join(f"<li>{escape(fact)}</li>" for fact in dict.fromkeys(facts) if fact)


def _overview(tables: Sequence[Table], colours: dict[str, int]) -> str:
    """The headline, and links to the tables."""
    links = "".join(
        f'<li><a href="#t{number}">{escape(report.short_title(table))}</a></li>'
        for number, table in enumerate(tables)
    )
    head = "".join(f"<th>{escape(name)}</th>" for name in report.SCORE_HEADER)
    lines = "".join(
        f'<tr><td class="c{colours.get(arm, 0)}">{escape(arm)}</td>{_tds(told)}</tr>'
        for arm, *told in report.score_cells(tables)
    )
    return f"<div class='scroll'><table><tr>{head}</tr>{lines}</table></div><ul>{links}</ul>"


def _ratios(table: Table, colours: dict[str, int]) -> str:
    first = [row for row in table.rows if row.is_first]
    scale = plots.RatioScale([each for row in first for each in (row.ratio, row.noise)])
    axis = plots.ratio_axis(scale)
    axis = (
        f'<div class="row axis"><div></div><div class="plot-cell">{axis}</div>'
        "<div></div><div></div></div>"
    )
    parts, workload = [axis], None
    for row in first:
        if row.workload != workload:
            workload = row.workload
            unit = f"{row.metric}, {row.unit}" if row.unit else row.metric
            parts.append(
                f'<div class="workload">{escape(workload)} <small>{escape(unit)}, '
                f"{row.better} is better</small></div>"
            )
        plot = plots.ratio_row(scale, row.ratio, row.noise)
        parts.append(_line(row.arm, plot, report.interval(row.ratio), row.verdict, colours))
    return "".join([*parts, axis])


def _line(arm: str, plot: str, value: str, verdict: str, colours: dict[str, int]) -> str:
    colour = f"c{colours.get(arm, 0)}"
    kind = verdict.split(" ")[0]
    return (
        f'<div class="row"><div class="arm {colour}">{escape(arm)}</div>'
        f'<div class="plot-cell {colour}">{plot}</div><div class="value">{escape(value)}</div>'
        f'<div class="{escape(kind)}">{escape(verdict)}</div></div>'
    )


def _latencies(table: Table, colours: dict[str, int]) -> str:
    figures = []
    for workload, runs in report.by_workload(table.runs).items():
        by_arm = report.distributions(runs)
        if not by_arm:
            continue
        keys = "".join(
            f'<span class="key c{colours.get(arm, 0)}">{escape(arm)}</span>' for arm in by_arm
        )
        figures.append(
            f"<figure><figcaption><b>{escape(workload)}</b><br>{keys}</figcaption>"
            f"{plots.tails(by_arm, colours)}</figure>"
        )
    if not figures:
        return ""
    return (
        "<h3>Latencies</h3><p class='soft'>The part of all samples (vertical) that took longer "
        "than so much (horizontal), over all runs of an arm; further left is better.</p>"
        f'<div class="plots">{"".join(figures)}</div>'
    )


def _numbers(table: Table, margin_ratio: float) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in report.HEADER)
    lines = "".join(_tr(report.cells(row), row) for row in table.rows)
    tail = report.percentile_cells(table)
    parts = [f'<div class="scroll"><table><tr>{head}</tr>{lines}</table></div>']
    if tail:
        names = ("workload", "arm", "samples", *(f"p{each:g}" for each in report.PERCENTILES))
        head = "".join(f"<th>{name}</th>" for name in names)
        lines = "".join(_tr(cells) for cells in tail)
        parts.append(
            "<p class='soft'>Percentiles of all runs together, where at least ten samples lie "
            f'beyond.</p><div class="scroll"><table><tr>{head}</tr>{lines}</table></div>'
        )
    legend = escape(report.legend(margin_ratio)).replace("\n", "<br>")
    parts.append(f'<p class="soft">{legend}</p>')
    return f"<details><summary>All numbers</summary>{''.join(parts)}</details>"


def _tr(cells: Sequence[str], row: Row | None = None) -> str:
    last = f' class="{escape(row.verdict.split(" ")[0])}"' if row else ""
    *most, end = cells
    return f"<tr>{_tds(most)}<td{last}>{escape(end)}</td></tr>"


def _tds(cells: Sequence[str]) -> str:
    return "".join(f"<td>{escape(cell)}</td>" for cell in cells)


def _timelines(pictures: Sequence[str]) -> list[str]:
    """SVG goes in as it is; a whole page keeps its own style, in a frame."""
    if not pictures:
        return []
    found = ["<h2>What the vCPUs did</h2>"]
    for picture in pictures:
        start = picture.lstrip()[:200].lower()
        if start.startswith("<svg") or (start.startswith("<?xml") and "<svg" in start):
            found.append(f"<figure class='scroll'>{picture[picture.index('<svg') :]}</figure>")
        else:
            found.append(f'<iframe title="timeline" srcdoc="{escape(picture)}"></iframe>')
    return found
