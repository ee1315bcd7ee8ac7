# SPDX-License-Identifier: GPL-2.0-only
"""The report as one HTML page that needs nothing else: light and dark, and readable on a phone."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from workloads import Size

from . import plots, report
from .report import Row, Table

STYLE = Path(__file__).with_name("page.css")
COLOURS = 7
INTRODUCTION = """\
<p>Each line is a paired ratio against the baseline: right of 1 is better, whatever the unit. The
bar is its 95 % interval (dotted, and in brackets: from the lowest to the highest of pairs that are
too few for one), the grey band what the baseline reached against itself in the same blocks (A/A):
what is within it is noise. A verdict needs the whole interval beyond 1, a Wilcoxon test
below 0.05 after correction over the workloads, and a ratio beyond the band.</p>"""


def render(runs: Sequence[dict], timelines: Sequence[str] = ()) -> str:
    """The page for these runs; `timelines` are pictures, as SVG or as whole HTML pages.

    `runs` is not empty.
    """
    tables = report.tables(runs)
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
        body += [_latencies(table, colours), _numbers(table)]
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
    facts += [report.versions(runs), *report.preparations(runs)]
    if any(Size(run["accel"]).is_emulated for run in runs):
        facts.append(
            "The VM is emulated, so switches and wake-ups cost 20 to 30 times as much as on "
            "hardware and a scheduler's own cost is magnified; only ratios mean anything"
        )
    return "".join(f"<li>{escape(fact)}</li>" for fact in dict.fromkeys(facts) if fact)


def _overview(tables: Sequence[Table], colours: dict[str, int]) -> str:
    """Where there are several tables: the mean ratio of each arm in each, and links."""
    if len(tables) < 2:
        return ""
    arms = [arm for arm, colour in colours.items() if colour]
    head = "".join(f'<th class="c{colours[arm]}">{escape(arm)}</th>' for arm in arms)
    lines = []
    for number, table in enumerate(tables):
        cells = "".join(f"<td>{_overview_cell(table, arm)}</td>" for arm in arms)
        lines.append(
            f'<tr><td><a href="#t{number}">{escape(_short_title(table))}</a></td>{cells}</tr>'
        )
    return (
        "<h2>All conditions</h2><p class='soft'>Geometric mean of the ratios over the workloads, "
        "and how many are better and worse.</p>"
        f"<div class='scroll'><table><tr><th></th>{head}</tr>{''.join(lines)}</table></div>"
    )


def _overview_cell(table: Table, arm: str) -> str:
    rows = [row for row in table.rows if row.arm == arm and row.is_first]
    if not rows:
        return ""
    better, worse = (sum(row.verdict == word for row in rows) for word in ("better", "worse"))
    failed = sum(row.failures > 0 for row in rows)
    counts = f"{_count(better, 'better')} / {_count(worse, 'worse')}"
    mean = table.means.get(arm) or (rows[0].ratio if len(rows) == 1 else None)
    told = f"{mean.ratio:.2f}" if mean else "-"
    return f"{told} &nbsp;{counts} of {len(rows)}" + (f", {failed} failed" if failed else "")


def _count(number: int, word: str) -> str:
    return f'<span class="{word if number else "undecided"}">{number}</span>'


def _short_title(table: Table) -> str:
    """Short enough to leave room for numbers on a phone."""
    run = table.runs[0]
    return f"{run['shape']}, {run['vcpus']} vCPUs"


def _ratios(table: Table, colours: dict[str, int]) -> str:
    first = [row for row in table.rows if row.is_first]
    scale = plots.RatioScale(
        [*(row.ratio for row in first), *(row.noise for row in first), *table.means.values()]
    )
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
    if table.means:
        parts.append('<div class="workload">geometric mean</div>')
    for arm, mean in table.means.items():
        plot = plots.ratio_row(scale, mean, None)
        parts.append(_line(arm, plot, report.interval(mean), "", colours))
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


def _numbers(table: Table) -> str:
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
    legend = escape(report.LEGEND).replace("\n", "<br>")
    parts.append(f'<p class="soft">{legend}</p>')
    return f"<details><summary>All numbers</summary>{''.join(parts)}</details>"


def _tr(cells: Sequence[str], row: Row | None = None) -> str:
    last = f' class="{escape(row.verdict.split(" ")[0])}"' if row else ""
    *most, end = cells
    return f"<tr>{''.join(f'<td>{escape(c)}</td>' for c in most)}<td{last}>{escape(end)}</td></tr>"


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
