# SPDX-License-Identifier: GPL-2.0-only
"""Runs the workloads under the arms, in blocks, on a stage."""

import datetime
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from vlab import CommandTimeout, LabError
from workloads import ParseError, Workload

from . import arms, cost, records, report
from .arms import Arm, ArmFailed, Charge, Guest
from .plan import Plan
from .progress import Progress
from .records import Journal
from .stage import Stage

LINES_SHOWN = 15  # of the output of a failed run; the journal has more
MAX_FAILURES = 3  # of an arm in a workload, then the arm sits out
# What a workload leaves behind is ended, so that it does not disturb the next run.
RUN_MARK = "VAWARE_COMPARE_RUN"
SWEEP = (
    f"grep -lzs '^{RUN_MARK}=' /proc/[0-9]*/environ | cut -d/ -f3 | xargs -r kill -9 2>/dev/null"
)
SWEEP_TIMEOUT_S = 30


def run_on(
    stage: Stage,
    plan: Plan,
    workloads: Callable[[], Sequence[Workload]],
    journal: Journal,
    progress: Progress,
) -> None:
    """Run a plan on a stage that is entered for it. Raises LabError as Runner.compare does.

    `workloads` is asked once the stage is entered: under KVM workloads do more than was guessed
    before its accelerator is known.
    """
    with stage:
        Runner(stage, replace(plan, workloads=workloads()), journal, progress).compare()


