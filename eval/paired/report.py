# SPDX-License-Identifier: GPL-2.0-only
"""What the runs say: tables, as values, as text and as markdown."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import median

from workloads.workload import is_known, percentile

from . import records, stats
from .arms import TWIN_MARK
from .stats import Estimate

HEADER = (
    *("workload", "metric", "arm", "baseline", "arm's", "ratio", "A/A", "p", "delta"),
    *("stolen", "pairs", "verdict"),
)
LEGEND = """\
baseline, arm's: medians. ratio: paired, more than 1 is better, with its 95 % interval (BCa), or
in brackets the lowest and highest pair where these are too few for an interval.
A/A: the baseline against itself in the same blocks, which is the noise floor.
p: Wilcoxon, Holm-corrected over the workloads. delta: Cliff's, 1 if every run of the arm wins.
stolen: of the time that vCPUs wanted to run, the part taken under the baseline and the arm.
A verdict needs the whole interval beyond 1, p below 0.05, and the ratio farther from 1 than A/A.
Metrics other than a workload's first are not in the correction; their verdicts are in parentheses.\
"""
PERCENTILES = (50, 95, 99, 99.9)
# Stolen time that differs by more than this between arms explains more than schedulers do.
STOLEN_APART = 0.05


@dataclass(frozen=True)
class Row:
    """One arm on one metric of one workload."""

    workload: str
    metric: str
    unit: str
    better: str
    is_first: bool  # the metric that the verdict is about
    arm: str
    baseline_median: float | None
    arm_median: float | None
    ratio: Estimate | None
    noise: Estimate | None
    p: float
    delta: float | None
    stolen: tuple[float, float] | None
    pairs: int
    failures: int
    verdict: str


@dataclass(frozen=True)
class Table:
    """All that was found under one set of conditions."""

    title: str
    runs: list[dict]
    rows: list[Row]
    means: dict[str, Estimate]  # geometric mean by arm, over the first metrics
    remarks: list[str]


def tables(runs: Iterable[dict]) -> list[Table]:
    """A table for each set of conditions and baseline, in the order of the runs."""
    by_conditions: dict[tuple, list[dict]] = defaultdict(list)
    for run in runs:
        by_conditions[records.conditions(run) + (run["baseline"],)].append(run)
    found = []
    for (kernel, shape, vcpus, accel, baseline), some in by_conditions.items():
        title = f"{shape}, {vcpus} vCPUs, kernel {kernel}, {accel.upper()}, baseline {baseline}"
        found.append(Table(title, some, rows(some), means(some), _remarks(some, baseline)))
    return found


def noise(runs: list[dict], metric: str) -> Estimate | None:
    """The A/A estimate of a workload's metric."""
    baseline = runs[0]["baseline"] if runs else ""
    return stats.estimate(logs(runs, metric, baseline + TWIN_MARK))


def compared_arms(runs: list[dict]) -> list[str]:
    """The arms other than the baseline and its twin, in the order in which they were given."""
    baseline = runs[0]["baseline"]
    names = dict.fromkeys(run["arm"] for run in sorted(runs, key=_arm_rank))
    return [name for name in names if name not in (baseline, baseline + TWIN_MARK)]


def rows(runs: list[dict]) -> list[Row]:
    """The rows of all workloads under one set of conditions, an arm without ratio included.

    An arm that failed once has failed: the runs that it did finish do not speak for it.
    """
    found = [row for some in by_workload(runs).values() for row in _rows_of_workload(some)]
    for arm in {row.arm for row in found}:
        family = [i for i, row in enumerate(found) if row.arm == arm and row.is_first and row.ratio]
        corrected = stats.holm([found[i].p for i in family])
        for i, p in zip(family, corrected, strict=True):
            found[i] = replace(found[i], p=p)
    return [replace(row, verdict=_verdict(row)) for row in found]


def by_workload(runs: Iterable[dict]) -> dict[str, list[dict]]:
    """The runs of each workload."""
    found = defaultdict(list)
    for run in runs:
        found[run["workload"]].append(run)
    return found


