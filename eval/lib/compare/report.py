# SPDX-License-Identifier: GPL-2.0-only
"""What the runs say: tables, as values, as text and as markdown."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from workloads.workload import Size, is_known, percentile

from . import records, stats
from .arms import TWIN_MARK
from .stats import Estimate, Evidence

HEADER = (
    *("workload", "metric", "arm", "baseline", "arm's", "ratio", "A/A", "p"),
    *("stolen", "blocks", "verdict"),
)
LEGEND = """\
baseline, arm's: medians; the baseline's of both its turns. ratio: to the baseline, above 1 is
better, with the exact 95 % t interval of this row alone. A block is one seed, and counts once.
A/A: the baseline's second turn against its first. stolen: of the time that vCPUs wanted to run, the
part taken under the baseline and the arm.
p: corrected for a look after each block and, by Holm, for the number of cells of the page.
Verdicts at p <= 0.05: better, worse, or level: within {margin:g} % of the baseline. Only the first
metric of a workload has one. vcpu_us_per_op: time that all vCPUs ran on the host, for a unit of
work.\
"""
VERDICTS = ("better", "level", "worse")
PERCENTILES = (50, 95, 99, 99.9)
# Stolen time that differs by more than this between arms explains more than schedulers do.
STOLEN_APART = 0.05
# One of twenty intervals of A/A misses 1 by chance; by more than this, hardly one.
AA_APART = 0.01


@dataclass(frozen=True)
class Row:
    """One arm on one metric of one workload; a cell of the page if the metric is the first."""

    workload: str
    metric: str
    unit: str
    better: str
    is_first: bool  # the metric that the verdict is about
    arm: str
    baseline_median: float | None
    arm_median: float | None
    contrasts: Sequence[float]
    aa_contrasts: Sequence[float]
    ratio: Estimate | None
    noise: Estimate | None
    stolen: tuple[float, float] | None
    blocks: int
    failures: int
    p: float = 1.0
    verdict: str = ""

    @property
    def is_cell(self) -> bool:
        """Whether it has a verdict. An arm that failed once has, too: it failed."""
        return self.is_first and not self.arm.endswith(TWIN_MARK)


@dataclass(frozen=True)
class Table:
    """All that was found under one set of conditions."""

    title: str
    runs: list[dict]
    rows: list[Row]
    remarks: list[str]


@dataclass(frozen=True)
class Score:
    """How an arm did on a page: cells by verdict, and the cell with the lowest ratio."""

    verdicts: Counter[str]
    cells: int
    worst: Row | None
    where: str  # the worst cell's conditions

    @property
    def counts(self) -> tuple[int, ...]:
        """Cells won, level, lost, undecided, failed."""
        told = [self.verdicts[word] for word in (*VERDICTS, "undecided")]
        return (*told, self.cells - sum(told))


def tables(runs: Iterable[dict], margin_ratio: float = stats.MARGIN_RATIO) -> list[Table]:
    """The tables of a page, one for each set of conditions, in the order of the runs.

    Raises LabError (64) if the runs mix builds, arm sets or settle times, or repeat a seed.
    """
    runs = list(runs)
    records.require_one_page(runs, "report one comparison at a time, or run it again as a whole")
    records.require_distinct(runs)
    by_conditions: dict[tuple, list[dict]] = defaultdict(list)
    for run in runs:
        by_conditions[records.conditions(run)].append(run)
    drafts = [
        [row for each in by_workload(some).values() for row in _rows_of_workload(each)]
        for some in by_conditions.values()
    ]
    cells = [row for rows in drafts for row in rows if row.is_cell]
    evidence = [_evidence(row, margin_ratio) for row in cells]
    found = stats.verdicts(evidence, family(runs, cells))
    judged = {id(row): verdict for row, verdict in zip(cells, found, strict=True)}
    return [
        Table(_title(some[0]), some, [_judged(row, judged) for row in rows], _remarks(some))
        for some, rows in zip(by_conditions.values(), drafts, strict=True)
    ]


def family(runs: Iterable[dict], rows: Iterable[Row]) -> int:
    """How many cells the verdicts are corrected for: those planned, or all if more."""
    return max([sum(row.is_cell for row in rows), *(run.get("page_cells", 0) for run in runs)])


def _title(run: dict) -> str:
    accel = "" if run["clock"] == "virtual" else f"{run['accel'].upper()}, "
    return (
        f"{run['shape']}, {run['vcpus']} vCPUs, kernel {kernel(run)}, {accel}{clock(run)}, "
        f"baseline {run['baseline']}"
    )


def kernel(facts: dict) -> str:
    """A kernel's release, and whether its clocks leave out stolen time, if that is known."""
    has = {True: " with", False: " without"}.get(facts["paravirt_time"])
    return facts["kernel"] + (f"{has} PARAVIRT_TIME_ACCOUNTING" if has else "")


