# SPDX-License-Identifier: GPL-2.0-only
"""Runs scenarios in lab VMs: a VM for each seed of each."""

import copy
import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from compare import arms, records
from compare.arms import OURS, Policies
from compare.jobs import do_at_once
from compare.plan import Plan, duration
from compare.progress import Progress
from compare.records import Journal
from compare.runner import run_on
from compare.stage import LabStage
from vlab import LabError
from vlab.clock import VIRTUAL
from workloads import Size, Workload

from .model import Scenario

BASELINE = "eevdf"


@dataclass(frozen=True)
class How:
    """How long and how exact. `seconds`: that a workload lasts at least."""

    seeds: Sequence[int]
    ns_per_instruction: float
    seconds: float
    folder: Path


def results(folder: Path, scenario: Scenario) -> Path:
    """Where the runs of a scenario are kept."""
    return folder / f"{scenario.name}.jsonl"


def without(part: Sequence[str]) -> str:
    """The name of the arm without these policies."""
    return f"without-{'-'.join(part)}"


def with_them(part: Sequence[str]) -> str:
    """The name of the arm with these policies too, which are not in `all`."""
    return f"with-{'-'.join(part)}"


def arm_texts(scenario: Scenario, policies: Policies) -> list[str]:
    """The scenario's arms for arms.parse, the baseline first. `policies`: all there are.

    Raises LabError (69) if one of the scenario's is not among them.
    """
    chosen = set(scenario.part)
    if unknown := chosen - set(policies.usual) - set(policies.others):
        raise LabError(
            f"{OURS} has no policy {min(unknown)}, which {scenario.name} judges; build it "
            "again with make"
        )
    part = []
    if chosen & set(policies.others):
        part = [f"{with_them(scenario.part)}={OURS}:--policies {','.join(['all', *scenario.part])}"]
    elif chosen:
        kept = [policy for policy in policies.usual if policy not in chosen]
        part = [f"{without(scenario.part)}={OURS}:--policies {','.join(kept)}"]
    return [BASELINE, OURS, *part, *scenario.beside]


def workloads(scenario: Scenario, size: Size) -> list[Workload]:
    """What the rows run, each once, as far as its programs are on this machine."""
    loads = [row.load(size) for row in scenario.rows]
    return [each for each in {load.name: load for load in loads}.values() if not each.missing()]


def missing(scenario: Scenario) -> dict[str, list[str]]:
    """Rows that cannot run here, and the programs that they lack."""
    lacking = {row.what: row.load(Size()).missing() for row in scenario.rows}
    return {what: programs for what, programs in lacking.items() if programs}


def run_all(scenarios: Sequence[Scenario], how: How, jobs: int) -> None:
    """Run what the files do not have yet, so many VMs at once. Raises LabError as compare does."""
    progress = Progress(name="papers")
    parts, total, done = [], 0, 0
    for scenario in scenarios:
        for what, programs in missing(scenario).items():
            progress.say(
                f"{scenario.name}, {what}: needs {', '.join(programs)}, which "
                "deploy/setup.sh eval installs"
            )
        if workloads(scenario, Size()):
            stage, plan, journal = _prepare(scenario, how)
            total, done = total + plan.runs, done + len(journal.records)
            parts += [
                functools.partial(
                    _run, scenario, copy.copy(stage), plan, seed, journal, progress, how
                )
                for seed in how.seeds
            ]
    progress.begin(total, done)
    try:
        do_at_once(parts, jobs)
    finally:
        progress.end()


def _prepare(scenario: Scenario, how: How) -> tuple[LabStage, Plan, Journal]:
    compared = arms.parse_list(arm_texts(scenario, arms.policies()))
    journal = Journal(results(how.folder, scenario), resume=True)
    stage = LabStage(
        compared,
        scenario.shape,
        vcpus=scenario.vcpus,
        clock=VIRTUAL,
        ns_per_instruction=how.ns_per_instruction,
    )
    chosen = workloads(scenario, stage.size(how.seconds))
    plan = Plan(
        compared,
        chosen,
        how.seeds,
        page_cells=(len(compared) - 1) * len(chosen),
        warm_up=False,
        rehearse=True,  # ivh and rescue are on trial until there was load
    )
    records.require_one_page(
        [*journal.records, stage.facts | plan.facts()],
        "go on with the build and the options of the files, or give another --out",
    )
    plan.prepare()
    return stage, plan, journal


def _run(
    scenario: Scenario,
    stage: LabStage,
    plan: Plan,
    seed: int,
    journal: Journal,
    progress: Progress,
    how: How,
) -> None:
    """One seed of a scenario, in a VM of its own."""
    begin_s = time.monotonic()

    def sized() -> list[Workload]:
        return workloads(scenario, stage.size(max(how.seconds, scenario.seconds)))

    run_on(stage, replace(plan, seeds=(seed,)), sized, journal, progress)
    took = duration(time.monotonic() - begin_s)
    progress.say(f"{scenario.name}, seed {seed}: done in {took}")
