# SPDX-License-Identifier: GPL-2.0-only
"""The results as a page of markdown: a headline, and a section for each set of conditions."""

from collections.abc import Iterable

from . import provenance, report, stats
from .report import Row, Table

TITLE = "Results"
HEAD = """\
# {title}

Written by `eval/compare report FILE... --page PAGE`, from runs of one build with one set of arms;
`manifest.json` beside it has the whole command. A section is one set of conditions: a different
machine, kernel or load can turn each row round.

In a cell: how many times as good as the baseline, over 1 is better, with the exact 95 % interval
over the blocks of this row. A block is one seed, in which every arm runs once and the baseline
twice; A/A is its second turn against its first. **Bold** is certain at 5 % for the whole page,
after correction for stopping early and for {cells} cells: better or worse; "=" is level, within
{margin:g} % of the baseline; anything else is undecided. The headline counts these; there is no
mean over workloads. The last column is the part of the time that vCPUs wanted to run in which the
host ran something else, under the baseline.
"""


def render(runs: list[dict], margin_ratio: float = stats.MARGIN_RATIO, title: str = TITLE) -> str:
    """The page of these runs, which are not empty. Raises LabError (64) if they make no page."""
    page = report.tables(runs, margin_ratio)
    cells = report.family(runs, [row for table in page for row in table.rows])
    facts = [report.versions(runs), report.preparation(runs), *report.caveats(runs)]
    head = HEAD.format(title=title, cells=cells, margin=100 * margin_ratio)
    parts = [head, _bullets(facts + _commands(runs)) + "\n"]
    if lines := report.score_cells(page):
        parts.append(report.markdown_table(report.SCORE_HEADER, lines))
    return "\n".join([*parts, *(f"## {table.title}\n{_section(table)}" for table in page)])


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines if line)


def _commands(runs: list[dict]) -> list[str]:
    given = provenance.given_commands(runs).values()
    return [f"workload `` {told} ``".replace("\n", "; ") for told in given]


def _section(table: Table) -> str:
    dates = sorted(run["date"] for run in table.runs)
    machines = {report.machine(run["machine"]) for run in table.runs if "machine" in run}
    lines = [
        f"{dates[0][:16]} to {dates[-1][:16]} UTC, {len(table.runs)} runs",
        *sorted(machines),
        *report.failures(table.runs),
    ]
    notes = dict.fromkeys((run["workload"], run["note"]) for run in table.runs if run.get("note"))
    explained = "\n".join(f"- {workload}: {note}" for workload, note in notes)
    return f"\n{_bullets(lines)}\n\n{_matrix(table)}\n{explained}".rstrip() + "\n"


def _matrix(table: Table) -> str:
    """Metrics down, arms across."""
    arms = report.compared_arms(table.runs)
    lines = []
    for name, rows in _by_metric(table.rows).items():
        first = next(iter(rows.values()))
        lines.append(
            (
                name,
                report.number(first.baseline_median),
                report.interval(first.noise),
                *(_cell(rows[arm]) if arm in rows else "" for arm in arms),
                str(max(row.blocks for row in rows.values())),
                f"{first.stolen[0]:.0%}" if first.stolen else "",
            )
        )
    baseline = table.runs[0]["baseline"]
    return report.markdown_table(("", baseline, "A/A", *arms, "blocks", "stolen"), lines)


def _by_metric(rows: Iterable[Row]) -> dict[str, dict[str, Row]]:
    """By what is measured, then by arm."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        unit = f", {row.unit}" if row.unit else ""
        found.setdefault(f"{row.workload} {row.metric}{unit}", {})[row.arm] = row
    return found


def _cell(row: Row) -> str:
    if row.failures:
        return f"{row.failures} failed"
    told = report.interval(row.ratio)
    form = {"better": "**{}**", "worse": "**{}**", "level": "{} ="}.get(row.verdict, "{}")
    return form.format(told)
