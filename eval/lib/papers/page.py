# SPDX-License-Identifier: GPL-2.0-only
"""The experiments as a page of markdown: a table for each paper, of what has run so far.

All of them take days, so each scenario has its own build: figures() is what the page keeps of it,
in a file beside it, until its runs are made anew.
"""

import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from compare import provenance, records, report, stats
from compare.arms import OURS, TWIN_MARK
from compare.stats import Estimate
from vlab import LabError
from vlab.errors import EX_UNAVAILABLE, EX_USAGE
from workloads import Size

from .model import Paper, Row, Scenario
from .run import BASELINE, results, with_them, without

Kept = Mapping[str, dict]  # figures() by scenario
NOT_RUN = "-"
# A row is on the page by its first columns, whether it has run or not.
HEADER = ("figure", "what runs here", "paper", "of what")
MEASURED = ("EEVDF", "A/A", "scx_vaware", "its part", "EEVDF with haltpoll", "seeds")
SHOWN = (*MEASURED, "build", "note")

HEAD = """\
# The papers' experiments

Written by `eval/papers page docs/results/papers.md` from what `make papers` ran: the papers' VMs on
a simulated host, by virtual time, with a stock kernel and the real scheduler. Workloads stand for
the papers' programs. So this shows whether an effect is there and how large it is here, not that a
paper's figure is right.

Ratios say how many times as good; above 1 is better. Those of the papers are relative to what "of
what" says. EEVDF: its median, in the workload's unit. A/A: EEVDF's second turn against its first.
scx_vaware: against both turns of EEVDF, as far as they have run. Its part: scx_vaware against
scx_vaware without the policies named, or with them against without if they are not in `all`. In
parentheses the 95 % interval over the seeds of this row alone; with few seeds it is wide. There are
no verdicts here ([evaluation.md](../evaluation.md) tells how those are made). Build: the
commit that a row was measured at; a scenario is measured anew as a whole. "-": not run.
"""


def read(folder: Path, scenarios: Iterable[Scenario]) -> dict[str, dict]:
    """The figures of what has run in a folder. Raises LabError (64) for runs of two builds."""
    advice = "remove the file, or give another --out"
    found = {}
    for scenario in scenarios:
        path = results(folder, scenario)
        if path.exists() and (runs := records.read(path)):
            records.require_one_page(runs, advice)
            found[scenario.name] = figures(scenario, runs)
    return found


def kept(path: Path) -> dict[str, dict]:
    """The figures that a page has kept; none without the file. Raises LabError (64)."""
    try:
        return json.loads(path.read_text()) if path.exists() else {}
    except (OSError, ValueError) as why:
        raise LabError(f"{path} has no figures ({why}); restore it from git", EX_USAGE) from None


def keep(path: Path, figures_kept: Kept) -> None:
    """Write what kept() reads. Raises LabError (69)."""
    try:
        path.write_text(json.dumps(dict(sorted(figures_kept.items())), indent=1) + "\n")
    except OSError as why:
        raise LabError(
            f"{path} cannot be written ({why.strerror}); check it", EX_UNAVAILABLE
        ) from None


def figures(scenario: Scenario, runs: Sequence[dict]) -> dict:
    """What the page says of a scenario: cells by row, and how they came about."""
    return provenance.of_runs(runs) | {
        "kernel": report.kernel(runs[0]),
        "by": report.clock(runs[0]),
        "preparation": report.preparation(runs),
        "rows": {row.what: _measured(scenario, row, runs) for row in scenario.rows},
    }


def notes(path: Path) -> dict[str, dict[str, str]]:
    """What is to be said of single rows, by build and row_name()."""
    return tomllib.loads(path.read_text()) if path.exists() else {}


def row_name(scenario: Scenario, row: Row) -> str:
    """What a note calls a row."""
    return f"{scenario.name}: {row.what}"


def render(papers: Sequence[Paper], found: Kept, remarks: Mapping[str, Mapping[str, str]]) -> str:
    """The page."""
    return "\n".join(
        [HEAD, *_conditions(found), *(_section(each, found, remarks) for each in papers)]
    )


