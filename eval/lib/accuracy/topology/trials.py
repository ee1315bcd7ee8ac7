# SPDX-License-Identifier: GPL-2.0-only
"""Runs the prober in a lab VM, and notes what the host did meanwhile."""

import contextlib
import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import vlab

from .verdict import Pair, Verdict, judge, pairs_of, stacked

GUEST_BINARY = "/tmp/vtop"
SETTLE_S = 0.3
BUDGET_S = 5.0
PAUSE_S = 2.0  # what scx_vaware does by itself
TRUSTED_CONFIDENCE = 0.5  # as in probers/src/snapshot.rs
SAMPLE_S = 0.005
BUSY = "for i in $(seq {threads}); do (while :; do :; done) & done; wait"


@dataclass(frozen=True)
class Trial:
    """A fresh prober, until the time was up. `verdict` is wrong if it ever was; `decided_s` is the
    time to the first right one."""

    shape: str
    load: str
    verdict: Verdict
    decided_s: float | None
    passes: int


class Prober:
    """The guest's prober in a VM that is up."""

    def __init__(self, vm: vlab.Vm, binary: Path):
        self.vm = vm
        vm.put(binary, GUEST_BINARY)

    @contextlib.contextmanager
    def load(self, load: str) -> Iterator[None]:
        """Keep the guest `idle`, or `busy` with two spinners for each vCPU."""
        if load == "idle":
            yield
            return
        handle = self.vm.spawn(BUSY.format(threads=2 * self.vm.vcpus))
        try:
            yield
        finally:
            handle.kill(9)

    def trial(self, shape: str, load: str, seconds: float) -> Trial:
        """Shape the VM, let a fresh prober run, and judge what it finds.

        Where no vCPUs are stacked it runs for all of `seconds`, for it may err later.
        """
        self.vm.shape(shape)
        time.sleep(SETTLE_S)
        true = stacked(vlab.shapes.plan(shape, self.vm.vcpus).affinity)
        verdict, decided_s, passes = Verdict("undecided"), None, 0
        handle = self.vm.spawn(f"exec {GUEST_BINARY} {seconds} {PAUSE_S} {BUDGET_S}")
        begin = time.monotonic()
        with SharedCores(self.vm) as shared:
            while time.monotonic() - begin < seconds + BUDGET_S and verdict.outcome != "wrong":
                time.sleep(0.02)
                lines = handle.output.rpartition("\n")[0].splitlines()
                for found in map(json.loads, lines[passes:]):
                    passes += 1
                    now = judge(stacks(found), true, shared.pairs, nr_open(found))
                    if now.outcome == "right" and decided_s is None:
                        decided_s = time.monotonic() - begin
                    if now.outcome == "wrong" or decided_s is None or now.outcome == "right":
                        verdict = now
                if decided_s is not None and (true or time.monotonic() - begin > seconds):
                    break
        handle.kill()
        handle.wait(60)
        if not passes:
            raise vlab.LabError(f"the prober said nothing: {handle.output}; run it by hand")
        return Trial(shape, load, verdict, decided_s, passes)

    def passes(self, seconds: float, pause_s: float) -> list[dict]:
        """The passes of one prober: a full one, then validations."""
        result = self.vm.run(f"{GUEST_BINARY} {seconds} {pause_s} {BUDGET_S}", seconds + 60)
        return [json.loads(line) for line in result.output.splitlines()]

    def changes(self, shapes: list[str], pause_s: float, count: int) -> Iterator[tuple[str, float]]:
        """Change between shapes at random times while the prober validates.

        Yield each new shape and the seconds until the guest said so; infinite if not within 20 s.
        """
        handle = self.vm.spawn(f"{GUEST_BINARY} 100000 {pause_s} {BUDGET_S}")
        try:
            for shape in itertools.islice(itertools.cycle(shapes), count):
                self.vm.shape(shape)
                start = time.monotonic()
                true = stacked(vlab.shapes.plan(shape, self.vm.vcpus).affinity)
                told_before = len(handle.output.splitlines())
                yield shape, _wait_for(handle, true, start, told_before)
                time.sleep(random.uniform(0.5, 0.5 + pause_s))
        finally:
            handle.kill(9)


def stacks(found: dict) -> set[Pair]:
    """The pairs that one pass is sure to be stacked."""
    return _pairs(found, lambda confidence: confidence >= TRUSTED_CONFIDENCE)


def nr_open(found: dict) -> int:
    """How many pairs one pass is not sure of."""
    unsure = _pairs(found, lambda confidence: confidence < TRUSTED_CONFIDENCE)
    return found["undecided"] + len(unsure)


def _pairs(found: dict, wanted: Callable[[float], bool]) -> set[Pair]:
    return pairs_of(stack["members"] for stack in found["stacks"] if wanted(stack["confidence"]))


def _wait_for(handle: vlab.Handle, true: set[Pair], start: float, told_before: int) -> float:
    while time.monotonic() - start < 20:
        lines = handle.output.rpartition("\n")[0].splitlines()[told_before:]
        if any(stacks(json.loads(line)) == true for line in lines):
            return time.monotonic() - start
        time.sleep(0.02)
    return float("inf")


class SharedCores:
    """Samples on which core the host has each vCPU thread.

    `pairs`: those never seen on two cores.
    """

    def __init__(self, vm: vlab.Vm):
        self._stats = [Path(f"/proc/{truth.tid}/stat") for truth in vm.truth()]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.pairs = pairs_of([range(vm.vcpus)])

    def __enter__(self) -> "SharedCores":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_S):
            # Field 39, counted from the one after the command in parentheses, which is the third.
            cores = [int(stat.read_text().rpartition(")")[2].split()[36]) for stat in self._stats]
            self.pairs = {(a, b) for a, b in self.pairs if cores[a] == cores[b]}