class Runner:
    """Runs a plan on a stage, and writes each run to the journal.

    Runs that the journal already has are not run again. An arm in its turn is put in charge once,
    and runs each workload once.
    """

    def __init__(self, stage: Stage, plan: Plan, journal: Journal, progress: Progress):
        self.stage = stage
        self.plan = plan
        self.journal = journal
        self.progress = progress
        self._baselines = [arm.name for arm in plan.baselines]
        self._conditions = records.conditions(stage.facts)

    def compare(self) -> None:
        """Run blocks until each cell is decided, or the seeds are used up.

        Raises LabError: 75 if the VM is gone (the run that lost it is kept as failed), 69 if a
        workload cannot be set up.
        """
        for seed in self.plan.seeds:
            done = sum(run["seed"] == seed for run in self._records())
            todo = self._todo(seed)
            runs = sum(map(len, todo.values()))
            self.progress.skip(self.plan.runs_of_block - done - runs)
            if not runs:
                continue
            for order, arm in enumerate(self.plan.turns(seed)):
                if todo[arm.name] and (guest := self.stage.ready(arm, seed)):
                    self._set_up(guest)
                while todo[arm.name]:
                    self._turn(seed, order, arm, todo[arm.name])

    def _todo(self, seed: int) -> dict[str, list[Workload]]:
        """By arm: the workloads that it has yet to run in a block, in their order."""
        here = self._records()
        done = {(run["workload"], run["arm"]) for run in here if run["seed"] == seed}
        failures = Counter((run["workload"], run["arm"]) for run in here if not run["ok"])
        decided = report.decided(self.journal.records, self.plan.margin_ratio)
        todo: dict[str, list[Workload]] = {arm.name: [] for arm in self.plan.turns(seed)}
        for workload in self.plan.workloads_of(seed):
            open_ = [
                name
                for name in todo
                if failures[workload.name, name] < MAX_FAILURES
                and (*self._conditions, workload.name, name) not in decided
            ]
            compared = [name for name in open_ if name not in self._baselines]
            if len(open_) - len(compared) < 2 or not (compared or len(self.plan.arms) == 1):
                continue
            for name in open_:
                if (workload.name, name) not in done:
                    todo[name].append(workload)
        return todo

    def _records(self) -> list[dict]:
        """The runs so far under the conditions of this stage."""
        return [run for run in self.journal.records if records.conditions(run) == self._conditions]

    def _set_up(self, guest: Guest) -> None:
        """Bring what the workloads need into a machine, and run each of them once unrecorded.

        So caches are warm in the first run that counts, and a workload that cannot work is known
        by then (its runs will say why).
        """
        for setup in dict.fromkeys(w.setup for w in self.plan.workloads if w.setup):
            done = guest.run(setup, 120)
            if done.rc:
                raise LabError(
                    f"a workload cannot be set up ({done.output.strip()[-300:]}); is "
                    "/dev/shm full, or a tool missing? See deploy/setup.sh eval --check"
                )
        if self.plan.warm_up:
            for workload in self.plan.workloads:
                self.progress.tell(f"{workload.name}, warm-up")
                _execute_unrecorded(guest, workload)

    def _turn(self, seed: int, order: int, arm: Arm, todo: list[Workload]) -> None:
        """Run workloads off `todo` under an arm, until all are done or the arm has failed.

        The last result waits until the arm has left: one that does not leave has failed.
        """
        place = {"seed": seed, "order": order}
        last: tuple[Workload, dict] | None = None
        try:
            with (
                self.stage.take(arm) as guest,
                arms.in_charge(guest, arm, self.plan.settle_s) as charge,
            ):
                if self.plan.rehearse:
                    self.progress.tell(f"{todo[0].name}, rehearsal, {arm.name}")
                    _execute_unrecorded(guest, todo[0])
                while todo:
                    if last:
                        self._keep(place, arm, *last)
                        last = None
                    begin_s = time.monotonic()
                    self.progress.tell(f"{todo[0].name}, seed {seed}, {arm.name}")
                    result = self._measure(guest, charge, todo[0])
                    result["duration_s"] = round(time.monotonic() - begin_s, 3)
                    if not result["ok"]:
                        guest.run(SWEEP, SWEEP_TIMEOUT_S)
                    last = todo.pop(0), result
        except ArmFailed as why:
            workload = last[0] if last else todo.pop(0)
            last = workload, _failure(str(why), why.output)
        except LabError as gone:
            workload = last[0] if last else todo.pop(0)
            self._keep(place, arm, workload, _failure(str(gone)))
            raise
        self._keep(place, arm, *last)

    def _measure(self, guest: Guest, charge: Charge, workload: Workload) -> dict:
        """One run; a failure of the workload is a result as well. Raises ArmFailed."""
        try:
            with self.stage.watch(guest) as taken:
                result = _execute(guest, workload)
            charge.check()
            if result.rc:
                return _failure(f"the workload ended with code {result.rc}", result.output)
            values = workload.parse(result.output)
            latencies = workload.latencies(result.output) if workload.latencies else None
            costs = self._costs(workload, result.output, taken["run_ns"])
        except ParseError as why:
            return _failure(f"{why}", result.output)
        except CommandTimeout as why:
            # If the scheduler was ejected, that is the better explanation.
            charge.check()
            return _failure(f"it hung for {workload.timeout_s:g} s and was killed", why.output)
        metrics = {
            metric.name: {
                "value": values[metric.name],
                "unit": metric.unit,
                "better": metric.better,
            }
            for metric in workload.metrics
        } | costs
        found = {"ok": True, "metrics": metrics} | taken
        if latencies:
            found["latencies"] = {f"{bound:g}": n for bound, n in sorted(latencies.items()) if n}
        return found

    def _costs(self, workload: Workload, output: str, run_ns: Sequence[int]) -> dict[str, dict]:
        if not workload.operations:
            return {}
        place = self.stage.facts.get("place", "")
        return cost.metrics(place, run_ns, workload.operations(output))

    def _keep(self, place: dict, arm: Arm, workload: Workload, result: dict) -> None:
        record = self.stage.facts | self.plan.facts() | self.stage.facts_of(arm) | place
        record |= {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "workload": workload.name,
            "command": workload.command,
            "note": workload.note,
            "arm": arm.name,
            "arm_command": list(arm.command),
        }
        record |= result
        self.journal.add(record)
        if record["ok"]:
            name, first = next(iter(record["metrics"].items()))
            told = f"{name} {first['value']:.6g} {first['unit']}".rstrip()
        else:
            last_lines = record["output"].splitlines()[-LINES_SHOWN:]
            told = "\n  ".join([f"FAILED, {record['failure']}", *last_lines])
        self.progress.done(f"{workload.name}, seed {place['seed']}, {arm.name}: {told}")


def _execute(guest: Guest, workload: Workload):
    return guest.run(f"export {RUN_MARK}=1\n{workload.command}", workload.timeout_s)


def _execute_unrecorded(guest: Guest, workload: Workload) -> None:
    try:
        _execute(guest, workload)
    except CommandTimeout:
        guest.run(SWEEP, SWEEP_TIMEOUT_S)


def _failure(reason: str, output: str = "") -> dict:
    return {"ok": False, "failure": reason, "output": output.strip()[-4000:], "metrics": {}}
