# SPDX-License-Identifier: GPL-2.0-only
"""What the runs say: a table, as text or markdown."""

from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from . import records, stats
from .arms import TWIN_MARK
from .stats import Estimate

HEADER = ("workload", "metric", "arm", "baseline", "arm's", "ratio", "A/A", "pairs", "verdict")
LEGEND = (
    "baseline, arm's: medians. ratio: paired, more than 1 is better, with its 95 % interval.\n"
    "A/A: the baseline against itself in the same blocks, which is the noise floor.\n"
    "A verdict needs the whole interval beyond 1, and the ratio beyond the A/A interval."
)


@dataclass(frozen=True)
class Row:
    """One arm on one metric of one workload."""

    workload: str
    metric: str
    unit: str
    better: str
    arm: str
    baseline_median: float | None
    arm_median: float | None
    ratio: Estimate | None
    noise: Estimate | None
    pairs: int
    failures: int
    verdict: str


def noise(runs: list[dict], metric: str) -> Estimate | None:
    """The A/A estimate of a workload's metric."""
    baseline = runs[0]["baseline"] if runs else ""
    return _estimate(runs, metric, baseline, baseline + TWIN_MARK)


def rows(runs: list[dict]) -> list[Row]:
    """The rows of one workload under one set of conditions, an arm without ratio included.

    An arm that failed once has failed: the runs that it did finish do not speak for it.
    """
    baseline = runs[0]["baseline"]
    names = list(dict.fromkeys(run["arm"] for run in sorted(runs, key=_arm_rank)))
    compared = [name for name in names if name not in (baseline, baseline + TWIN_MARK)]
    metrics = {name: run["metrics"][name] for run in runs for name in run["metrics"]} or {
        "": {"unit": "", "better": ""}
    }
    found = []
    for metric, meaning in metrics.items():
        floor = noise(runs, metric)
        for arm in compared or [baseline + TWIN_MARK]:
            estimate = _estimate(runs, metric, baseline, arm)
            failures = sum(run["arm"] == arm and not run["ok"] for run in runs)
            verdict = stats.verdict(estimate, floor) if compared else "A/A only"
            found.append(
                Row(
                    runs[0]["workload"],
                    metric,
                    meaning["unit"],
                    meaning["better"],
                    arm,
                    _median(runs, metric, baseline),
                    _median(runs, metric, arm),
                    estimate,
                    floor,
                    len({run["pair"] for run in runs if run["arm"] == arm}),
                    failures,
                    f"failed {failures}x" if failures else verdict,
                )
            )
    return found


def render(runs: list[dict], markdown: bool = False) -> str:
    """The tables of all runs, one per set of conditions. "" without runs."""
    by_conditions: dict[tuple, dict[str, list[dict]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        by_conditions[records.conditions(run) + (run["baseline"],)][run["workload"]].append(run)
    parts = []
    for (kernel, shape, vcpus, accel, baseline), by_workload in by_conditions.items():
        title = f"{shape}, {vcpus} vCPUs, kernel {kernel}, {accel.upper()}, baseline {baseline}"
        table = [_cells(row) for of_one in by_workload.values() for row in rows(of_one)]
        parts.append(f"### {title}\n" if markdown else title)
        parts.append(_markdown(table) if markdown else _text(table))
        parts.extend(_remarks(by_workload, baseline))
        parts.append("")
    return "\n".join([*parts, LEGEND]) if parts else ""


def failed(runs: list[dict]) -> bool:
    """True if a run of any arm has failed."""
    return any(not run["ok"] for run in runs)


def _arm_rank(run: dict) -> int:
    """In the order in which the arms were given; the twin goes first."""
    return run["arms"].index(run["arm"]) if run["arm"] in run["arms"] else -1


def _values(runs: list[dict], metric: str, arm: str) -> dict[int, float]:
    return {
        run["pair"]: run["metrics"][metric]["value"]
        for run in runs
        if run["arm"] == arm and metric in run["metrics"]
    }


def _estimate(runs: list[dict], metric: str, baseline: str, arm: str) -> Estimate | None:
    reference, values = _values(runs, metric, baseline), _values(runs, metric, arm)
    better = next(
        (run["metrics"][metric]["better"] for run in runs if metric in run["metrics"]), "lower"
    )
    logs = (
        stats.log_ratio(reference[pair], values[pair], better)
        for pair in sorted(reference.keys() & values.keys())
    )
    return stats.estimate([log for log in logs if log is not None])


def _median(runs: list[dict], metric: str, arm: str) -> float | None:
    values = _values(runs, metric, arm).values()
    return median(values) if values else None


def _cells(row: Row) -> tuple[str, ...]:
    used = row.ratio.pairs if row.ratio else 0
    return (
        row.workload,
        f"{row.metric} ({row.unit})" if row.unit else row.metric,
        row.arm,
        _number(row.baseline_median),
        _number(row.arm_median),
        _interval(row.ratio),
        _interval(row.noise),
        str(used) if used == row.pairs else f"{used} of {row.pairs}",
        row.verdict,
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}" if value < 10000 else f"{value:.0f}"


def _interval(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    if estimate.low == 0:
        return f"{estimate.ratio:.3f} (too few pairs)"
    return f"{estimate.ratio:.3f} ({estimate.low:.3f}-{estimate.high:.3f})"


def _remarks(by_workload: dict[str, list[dict]], baseline: str) -> list[str]:
    """What a reader of the table must know: notes of the workloads, runs of the baseline lost."""
    remarks = []
    for workload, runs in by_workload.items():
        if runs[0].get("note"):
            remarks.append(f"{workload}: {runs[0]['note']}.")
        own = (baseline, baseline + TWIN_MARK)
        lost = sum(run["arm"] in own and not run["ok"] for run in runs)
        if lost:
            remarks.append(f"{workload}: {lost} runs of the baseline itself failed.")
    return remarks


def _markdown(table: list[tuple[str, ...]]) -> str:
    lines = [HEADER, ("---",) * len(HEADER), *table]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def _text(table: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(HEADER, *table, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in (HEADER, *table)
    )