def means(runs: list[dict]) -> dict[str, Estimate]:
    """The geometric mean of the ratios over the workloads, by arm; for two workloads or more."""
    found = {}
    for arm in compared_arms(runs):
        groups = [logs(some, _first_metric(some), arm) for some in by_workload(runs).values()]
        groups = [group for group in groups if group]
        if len(groups) > 1 and (mean := stats.geometric_mean(groups)):
            found[arm] = mean
    return found


def percentiles(runs: list[dict]) -> dict[str, dict[float, float]]:
    """By arm: percentiles of the latencies of all its runs together, as far as samples tell."""
    found = {}
    for arm, counts in distributions(runs).items():
        samples = counts.total()
        known = [each for each in PERCENTILES if is_known(samples, each)]
        found[arm] = {each: percentile(counts, each) for each in known}
    return found


def distributions(runs: list[dict]) -> dict[str, Counter[float]]:
    """By arm: the latencies of all its runs together (those of the twin belong to the baseline)."""
    found: dict[str, Counter[float]] = defaultdict(Counter)
    for run in sorted(runs, key=_arm_rank):
        for bound, count in run.get("latencies", {}).items():
            found[run["arm"].removesuffix(TWIN_MARK)][float(bound)] += count
    return {arm: counts for arm, counts in found.items() if counts.total()}


def render(runs: list[dict], markdown: bool = False) -> str:
    """The tables of all runs, one per set of conditions. "" without runs."""
    parts = []
    for table in tables(runs):
        lines = [cells(row) for row in table.rows]
        lines += [_mean_cells(arm, mean) for arm, mean in table.means.items()]
        parts.append(f"### {table.title}\n" if markdown else table.title)
        parts.append(markdown_table(HEADER, lines) if markdown else _text(HEADER, lines))
        parts.extend(table.remarks)
        if tail := percentile_cells(table):
            parts.append("")
            header = ("workload", "arm", "samples", *(f"p{each:g}" for each in PERCENTILES))
            parts.append(markdown_table(header, tail) if markdown else _text(header, tail))
        parts.append("")
    legend = "\n\n".join(LEGEND.split("\n")) if markdown else LEGEND
    return "\n".join([*parts, legend]) if parts else ""


def versions(runs: Iterable[dict]) -> str:
    """What took part, for people."""
    found = defaultdict(set)
    for run in runs:
        for name, each in run.get("versions", {}).items():
            found[name].add(each.removeprefix(name).strip())
    return ", ".join(f"{name} {' and '.join(sorted(each))}" for name, each in sorted(found.items()))


def preparations(runs: Iterable[dict]) -> list[str]:
    """What a scheduler had before its runs counted, for people; nothing of older files."""
    found = dict.fromkeys((run.get("settle_s"), run.get("rehearsed")) for run in runs)
    return [
        f"before its runs a scheduler had {settle_s:g} s to settle"
        + (", and a run that does not count" if rehearsed else "")
        for settle_s, rehearsed in found
        if settle_s is not None
    ]


def failed(runs: list[dict]) -> int:
    """How many runs have failed, of any arm."""
    return sum(not run["ok"] for run in runs)


def values(runs: list[dict], metric: str, arm: str) -> dict[int, float]:
    """An arm's values of a metric by pair."""
    return {
        run["pair"]: run["metrics"][metric]["value"]
        for run in runs
        if run["arm"] == arm and metric in run["metrics"]
    }


def logs(runs: list[dict], metric: str, arm: str) -> list[float]:
    """The log-ratios of an arm against the baseline, of one workload, in the order of the pairs."""
    reference, own = values(runs, metric, runs[0]["baseline"]), values(runs, metric, arm)
    better = next(
        (run["metrics"][metric]["better"] for run in runs if metric in run["metrics"]), "lower"
    )
    found = (
        stats.log_ratio(reference[pair], own[pair], better)
        for pair in sorted(reference.keys() & own.keys())
    )
    return [log for log in found if log is not None]


