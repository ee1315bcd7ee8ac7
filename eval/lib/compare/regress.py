# SPDX-License-Identifier: GPL-2.0-only
"""Says of two versions of the scheduler whether the new one is worse.

Two result files: the ratios to the common baseline are compared (the machine may have changed in
between; the baseline takes that out as far as it goes). Two builds: they share blocks.
Exit codes: 0 no loss beyond the margin, 3 a loss, 4 too few or too noisy runs to tell.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from vlab import LabError
from vlab.errors import EX_USAGE

from . import records, report, stats
from .stats import Estimate

MARGIN_RATIO = 0.05
EXIT_WORSE, EXIT_UNDECIDED = 3, 4
# Of two files, beside the conditions.
COMMON = ("baseline", "clock", "ns_per_instruction", "paravirt")


@dataclass(frozen=True)
class Row:
    """One workload under one set of conditions: how the new version does against the old."""

    where: str
    workload: str
    metric: str
    change: Estimate | None
    p: float
    failures: int
    verdict: str = ""


def is_binary(path: str) -> bool:
    """True if the path is a program. Raises LabError (64) if nothing is there."""
    if not Path(path).is_file():
        raise LabError(f"there is no file {path}; name a result file or a program", EX_USAGE)
    return os.access(path, os.X_OK)


def of_files(old: list[dict], new: list[dict], arm: str, margin_ratio: float) -> list[Row]:
    """Compare what two files say of an arm, where they have the same conditions and workload.

    Raises LabError (64) if they have nothing in common, or one of them mixes builds.
    """
    before, after = _cells(old, arm), _cells(new, arm)
    rows = []
    for where in before.keys() & after.keys():
        (title, one), (_, other) = before[where], after[where]
        change, p = stats.change(one.contrasts, other.contrasts)
        rows.append(Row(title, one.workload, one.metric, change, p, other.failures))
    if not rows:
        raise LabError(
            f"the files share no workload of {arm} under the same conditions; run the same "
            "comparison twice, or name the arm with --only",
            EX_USAGE,
        )
    rows.sort(key=lambda row: (row.where, row.workload))
    corrected = stats.holm([row.p for row in rows])
    return [
        _judged(replace(row, p=p), margin_ratio) for row, p in zip(rows, corrected, strict=True)
    ]


def of_blocks(runs: list[dict], margin_ratio: float) -> list[Row]:
    """Judge a comparison whose baseline is the old version, and whose only arm is the new one."""
    return [
        _judged(
            Row(
                table.title,
                row.workload,
                row.metric,
                row.ratio,
                row.p if row.verdict in ("better", "worse") else 1.0,
                _failures(table, row),
            ),
            margin_ratio,
        )
        for table in report.tables(runs, margin_ratio)
        for row in table.rows
        if row.is_cell
    ]


def exit_code(rows: list[Row]) -> int:
    """3 if anything is worse, else 4 if anything is undecided, else 0."""
    verdicts = {row.verdict for row in rows}
    if "worse" in verdicts:
        return EXIT_WORSE
    return EXIT_UNDECIDED if "undecided" in verdicts or not rows else 0


def table(rows: list[Row]) -> str:
    """The rows as text."""
    lines = [f"{'workload':<22} {'metric':<10} {'new/old':<24} {'p':>7}  verdict"]
    where = ""
    for row in rows:
        if row.where != where:
            where = row.where
            lines.append(where)
        lines.append(
            f"{row.workload:<22} {row.metric:<10} {report.interval(row.change):<24} "
            f"{row.p:>7.2g}  {row.verdict}"
        )
    return "\n".join(lines)


def _cells(runs: list[dict], arm: str) -> dict[tuple, tuple[str, report.Row]]:
    """Title and row of an arm's cells, by conditions, clock, baseline and workload."""
    found = {}
    for table in report.tables(runs):
        run = table.runs[0]
        here = (*records.conditions(run), *(run.get(name) for name in COMMON))
        for row in table.rows:
            if row.is_cell and row.arm == arm:
                row = replace(row, failures=_failures(table, row))
                found[*here, row.workload] = table.title, row
    return found


def _failures(table: report.Table, row: report.Row) -> int:
    """How often an arm has failed; 0 where the baseline has as well: that says nothing of it."""
    runs = report.by_workload(table.runs)[row.workload]
    baseline_failed = any(run["arm"] == run["baseline"] and not run["ok"] for run in runs)
    return 0 if baseline_failed else row.failures


def _judged(row: Row, margin_ratio: float) -> Row:
    """A loss must be certain and its size beyond the margin; no loss must be certain as well."""
    is_certain, change = row.p <= stats.ALPHA, row.change
    if row.failures:
        verdict = "worse"
    elif change is None:
        verdict = "undecided"
    elif change.low >= 1 - margin_ratio:
        verdict = "better" if change.low > 1 and is_certain else "no loss"
    else:
        is_loss = change.high < 1 and change.ratio < 1 - margin_ratio
        verdict = "worse" if is_loss and is_certain else "undecided"
    return replace(row, verdict=verdict)
