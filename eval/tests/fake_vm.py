# SPDX-License-Identifier: GPL-2.0-only
"""A lab VM for tests of the comparison's runner: no guest, only the answers that it would give."""

import contextlib
from collections.abc import Callable
from signal import SIGINT, SIGKILL

from compare import runner
from compare.stage import Stage
from vlab import CommandTimeout, LabError, Result, VcpuTruth
from vlab.errors import EX_NOT_UP
from workloads import Size


class FakeScheduler:
    """A scheduler process in the fake guest. `behaviour` says what is wrong with it.

    "": nothing; "no start": ends at once; "stubborn": ignores SIGINT.
    """

    def __init__(self, vm: "FakeVm", cmd: str, behaviour: str):
        self.vm = vm
        self.rc: int | None = None
        self.output = f"output of {cmd}\n"
        self.behaviour = behaviour
        if behaviour == "no start":
            self.rc = 1
        else:
            vm.sched_ext("enabled")

    def kill(self, signal: int) -> None:
        obeys = signal == SIGKILL or (signal == SIGINT and self.behaviour != "stubborn")
        if self.rc is None and obeys:
            self.end(0)

    def end(self, rc: int) -> None:
        self.rc = rc
        self.vm.sched_ext("disabled")

    def wait(self, timeout_s: float) -> Result:
        if self.rc is None:
            raise CommandTimeout("it did not end; give it more time", self.output)
        return Result(self.rc, self.output)


class FakeVm:
    """Answers as vlab.Vm does; `workload` is called for each command of a workload.

    `behaviour(cmd)` gives that of a scheduler by its command line. enable_seq goes up so many
    `late_reads` of it after the state.
    """

    def __init__(
        self,
        workload: Callable[["FakeVm"], Result],
        behaviour: Callable[[str], str] = lambda cmd: "",
        late_reads: int = 0,
    ):
        self.workload = workload
        self.behaviour = behaviour
        self.state = "disabled"
        self.enable_seq = 0
        self.late_reads = late_reads
        self.reads_left = 0
        self.ops = ""
        self.scheduler: FakeScheduler | None = None
        self.clock_ns = 0
        self.idle = "none\nmenu\n"
        self.slept_s: list[float] = []

    @property
    def in_charge(self) -> bool:
        """True while a scheduler is loaded."""
        return self.state == "enabled"

    def sched_ext(self, state: str, ops: str = "fake") -> None:
        self.state = state
        self.ops = ops if state == "enabled" else ""
        if state == "enabled":
            self.enable_seq += 1
            self.reads_left = self.late_reads

    def read_sched_ext(self) -> str:
        is_late, self.reads_left = self.reads_left > 0, max(0, self.reads_left - 1)
        return f"{self.state}\n{self.enable_seq - is_late}\n{self.ops}\n"

    def run(self, cmd: str, timeout_s: float = 120) -> Result:
        if "/sys/kernel/sched_ext" in cmd:
            return Result(0, self.read_sched_ext())
        if "/cpuidle" in cmd:
            return Result(0, self.idle)
        if cmd.startswith("sleep"):
            self.slept_s.append(float(cmd.removeprefix("sleep ").split(";")[0]))
            return Result(0, "")
        if cmd == runner.SWEEP:
            return Result(0, "")
        return self.workload(self)

    def spawn(self, cmd: str) -> FakeScheduler:
        self.scheduler = FakeScheduler(self, cmd, self.behaviour(cmd))
        return self.scheduler

    def truth(self) -> list[VcpuTruth]:
        self.clock_ns += 5
        return [VcpuTruth(0, 1, self.clock_ns, 2 * self.clock_ns, 1)]


class FakeStage(Stage):
    """A stage with one fake VM for all arms."""

    def __init__(self, vm: FakeVm, facts: dict):
        self.vm = vm
        self.facts = facts
        self.taken: list[str] = []
        self.was_ready = False

    def size(self, seconds: float) -> Size:
        return Size(seconds=seconds)

    def ready(self, arm, seed: int) -> FakeVm | None:
        self.was_ready, was_ready = True, self.was_ready
        return None if was_ready else self.vm

    @contextlib.contextmanager
    def take(self, arm):
        self.taken.append(arm.name)
        yield self.vm


def hang(vm: FakeVm) -> Result:
    """A workload that does not end."""
    raise CommandTimeout("it did not end; give it more time", "halfway")


def vm_gone(vm: FakeVm) -> Result:
    """A workload during which the VM dies."""
    raise LabError("the VM is gone; start it again", EX_NOT_UP)