def clock(run: dict) -> str:
    """By what time was measured."""
    names = {"wall": "wall time", "virtual": "virtual time", "instructions": "counted instructions"}
    speed = run["ns_per_instruction"]
    told = f", {speed:g} ns an instruction" if speed else ""
    if "paravirt" in run:
        told += f", the host offers {' and '.join(run['paravirt']) or 'nothing'}"
    return names.get(run["clock"], run["clock"]) + told


def _evidence(row: Row, margin_ratio: float) -> Evidence:
    """Nothing is concluded on an arm that failed: the runs that it finished do not speak for it."""
    if row.failures:
        return Evidence()
    return stats.evidence(row.contrasts, row.aa_contrasts, margin_ratio)


def _judged(row: Row, judged: dict[int, tuple[str, float]]) -> Row:
    if row.arm.endswith(TWIN_MARK):
        return replace(row, verdict="A/A only")
    verdict, p = judged.get(id(row), ("", 1.0))
    return replace(row, p=p, verdict=f"failed {row.failures}x" if row.failures else verdict)


def decided(runs: Iterable[dict], margin_ratio: float) -> set[tuple]:
    """The cells that need no more blocks: conditions, workload and arm of each."""
    return {
        (*records.conditions(table.runs[0]), row.workload, row.arm)
        for table in tables(runs, margin_ratio)
        for row in table.rows
        if row.verdict in VERDICTS
    }


def scores(page: Iterable[Table]) -> dict[str, Score]:
    """The headline of a page, by arm: counts of cells, no mean over them."""
    cells = defaultdict(list)
    for table in page:
        for row in table.rows:
            if row.is_cell:
                cells[row.arm].append((row, short_title(table)))
    found = {}
    for arm, some in cells.items():
        known = [each for each in some if each[0].ratio]
        worst, where = min(known, key=lambda each: each[0].ratio.ratio, default=(None, ""))
        found[arm] = Score(Counter(row.verdict for row, _ in some), len(some), worst, where)
    return found


SCORE_HEADER = ("arm", "won", "level", "lost", "undecided", "failed", "worst cell")


def score_cells(page: Iterable[Table]) -> list[tuple[str, ...]]:
    """The headline under SCORE_HEADER."""
    return [
        (
            arm,
            *map(str, score.counts),
            f"{interval(score.worst.ratio)} {score.worst.workload}, {score.where}"
            if score.worst
            else "-",
        )
        for arm, score in scores(page).items()
    ]


def short_title(table: Table) -> str:
    """Short enough to leave room for numbers on a phone."""
    run = table.runs[0]
    return f"{run['shape']}, {run['vcpus']} vCPUs"


def noise(runs: list[dict], metric: str) -> Estimate | None:
    """The A/A estimate of a workload's metric: the baseline's second turn against its first."""
    return stats.estimate(contrasts(runs, metric, runs[0]["baseline"] + TWIN_MARK))


def compared_arms(runs: list[dict]) -> list[str]:
    """The arms other than the baseline and its twin, in the order in which they were given."""
    baseline = runs[0]["baseline"]
    names = dict.fromkeys(run["arm"] for run in sorted(runs, key=_arm_rank))
    return [name for name in names if name not in (baseline, baseline + TWIN_MARK)]


def by_workload(runs: Iterable[dict]) -> dict[str, list[dict]]:
    """The runs of each workload."""
    found = defaultdict(list)
    for run in runs:
        found[run["workload"]].append(run)
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


def render(
    runs: list[dict], markdown: bool = False, margin_ratio: float = stats.MARGIN_RATIO
) -> str:
    """The page of all runs: its headline, then a table per set of conditions. "" without runs."""
    draw = markdown_table if markdown else _text
    page = tables(runs, margin_ratio)
    parts = []
    if lines := score_cells(page):
        parts += [draw(SCORE_HEADER, lines), ""]
    for table in page:
        parts.append(f"### {table.title}\n" if markdown else table.title)
        parts.append(draw(HEADER, [cells(row) for row in table.rows]))
        parts.extend(table.remarks)
        if tail := percentile_cells(table):
            header = ("workload", "arm", "samples", *(f"p{each:g}" for each in PERCENTILES))
            parts += ["", draw(header, tail)]
        parts.append("")
    told = legend(margin_ratio)
    return "\n".join([*parts, "\n\n".join(told.split("\n")) if markdown else told]) if parts else ""


def legend(margin_ratio: float) -> str:
    """What the columns mean."""
    return LEGEND.format(margin=100 * margin_ratio)


def versions(runs: Iterable[dict]) -> str:
    """What took part, for people."""
    found = defaultdict(set)
    for run in runs:
        for name, each in run.get("versions", {}).items():
            found[name].add(each.removeprefix(name).strip())
    return ", ".join(f"{name} {' and '.join(sorted(each))}" for name, each in sorted(found.items()))


def preparation(runs: Sequence[dict]) -> str:
    """What each arm had before its runs counted, for people."""
    settled = f"each arm had {runs[0]['settle_s']:g} s to settle"
    return settled + (", and a run that does not count" if runs[0]["rehearsed"] else "")


