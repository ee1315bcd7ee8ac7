# SPDX-License-Identifier: GPL-2.0-only
"""Runs the workloads under the arms, in blocks, on a stage."""

import datetime
import itertools
import time
from dataclasses import dataclass

from lab import CommandTimeout, LabError
from workloads import ParseError, Workload

from . import arms, blocks, report
from .arms import Arm, ArmFailed, Charge, Guest
from .progress import Progress
from .records import Journal
from .stage import Stage

MIN_PAIRS = 6  # before the noise is trusted to say that it is low
LINES_SHOWN = 15  # of the output of a failed run; the journal has more
MAX_FAILURES = 3  # of an arm in a workload, then the arm sits out
# What a workload leaves behind is ended, so that it does not disturb the next run.
RUN_MARK = "VAWARE_COMPARE_RUN"
SWEEP = (
    f"grep -lzs '^{RUN_MARK}=' /proc/[0-9]*/environ | cut -d/ -f3 | xargs -r kill -9 2>/dev/null"
)
SWEEP_TIMEOUT_S = 30
# By then scx_vaware has looked at each vCPU, and its probes come at their usual rate.
SETTLE_S = 12.0


@dataclass(frozen=True)
class Plan:
    """What is compared. The first arm is the baseline.

    Either `pairs` are run of each workload, or as many as it takes until the half-width of the A/A
    interval is at most `aa_ratio`, but not more than `pairs`. `rehearse`: each turn of an arm
    begins with an unrecorded run, for a scheduler that learns from work.
    """

    arms: list[Arm]
    workloads: list[Workload]
    pairs: int
    aa_ratio: float | None = None
    settle_s: float = SETTLE_S
    warm_up: bool = True
    rehearse: bool = False


class Runner:
    """Runs a plan on a stage that is up, and writes each run to the journal.

    `seed` goes into every record; runs that the journal already has are not run again. An arm in
    its turn is put in charge once, and runs each workload once.
    """

    def __init__(self, stage: Stage, plan: Plan, journal: Journal, seed: str, progress: Progress):
        self.stage = stage
        self.plan = plan
        self.journal = journal
        self.seed = seed
        self.progress = progress
        baseline = plan.arms[0]
        self.arms = {arm.name: arm for arm in (baseline, baseline.twin(), *plan.arms[1:])}

    def compare(self) -> None:
        """Run blocks until there are pairs enough of every workload.

        Raises LabError: 75 if the VM is gone (the run that lost it is kept as failed), 69 if a
        workload cannot be set up.
        """
        runs = -(-self.plan.pairs // 2) * 2 * len(self.arms) * len(self.plan.workloads)
        self.progress.begin(runs, done=len(self.journal.records))
        self._set_up()
        for block in itertools.count():
            pairs = block * blocks.PAIRS_PER_BLOCK
            active = [each for each in self.plan.workloads if not self._enough(each, pairs)]
            if not active:
                return
            for slot in blocks.block(block, list(self.arms), self.seed):
                todo = [w for w in active if not (self._sits_out(w, slot) or self._done(w, slot))]
                while todo:
                    self._turn(slot, todo)

    def _set_up(self) -> None:
        """Bring what the workloads need into each machine, and run each of them once unrecorded.

        So caches are warm in the first run that counts, and a workload that cannot work is known
        by then (its runs will say why).
        """
        for guest in self.stage.guests():
            for setup in dict.fromkeys(w.setup for w in self.plan.workloads if w.setup):
                done = guest.run(setup, 120)
                if done.rc:
                    raise LabError(
                        f"a workload cannot be set up ({done.output.strip()[-300:]}); is "
                        "/dev/shm full, or a tool missing? See deploy/setup.sh eval --check"
                    )
        if not self.plan.warm_up or self.journal.records:
            return
        for arm in {arm.kernel: arm for arm in self.arms.values() if not arm.command}.values():
            with self.stage.take(arm) as guest:
                for workload in self.plan.workloads:
                    self.progress.tell(f"{workload.name}, warm-up")
                    _execute_unrecorded(guest, workload)

    def _enough(self, workload: Workload, pairs: int) -> bool:
        baseline = self.plan.arms[0].name
        if pairs >= self.plan.pairs or self._failures(workload, baseline) >= MAX_FAILURES:
            return True
        if self.plan.aa_ratio is None or pairs < MIN_PAIRS:
            return False
        noise = report.noise(self._records(workload), workload.metrics[0].name)
        return noise is not None and noise.half_width <= self.plan.aa_ratio

    def _records(self, workload: Workload) -> list[dict]:
        return [record for record in self.journal.records if record["workload"] == workload.name]

    def _failures(self, workload: Workload, arm: str) -> int:
        return sum(r["arm"] == arm and not r["ok"] for r in self._records(workload))

    def _sits_out(self, workload: Workload, slot: blocks.Slot) -> bool:
        sits_out = self._failures(workload, slot.arm) >= MAX_FAILURES
        if sits_out:
            self.progress.skip(slot, workload)
        return sits_out

    def _done(self, workload: Workload, slot: blocks.Slot) -> bool:
        return any(
            (record["block"], record["order"]) == (slot.block, slot.order)
            for record in self._records(workload)
        )

    def _turn(self, slot: blocks.Slot, todo: list[Workload]) -> None:
        """Run workloads off `todo` under an arm, until all are done or the arm has failed.

        The last result waits until the arm has left: one that does not leave has failed.
        """
        arm = self.arms[slot.arm]
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
                        self._keep(slot, *last)
                        last = None
                    begin_s = time.monotonic()
                    self.progress.tell(f"{todo[0].name}, pair {slot.pair + 1}, {arm.name}")
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
            self._keep(slot, workload, _failure(str(gone)))
            raise
        self._keep(slot, *last)

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
        }
        found = {"ok": True, "metrics": metrics} | taken
        if latencies:
            found["latencies"] = {f"{bound:g}": n for bound, n in sorted(latencies.items()) if n}
        return found

    def _keep(self, slot: blocks.Slot, workload: Workload, result: dict) -> None:
        arm = self.arms[slot.arm]
        record = self.stage.facts | {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "seed": self.seed,
            "baseline": self.plan.arms[0].name,
            "arms": [each.name for each in self.plan.arms],
            "workload": workload.name,
            "command": workload.command,
            "note": workload.note,
            "arm": arm.name,
            "arm_command": list(arm.command),
            "arm_kernel": arm.kernel,
            "block": slot.block,
            "order": slot.order,
            "pair": slot.pair,
            "settle_s": self.plan.settle_s,
            "rehearsed": self.plan.rehearse,
        }
        record |= result
        self.journal.add(record)
        if record["ok"]:
            name, first = next(iter(record["metrics"].items()))
            told = f"{name} {first['value']:.6g} {first['unit']}".rstrip()
        else:
            last_lines = record["output"].splitlines()[-LINES_SHOWN:]
            told = "\n  ".join([f"FAILED, {record['failure']}", *last_lines])
        place = f"{workload.name}, pair {slot.pair + 1}, {arm.name}"
        self.progress.done(f"{place}: {told}")


def _execute(guest: Guest, workload: Workload):
    return guest.run(f"export {RUN_MARK}=1\n{workload.command}", workload.timeout_s)


def _execute_unrecorded(guest: Guest, workload: Workload) -> None:
    try:
        _execute(guest, workload)
    except CommandTimeout:
        guest.run(SWEEP, SWEEP_TIMEOUT_S)


def _failure(reason: str, output: str = "") -> dict:
    return {"ok": False, "failure": reason, "output": output.strip()[-4000:], "metrics": {}}