def _conditions(found: Kept) -> list[str]:
    if not found:
        return ["Nothing has run yet.\n"]
    runs: Counter[tuple[str, str]] = Counter()
    for some in found.values():
        told = (
            f"build {some['build']}, kernel {some['kernel']}, {some['by']}; {some['preparation']}"
        )
        runs[some["date"], told] += some["runs"]
    return [
        *(f"- {date}, {count} runs, {told}" for (date, told), count in sorted(runs.items())),
        "",
    ]


def _section(paper: Paper, found: Kept, remarks: Mapping[str, Mapping[str, str]]) -> str:
    lines = [
        (*_named(row), *_shown(scenario, row, found.get(scenario.name), remarks))
        for scenario in paper.scenarios
        for row in scenario.rows
    ]
    parts = [f"## {paper.title}\n", report.markdown_table((*HEADER, *SHOWN), lines)]
    if limits := _limits(paper):
        parts.append("What is missing for a row:\n\n" + limits)
    if paper.unshown:
        cells = [(each.figure, each.paper, each.why) for each in paper.unshown]
        parts.append("Not here:\n")
        parts.append(report.markdown_table(("figure", "paper", "why not"), cells))
    return "\n".join(parts)


def _shown(
    scenario: Scenario,
    row: Row,
    some: dict | None,
    remarks: Mapping[str, Mapping[str, str]],
) -> tuple[str, ...]:
    if not some or row.what not in some["rows"]:
        return (*[NOT_RUN] * (len(SHOWN) - 1), "")
    *cells, failed = some["rows"][row.what]
    note = remarks.get(some["build"], {}).get(row_name(scenario, row), "")
    return (*cells, some["build"], " ".join(filter(None, (note, failed))))


def _limits(paper: Paper) -> str:
    by_limit: dict[str, list[str]] = {}
    for scenario in paper.scenarios:
        if scenario.limit:
            figures = by_limit.setdefault(scenario.limit, [])
            figures += [row.figure for row in scenario.rows if row.figure not in figures]
    return "".join(f"- {', '.join(figures)}: {limit}.\n" for limit, figures in by_limit.items())


def _named(row: Row) -> tuple[str, ...]:
    paper = " to ".join(f"{value:.2f}" for value in row.paper) or "chart"
    return row.figure, row.what, paper, row.of


def _measured(scenario: Scenario, row: Row, runs: Sequence[dict]) -> list[str]:
    """The cells of MEASURED, and what is to be said of failed runs."""
    name = row.load(Size()).name
    some = [run for run in runs if run["workload"] == name]
    done = [run for run in some if run["ok"]]
    failed = f"Failed runs: {len(some) - len(done)}." if len(some) > len(done) else ""
    if not done:
        return [*[NOT_RUN] * len(MEASURED), failed]
    metric = row.metric or next(iter(done[0]["metrics"]))
    meaning = done[0]["metrics"][metric]

    def against(arm: str, *baselines: str) -> Estimate | None:
        own, *reference = (report.values(done, metric, each) for each in (arm, *baselines))
        # Of a scenario that was interrupted, one turn of the baseline is better than none.
        reference = list(filter(None, reference))
        if not reference:
            return None
        return stats.estimate(stats.contrasts(own, reference, meaning["better"]), min_blocks=2)

    both = BASELINE, BASELINE + TWIN_MARK
    eevdf = [value for arm in both for value in report.values(done, metric, arm).values()]
    part = against(OURS, without(scenario.part)) or against(with_them(scenario.part), OURS)
    policies = f" ({', '.join(scenario.part)})" if part else ""
    return [
        f"{report.number(median(eevdf))} {meaning['unit']}" if eevdf else NOT_RUN,
        _told(against(both[1], both[0])),
        _told(against(OURS, *both)),
        _told(part) + policies,
        _told(against(scenario.beside[0], *both)) if scenario.beside else NOT_RUN,
        str(len({run["seed"] for run in done})),
        failed,
    ]


def _told(estimate: Estimate | None) -> str:
    if estimate is None:
        return NOT_RUN
    if not estimate.low:
        return f"{estimate.ratio:.2f}"
    return f"{estimate.ratio:.2f} ({estimate.low:.2f}-{estimate.high:.2f})"
