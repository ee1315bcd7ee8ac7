# SPDX-License-Identifier: GPL-2.0-only
"""What the host really did to each vCPU."""

from dataclasses import dataclass, field
from pathlib import Path

from .errors import EX_NOT_UP, LabError, notice
from .shapes import Duty
from .tracing import OffCore, Period, SwitchRecorder


@dataclass(frozen=True)
class VcpuTruth:
    """Since its thread started: time run, time runnable but not running, times it was run."""

    vcpu: int
    tid: int
    run_ns: int
    delay_ns: int
    slices: int


def read(pid: int, tids: list[int]) -> list[VcpuTruth]:
    """Read the truth of each vCPU thread of process `pid`. Raises LabError (75) if one is gone."""
    truths = []
    for vcpu, tid in enumerate(tids):
        try:
            told = Path(f"/proc/{pid}/task/{tid}/schedstat").read_text()
        except OSError as why:
            raise LabError(
                f"the thread of vCPU {vcpu} is gone ({why.strerror}), and the VM with it; start it "
                "again",
                EX_NOT_UP,
            ) from None
        run_ns, delay_ns, slices = told.split()
        truths.append(VcpuTruth(vcpu, tid, int(run_ns), int(delay_ns), int(slices)))
    return truths


def difference(before: list[VcpuTruth], after: list[VcpuTruth]) -> list[VcpuTruth]:
    """What happened between two readings of the same vCPUs."""
    return [
        VcpuTruth(b.vcpu, b.tid, a.run_ns - b.run_ns, a.delay_ns - b.delay_ns, a.slices - b.slices)
        for b, a in zip(before, after, strict=True)
    ]


def table(truths: list[VcpuTruth]) -> str:
    """The truth as text: one line per vCPU, times in ms, the part of its wanted time it lost."""
    lines = [f"{'vCPU':>4} {'run ms':>10} {'taken ms':>10} {'taken %':>8} {'slices':>8}"]
    for t in truths:
        wanted_ns = t.run_ns + t.delay_ns
        taken_ratio = t.delay_ns / wanted_ns if wanted_ns else 0.0
        lines.append(
            f"{t.vcpu:>4} {t.run_ns / 1e6:>10.0f} {t.delay_ns / 1e6:>10.0f} "
            f"{taken_ratio * 100:>8.1f} {t.slices:>8}"
        )
    return "\n".join(lines)


@dataclass
class InactivePeriods:
    """Single inactive periods per vCPU, filled when the recording ends.

    `source` is "sched_switch" (any shape), "duty log" (vCPUs pinned to the core of one duty
    competitor), or None if this host offers neither; then `periods` is None as well. Times are ns
    of the host's CLOCK_MONOTONIC. `off_core` is for "sched_switch" alone. If `lost` is not 0,
    events are missing, and periods with them: record for a shorter time.
    """

    source: str | None = None
    periods: dict[int, list[Period]] | None = None  # vCPU -> (begin_ns, end_ns)
    off_core: dict[int, OffCore] | None = None  # vCPU -> inactive periods by kind, and asleep
    lost: int = 0


@dataclass
class Recorder:
    """Records inactive periods from `start` to `stop`, from the best source there is."""

    name: str
    tids: list[int]
    affinity: tuple[tuple[int, ...], ...]
    duty_logs: dict[Duty, Path]
    result: InactivePeriods = field(default_factory=InactivePeriods)
    _switches: SwitchRecorder | None = None
    _offsets: dict[Duty, int] = field(default_factory=dict)

    def start(self) -> None:
        try:
            self._switches = SwitchRecorder(self.name, self.tids)
        except OSError as why:
            self._offsets = {duty: log.stat().st_size for duty, log in self.duty_logs.items()}
            if not self._offsets:
                notice(
                    f"single inactive periods cannot be recorded without tracefs ({why}); "
                    "use a duty shape, whose competitor logs them."
                )

    def stop(self) -> None:
        if self._switches:
            by_tid = self._switches.stop()
            self.result.source = "sched_switch"
            self.result.lost = self._switches.lost
            self.result.off_core = {v: by_tid[tid] for v, tid in enumerate(self.tids)}
            self.result.periods = {v: off.inactive for v, off in self.result.off_core.items()}
        elif self._offsets:
            self.result.source = "duty log"
            self.result.periods = {}
            for duty, offset in self._offsets.items():
                pinned = [v for v, cpus in enumerate(self.affinity) if cpus == (duty.cpu,)]
                for vcpu in pinned:
                    logged = self.result.periods.setdefault(vcpu, [])
                    logged.extend(_read_log(self.duty_logs[duty], offset))
                    logged.sort()


def _read_log(log: Path, offset: int) -> list[Period]:
    complete = log.read_bytes()[offset:].rpartition(b"\n")[0]
    return [(int(begin), int(end)) for begin, end in (li.split() for li in complete.splitlines())]