def stolen_ratio(runs: list[dict], arm: str) -> float | None:
    """Median part of the time that the vCPUs wanted to run, in which they could not."""
    parts = []
    for run in runs:
        wanted_ns = sum(run.get("run_ns", ())) + sum(run.get("run_delay_ns", ()))
        if run["arm"] == arm and wanted_ns:
            parts.append(sum(run["run_delay_ns"]) / wanted_ns)
    return median(parts) if parts else None


def _rows_of_workload(runs: list[dict]) -> list[Row]:
    baseline = runs[0]["baseline"]
    arms = compared_arms(runs) or [baseline + TWIN_MARK]
    metrics = {name: run["metrics"][name] for run in runs for name in run["metrics"]} or {
        "": {"unit": "", "better": ""}
    }
    found = []
    for number, (metric, meaning) in enumerate(metrics.items()):
        reference, floor = values(runs, metric, baseline), noise(runs, metric)
        for arm in arms:
            own, ratios = values(runs, metric, arm), logs(runs, metric, arm)
            stolen = stolen_ratio(runs, baseline), stolen_ratio(runs, arm)
            found.append(
                Row(
                    workload=runs[0]["workload"],
                    metric=metric,
                    unit=meaning["unit"],
                    better=meaning["better"],
                    is_first=number == 0,
                    arm=arm,
                    baseline_median=median(reference.values()) if reference else None,
                    arm_median=median(own.values()) if own else None,
                    ratio=stats.estimate(ratios),
                    noise=floor,
                    p=stats.p_value(ratios),
                    delta=stats.cliffs_delta(
                        [*reference.values()], [*own.values()], meaning["better"]
                    ),
                    stolen=None if None in stolen else stolen,
                    pairs=len({run["pair"] for run in runs if run["arm"] == arm}),
                    failures=sum(run["arm"] == arm and not run["ok"] for run in runs),
                    verdict="",
                )
            )
    return found


def _verdict(row: Row) -> str:
    if row.failures:
        return f"failed {row.failures}x"
    if row.arm.endswith(TWIN_MARK):
        return "A/A only"
    found = stats.verdict(row.ratio, row.noise, row.p if row.is_first else 0.0)
    return found if row.is_first else f"({found})"


def _first_metric(runs: list[dict]) -> str:
    return next((name for run in runs for name in run["metrics"]), "")


def _arm_rank(run: dict) -> int:
    """In the order in which the arms were given; the twin goes first."""
    return run["arms"].index(run["arm"]) if run["arm"] in run["arms"] else -1


def _remarks(runs: list[dict], baseline: str) -> list[str]:
    """What a reader of the table must know of notes, lost runs, and stolen time that differs."""
    remarks = []
    own = (baseline, baseline + TWIN_MARK)
    for workload, some in by_workload(runs).items():
        if some[0].get("note"):
            remarks.append(f"{workload}: {some[0]['note']}.")
        lost = sum(run["arm"] in own and not run["ok"] for run in some)
        if lost:
            remarks.append(f"{workload}: {lost} runs of the baseline itself failed.")
        floor = noise(some, _first_metric(some))
        if floor and floor.low and not floor.low <= 1 <= floor.high:
            remarks.append(
                f"{workload}: the baseline differs from itself ({interval(floor)}), so the machine "
                "was not quiet: do not build on this row, run it again."
            )
        reference = stolen_ratio(some, baseline)
        for arm in compared_arms(some):
            stolen = stolen_ratio(some, arm)
            if None not in (reference, stolen) and abs(stolen - reference) > STOLEN_APART:
                remarks.append(
                    f"{workload}: {stolen:.0%} was stolen under {arm} and {reference:.0%} under "
                    f"{baseline}: part of the difference may be the host's."
                )
        remarks += _neighbours(workload, some, baseline)
    remarks += failures(runs)
    kernels = {name: each for run in runs for name, each in run.get("kernels", {}).items()}
    of_arm = {run["arm"]: run.get("arm_kernel") for run in runs}
    for arm in compared_arms(runs):
        if of_arm[arm]:
            remarks.append(f"{arm}: a VM of its own, kernel {kernels.get(of_arm[arm])}.")
    if any(run.get("stolen_source", "").startswith("none") for run in runs):
        remarks.append("The hypervisor has told no stolen time; 0 may mean that it never does.")
    return remarks


