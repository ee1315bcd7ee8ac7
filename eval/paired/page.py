# SPDX-License-Identifier: GPL-2.0-only
"""The results as a page of markdown, a section for each set of conditions.

Shapes take hours, and are not all run on one day: what was found under some conditions replaces
their section, and leaves the others.
"""

import re
from collections.abc import Iterable

from . import report, stats
from .report import Row, Table

HEAD = """\
# Results

Written by `eval/compare report FILE... --page docs/results.md`. A section is one set of
conditions: a different machine, kernel or load can turn each row round.

In a cell: how many times as good as the baseline, over 1 is better, with the 95 % interval over
the pairs, or in brackets the lowest and highest of pairs that are too few for one. A/A is the
baseline against itself in the same blocks, the noise floor. **Bold**: the whole interval is on one
side of 1, and the ratio farther from 1 than A/A. The last column is the part of the time that vCPUs
wanted to run in which the host ran something else, under the baseline.

TCG: the VM is emulated. Switches and wake-ups cost 20 to 30 times as much as on hardware, so a
scheduler's own cost is magnified; only ratios mean anything.
"""
SECTION = re.compile(r"^## (.*)$", re.MULTILINE)


def update(old: str, runs: list[dict]) -> str:
    """The page `old` ("" for none) with the sections of these runs put in or renewed."""
    sections = _sections(old) | {table.title: _section(table) for table in report.tables(runs)}
    return "\n".join([HEAD, *(f"## {title}\n{text}" for title, text in sections.items())])


def _sections(text: str) -> dict[str, str]:
    """Text by title, in the order of the page."""
    parts = SECTION.split(text)[1:]
    return {
        title: f"\n{body.strip()}\n" for title, body in zip(parts[::2], parts[1::2], strict=True)
    }


def _section(table: Table) -> str:
    dates = sorted(run["date"] for run in table.runs)
    machines = {report.machine(run["machine"]) for run in table.runs if "machine" in run}
    lines = [
        f"{dates[0][:16]} to {dates[-1][:16]} UTC, {len(table.runs)} runs",
        *sorted(machines),
        report.versions(table.runs),
        *report.preparations(table.runs),
    ]
    lines += report.failures(table.runs)
    told = "\n".join(f"- {line}" for line in lines)
    notes = dict.fromkeys((run["workload"], run["note"]) for run in table.runs if run.get("note"))
    explained = "\n".join(f"- {workload}: {note}" for workload, note in notes)
    return f"\n{told}\n\n{_matrix(table)}\n{explained}".rstrip() + "\n"


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
                report.interval(first.noise, 2),
                *(_cell(rows[arm]) if arm in rows else "" for arm in arms),
                str(max(row.pairs for row in rows.values())),
                f"{first.stolen[0]:.0%}" if first.stolen else "",
            )
        )
    means = [report.interval(table.means[arm], 2) if arm in table.means else "" for arm in arms]
    lines.append(("geometric mean of first metrics", "", "", *means, "", ""))
    baseline = table.runs[0]["baseline"]
    return report.markdown_table(("", baseline, "A/A", *arms, "pairs", "stolen"), lines)


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
    told = report.interval(row.ratio, 2)
    is_clear = stats.verdict(row.ratio, row.noise) != "undecided"
    return f"**{told}**" if is_clear else told
