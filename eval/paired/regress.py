# SPDX-License-Identifier: GPL-2.0-only
"""Says of two versions of the scheduler whether the new one is worse.

Two result files: the ratios to the common baseline are compared (no pairs, so the machine may have
changed in between; the baseline takes that out as far as it goes). Two builds: they run as pairs.
Exit codes: 0 no loss beyond the margin, 3 a loss, 4 too few or too noisy runs to tell.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from lab import LabError
from lab.errors import EX_USAGE

from . import records, report, stats
from .stats import Estimate

MARGIN = 0.05
EXIT_WORSE, EXIT_UNDECIDED = 3, 4


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


def of_files(old: list[dict], new: list[dict], arm: str, margin: float) -> list[Row]:
    """Compare what two files say of an arm, where they have the same conditions and workload.

    Raises LabError (64) if they have nothing in common.
    """
    rows = []
    for conditions, before in _by_workload(old, arm).items():
        after = _by_workload(new, arm).get(conditions)
        if not after:
            continue
        *where, workload = conditions
        metric = next((name for run in before for name in run["metrics"]), "")
        ratios = [report.logs(runs, metric, arm) for runs in (before, after)]
        rows.append(
            Row(
                ", ".join(map(str, where)),
                workload,
                metric,
                stats.change(*ratios),
                stats.rank_sum_p_value(*ratios),
                _failures(after, arm),
            )
        )
    if not rows:
        raise LabError(
            f"the files share no workload of {arm} under the same conditions; run the same "
            "comparison twice, or name the arm with --only",
            EX_USAGE,
        )
    return _judged(rows, margin)


def of_pairs(runs: list[dict], margin: float) -> list[Row]:
    """Judge a comparison whose baseline is the old version, and whose only arm is the new one."""
    rows = [
        Row(
            table.title,
            row.workload,
            row.metric,
            row.ratio,
            row.p,
            _failures(report.by_workload(table.runs)[row.workload], row.arm),
        )
        for table in report.tables(runs)
        for row in table.rows
        if row.is_first
    ]
    return _judged(rows, margin, corrected=True)


def exit_code(rows: list[Row]) -> int:
    """3 if anything is worse, else 4 if anything is undecided, else 0."""
    verdicts = {row.verdict for row in rows}
    if "worse" in verdicts:
        return EXIT_WORSE
    return EXIT_UNDECIDED if "undecided" in verdicts or not rows else 0


def table(rows: list[Row]) -> str:
    """The rows as text."""
    lines = [f"{'workload':<22} {'metric':<10} {'new/old':<24} {'p':>6}  verdict"]
    where = ""
    for row in rows:
        if row.where != where:
            where = row.where
            lines.append(where)
        lines.append(
            f"{row.workload:<22} {row.metric:<10} {report.interval(row.change):<24} "
            f"{row.p:>6.3f}  {row.verdict}"
        )
    return "\n".join(lines)


def _by_workload(runs: list[dict], arm: str) -> dict[tuple, list[dict]]:
    """The runs by conditions, baseline and workload, where the arm took part."""
    found: dict[tuple, list[dict]] = {}
    for run in runs:
        key = (*records.conditions(run), run["baseline"], run["workload"])
        found.setdefault(key, []).append(run)
    return {key: some for key, some in found.items() if any(run["arm"] == arm for run in some)}


def _failures(runs: list[dict], arm: str) -> int:
    """How often an arm has failed; 0 where the baseline has as well: that says nothing of it."""
    failed = [run["arm"] for run in runs if not run["ok"]]
    return 0 if runs[0]["baseline"] in failed else failed.count(arm)


def _judged(rows: list[Row], margin: float, corrected: bool = False) -> list[Row]:
    p_values = [row.p for row in rows]
    if not corrected:
        p_values = stats.holm(p_values)
    return [
        replace(row, p=p, verdict=_verdict(row, p, margin))
        for row, p in zip(rows, p_values, strict=True)
    ]


def _verdict(row: Row, p: float, margin: float) -> str:
    """A loss must be certain and its size beyond the margin; no loss must be certain as well."""
    if row.failures:
        return "worse"
    if row.change is None:
        return "undecided"
    if row.change.high < 1 and row.change.ratio < 1 - margin and p < stats.ALPHA:
        return "worse"
    if row.change.low >= 1 - margin:
        return "better" if row.change.low > 1 and p < stats.ALPHA else "no loss"
    return "undecided"