def failures(runs: list[dict]) -> list[str]:
    """Why runs have failed: each reason of an arm once."""
    reasons = Counter((run["arm"], run.get("failure", "")) for run in runs if not run["ok"])
    return [
        f"{arm}: {count} {'run' if count == 1 else 'runs'} failed: "
        f"{reason.rstrip('.') or 'why is not known'}."
        for (arm, reason), count in reasons.items()
    ]


def _neighbours(workload: str, runs: list[dict], baseline: str) -> list[str]:
    """How much CPU time the VMs beside this one got under each arm, against the baseline."""

    def got(arm: str) -> float | None:
        parts = [
            sum(run["neighbours_run_ns"]) / run["duration_s"]
            for run in runs
            if run["arm"] == arm and run.get("neighbours_run_ns")
        ]
        return median(parts) if parts else None

    reference = got(baseline)
    if not reference:
        return []
    found = {arm: got(arm) for arm in compared_arms(runs)}
    told = [f"{each / reference - 1:+.0%} under {arm}" for arm, each in found.items() if each]
    return [f"{workload}: CPU time of the neighbours: {', '.join(told)}."] * bool(told)


def machine(facts: dict) -> str:
    """The machine that eval ran on, for people."""
    return f"{facts['cpu']}, {facts['cores']} cores, host kernel {facts['kernel']}"


def cells(row: Row) -> tuple[str, ...]:
    """The row under HEADER."""
    used = row.ratio.pairs if row.ratio else 0
    return (
        row.workload,
        f"{row.metric} ({row.unit})" if row.unit else row.metric,
        row.arm,
        number(row.baseline_median),
        number(row.arm_median),
        interval(row.ratio),
        interval(row.noise),
        f"{row.p:.3f}" if row.is_first and row.ratio else "",
        "" if row.delta is None else f"{row.delta:+.2f}",
        "/".join(f"{part:.0%}" for part in row.stolen) if row.stolen else "",
        str(used) if used == row.pairs else f"{used} of {row.pairs}",
        row.verdict,
    )


def _mean_cells(arm: str, mean: Estimate) -> tuple[str, ...]:
    cells = ("geometric mean", "", arm, "", "", interval(mean))
    return cells + ("",) * (len(HEADER) - len(cells))


def percentile_cells(table: Table) -> list[tuple[str, ...]]:
    """Workload, arm, samples and PERCENTILES, for workloads that tell latencies."""
    found = []
    for workload, some in by_workload(table.runs).items():
        counts = distributions(some)
        for arm, known in percentiles(some).items():
            told = (number(known[each]) if each in known else "-" for each in PERCENTILES)
            found.append((workload, arm, str(counts[arm].total()), *told))
    return found


def number(value: float | None) -> str:
    """A number for people."""
    return "-" if value is None else f"{value:.4g}" if value < 10000 else f"{value:.0f}"


def interval(estimate: Estimate | None, digits: int = 3) -> str:
    """A ratio and its interval for people."""
    if estimate is None:
        return "-"
    ratio = f"{estimate.ratio:.{digits}f}"
    if estimate.span is None:
        return f"{ratio} (pairs: {estimate.pairs})"
    low, high = (f"{end:.{digits}f}" for end in estimate.span)
    return f"{ratio} ({low}-{high})" if estimate.low > 0 else f"{ratio} [{low}, {high}]"


def markdown_table(header: tuple[str, ...], table: list[tuple[str, ...]]) -> str:
    """A table in markdown."""
    lines = [header, ("---",) * len(header), *table]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def _text(header: tuple[str, ...], table: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(header, *table, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in (header, *table)
    )
