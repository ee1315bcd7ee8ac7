# SPDX-License-Identifier: GPL-2.0-only
"""Runs the workloads under the arms, in blocks, in one VM."""

import datetime
import sys
import time
from dataclasses import dataclass

from lab import CommandTimeout, LabError, Vm, truth

from . import arms, blocks, report
from .arms import Arm, ArmFailed
from .records import Journal
from .workloads import ParseError, Workload

MIN_PAIRS = 6  # before the noise is trusted to say that it is low
LINES_SHOWN = 15  # of the output of a failed run; the journal has more
MAX_FAILURES = 3  # of an arm in a workload, then the arm sits out


@dataclass(frozen=True)
class Plan:
    """What is compared. The first arm is the baseline.

    Either `pairs` are run of each workload, or as many as it takes until the half-width of the A/A
    interval is at most `aa_ratio`, but not more than `pairs`.
    """

    arms: list[Arm]
    pairs: int
    aa_ratio: float | None = None
    settle_s: float = 2.0


class Runner:
    """Runs a plan in a VM that is up, and writes each run to the journal.

    `seed` and `facts` (kernel, shape, versions, ...) go into every record; runs that the journal
    already has are not run again.
    """

    def __init__(self, vm: Vm, plan: Plan, journal: Journal, seed: str, facts: dict):
        self.vm = vm
        self.plan = plan
        self.journal = journal
        self.seed = seed
        self.facts = facts
        baseline = plan.arms[0]
        self.arms = {arm.name: arm for arm in (baseline, baseline.twin(), *plan.arms[1:])}

    def compare(self, workload: Workload) -> None:
        """Run blocks of this workload until there are pairs enough.

        Raises LabError (75) if the VM is gone; the run that lost it is kept as failed.
        """
        block = 0
        while not self._enough(workload, block * blocks.PAIRS_PER_BLOCK):
            seed = f"{self.seed}/{workload.name}"
            for slot in blocks.block(block, list(self.arms), seed):
                if not self._sits_out(workload, slot.arm) and not self._done(workload, slot):
                    self._run(workload, slot)
            block += 1

    def _enough(self, workload: Workload, pairs: int) -> bool:
        if pairs >= self.plan.pairs or self._sits_out(workload, self.plan.arms[0].name):
            return True
        if self.plan.aa_ratio is None or pairs < MIN_PAIRS:
            return False
        noise = report.noise(self._records(workload), workload.metrics[0].name)
        return noise is not None and noise.half_width <= self.plan.aa_ratio

    def _records(self, workload: Workload) -> list[dict]:
        return [record for record in self.journal.records if record["workload"] == workload.name]

    def _sits_out(self, workload: Workload, arm: str) -> bool:
        failures = [r for r in self._records(workload) if r["arm"] == arm and not r["ok"]]
        return len(failures) >= MAX_FAILURES

    def _done(self, workload: Workload, slot: blocks.Slot) -> bool:
        return any(
            (record["block"], record["order"]) == (slot.block, slot.order)
            for record in self._records(workload)
        )

    def _run(self, workload: Workload, slot: blocks.Slot) -> None:
        arm = self.arms[slot.arm]
        record = self.facts | {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "seed": self.seed,
            "baseline": self.plan.arms[0].name,
            "arms": [arm.name for arm in self.plan.arms],
            "workload": workload.name,
            "command": workload.command,
            "note": workload.note,
            "arm": arm.name,
            "arm_command": list(arm.command),
            "block": slot.block,
            "order": slot.order,
            "pair": slot.pair,
        }
        begin_s = time.monotonic()
        try:
            record |= self._measure(workload, arm)
        except LabError as gone:
            self._keep(record | _failure(str(gone)), begin_s)
            raise
        self._keep(record, begin_s)

    def _measure(self, workload: Workload, arm: Arm) -> dict:
        """One run; a failure of the arm or of the workload is a result as well."""
        try:
            with arms.in_charge(self.vm, arm, self.plan.settle_s):
                before = self.vm.truth()
                result = self.vm.run(workload.command, workload.timeout_s)
                during = truth.difference(before, self.vm.truth())
            if result.rc:
                return _failure(f"the workload ended with code {result.rc}", result.output)
            values = workload.parse(result.output)
        except ArmFailed as why:
            return _failure(str(why), why.output)
        except ParseError as why:
            return _failure(f"{why}", result.output)
        except CommandTimeout as why:
            return _failure(f"it hung for {workload.timeout_s:g} s and was killed", why.output)
        return {
            "ok": True,
            "metrics": {
                metric.name: {
                    "value": values[metric.name],
                    "unit": metric.unit,
                    "better": metric.better,
                }
                for metric in workload.metrics
            },
            "run_ns": [vcpu.run_ns for vcpu in during],
            "run_delay_ns": [vcpu.delay_ns for vcpu in during],
        }

    def _keep(self, record: dict, begin_s: float) -> None:
        record["duration_s"] = round(time.monotonic() - begin_s, 3)
        self.journal.add(record)
        if record["ok"]:
            name, first = next(iter(record["metrics"].items()))
            told = f"{name} {first['value']:.6g} {first['unit']}"
        else:
            last_lines = record["output"].splitlines()[-LINES_SHOWN:]
            told = "\n  ".join([f"FAILED, {record['failure']}", *last_lines])
        place = f"{record['workload']}, pair {record['pair'] + 1}, {record['arm']}"
        print(f"pairs: {place}: {told}", file=sys.stderr, flush=True)


def _failure(reason: str, output: str = "") -> dict:
    return {"ok": False, "failure": reason, "output": output.strip()[-4000:], "metrics": {}}
