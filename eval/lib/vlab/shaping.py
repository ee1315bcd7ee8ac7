# SPDX-License-Identifier: GPL-2.0-only
"""Puts a plan on a running VM: pins, weights, quotas, competitors. Each plan replaces the last."""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from . import host
from .cgroups import CpuGroups
from .clock import VirtualClock
from .errors import EX_USAGE, LabError
from .presets import Phase
from .runs import Run
from .shapes import Duty, Plan
from .vtime_shape import describe

SOURCE = Path(__file__).with_name("competitor.c")
SETTLE_S = 0.05


class Shaper:
    """Shapes the vCPU threads `tids` of QEMU process `pid`."""

    def __init__(self, run: Run, pid: int, tids: list[int]):
        self.duty_logs: dict[Duty, Path] = {}
        self._run = run
        self._tids = tids
        self._groups = CpuGroups(run.cgroup)
        self._groups.adopt(pid)
        self._competitors: list[tuple[subprocess.Popen, str | None]] = []
        self._started = 0

    def apply(self, plan: Plan) -> None:
        """Undo the previous plan and apply this one. Raises LabError (69; 64: not on this host)."""
        if plan.simulated:
            raise LabError(
                f"only a simulated host has '{plan.simulated[0]}'; use virtual time, or leave it",
                EX_USAGE,
            )
        self._end_competitors()
        for vcpu, tid in enumerate(self._tids):
            os.sched_setaffinity(tid, plan.affinity[vcpu])
            self._groups.put(f"vcpu{vcpu}", tid, plan.weights[vcpu])
            if quota_us := plan.quotas_us[vcpu]:
                self._groups.limit(f"vcpu{vcpu}", *quota_us)
        for cpu in plan.hogs:
            process = self._compete(["spin", cpu])
            self._groups.adopt(process.pid)
            self._groups.put(f"hog{cpu}", process.pid)
            self._competitors.append((process, f"hog{cpu}"))
        start_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 100_000_000
        for duty in plan.duties:
            self._started += 1
            log = self._run.path / f"duty-{self._started}.log"
            log.touch()
            # Outside the cgroups: a group without real-time bandwidth refuses SCHED_FIFO.
            times = [duty.on_ns, duty.off_ns, start_ns + duty.phase_ns]
            self._competitors.append((self._compete(["duty", duty.cpu, *times, log]), None))
            self.duty_logs[duty] = log
        self._check_competitors()

    def _compete(self, args: list[object]) -> subprocess.Popen:
        binary = self._run.path / "competitor"
        if not binary.exists():
            host.compile_c(SOURCE, binary)
        return self._run.spawn([binary, *args], "competitor.log")

    def _check_competitors(self) -> None:
        if self._competitors:
            time.sleep(SETTLE_S)
        for process, _ in self._competitors:
            if process.poll() is not None:
                said = (self._run.path / "competitor.log").read_text().strip()
                raise LabError(f"a competitor ended at once ({said}); run the lab as root")

    def _end_competitors(self) -> None:
        for process, group in self._competitors:
            self._run.end(process)
            if group:
                self._groups.drop(group)
        self._competitors.clear()
        self.duty_logs.clear()


class VirtualShaper:
    """Shapes the vCPUs of a VM whose host is simulated."""

    def __init__(self, clock: VirtualClock, vcpus: int):
        self._clock = clock
        self._vcpus = vcpus

    def apply(self, phases: Sequence[Phase]) -> None:
        """Have these phases replace the previous shape, at the time at which the clock stands."""
        text = describe(phases, self._vcpus)
        self._clock.ask(f"shape {len(text.encode())}\n{text}")