def caveats(runs: Sequence[dict]) -> list[str]:
    """What limits the meaning of runs by this clock."""
    if runs[0]["clock"] != "wall" or not any(Size(run["accel"]).is_emulated for run in runs):
        return []
    return [
        "the VM is emulated, and time is the host's: switches and wake-ups cost 20 to 30 times as "
        "much as on hardware, so a scheduler's own cost is magnified; only ratios mean anything"
    ]


def failed(runs: list[dict]) -> int:
    """How many runs have failed, of any arm."""
    return sum(not run["ok"] for run in runs)


def values(runs: list[dict], metric: str, arm: str) -> dict[int, float]:
    """An arm's values of a metric by block."""
    return {
        run["seed"]: run["metrics"][metric]["value"]
        for run in runs
        if run["arm"] == arm and metric in run["metrics"]
    }


def contrasts(runs: list[dict], metric: str, arm: str) -> list[float]:
    """An arm's contrasts by block, of one workload; those of the twin are with the baseline."""
    if not runs:
        return []
    baseline = runs[0]["baseline"]
    names = [baseline] if arm == baseline + TWIN_MARK else [baseline, baseline + TWIN_MARK]
    better = next(
        (run["metrics"][metric]["better"] for run in runs if metric in run["metrics"]), "lower"
    )
    own, *reference = (values(runs, metric, name) for name in (arm, *names))
    return stats.contrasts(own, reference, better)


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
        reference = [
            value
            for name in (baseline, baseline + TWIN_MARK)
            for value in values(runs, metric, name).values()
        ]
        for arm in arms:
            own, logs = values(runs, metric, arm), contrasts(runs, metric, arm)
            of_blocks = [run for run in runs if run["seed"] in own]
            stolen = stolen_ratio(runs, baseline), stolen_ratio(runs, arm)
            found.append(
                Row(
                    workload=runs[0]["workload"],
                    metric=metric,
                    unit=meaning["unit"],
                    better=meaning["better"],
                    is_first=number == 0,
                    arm=arm,
                    baseline_median=median(reference) if reference else None,
                    arm_median=median(own.values()) if own else None,
                    contrasts=logs,
                    aa_contrasts=contrasts(of_blocks, metric, baseline + TWIN_MARK),
                    ratio=stats.estimate(logs),
                    noise=noise(runs, metric),
                    stolen=None if None in stolen else stolen,
                    blocks=len({run["seed"] for run in runs if run["arm"] == arm}),
                    failures=sum(run["arm"] == arm and not run["ok"] for run in runs),
                )
            )
    return found


def _first_metric(runs: list[dict]) -> str:
    return next((name for run in runs for name in run["metrics"]), "")


def _arm_rank(run: dict) -> int:
    """In the order in which the arms were given; the twin goes first."""
    return run["arms"].index(run["arm"]) if run["arm"] in run["arms"] else -1


def _remarks(runs: list[dict]) -> list[str]:
    """What a reader of the table must know of notes, lost runs, and stolen time that differs."""
    remarks = []
    baseline = runs[0]["baseline"]
    own = (baseline, baseline + TWIN_MARK)
    for workload, some in by_workload(runs).items():
        if some[0].get("note"):
            remarks.append(f"{workload}: {some[0]['note']}.")
        lost = sum(run["arm"] in own and not run["ok"] for run in some)
        if lost:
            remarks.append(f"{workload}: {lost} runs of the baseline itself failed.")
        floor = noise(some, _first_metric(some))
        if floor and not floor.low * (1 - AA_APART) <= 1 <= floor.high * (1 + AA_APART):
            remarks.append(
                f"{workload}: the baseline differs from itself ({interval(floor)}): the order of "
                "turns matters, or the machine was not quiet; do not build on this row."
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
    vms = {run["arm"]: run["arm_vm"] for run in runs if run.get("arm_vm")}
    for arm in compared_arms(runs):
        if vm := vms.get(arm):
            booted = f", booted with {vm['append']}" if vm["append"] else ""
            remarks.append(f"{arm}: a VM of its own, kernel {kernel(vm)}{booted}.")
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
    used = len(row.contrasts)
    return (
        row.workload,
        f"{row.metric} ({row.unit})" if row.unit else row.metric,
        row.arm,
        number(row.baseline_median),
        number(row.arm_median),
        interval(row.ratio),
        interval(row.noise),
        f"{row.p:.2g}" if row.is_cell and row.ratio else "",
        "/".join(f"{part:.0%}" for part in row.stolen) if row.stolen else "",
        str(used) if used == row.blocks else f"{used} of {row.blocks}",
        row.verdict,
    )


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
    if not estimate.low:
        return f"{ratio} (blocks: {estimate.blocks})"
    return f"{ratio} ({estimate.low:.{digits}f}-{estimate.high:.{digits}f})"


def markdown_table(header: tuple[str, ...], table: list[tuple[str, ...]]) -> str:
    """A table in markdown."""
    lines = [header, ("---",) * len(header), *table]
    told = (" | ".join(cell.replace("|", r"\|") for cell in cells) for cells in lines)
    return "".join(f"| {line} |\n" for line in told)


def _text(header: tuple[str, ...], table: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(header, *table, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in (header, *table)
    )
