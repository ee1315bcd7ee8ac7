# SPDX-License-Identifier: GPL-2.0-only
"""The host's scheduler events for a few threads, from a tracefs instance of the lab's own."""

import contextlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TRACEFS = Path("/sys/kernel/tracing")
BUFFERS_KB = 128 << 10  # all cores together
_EVENT = re.compile(
    r"-(\d+) +\[\d+\] .*?(\d+)\.(\d{6}): (sched_switch|sched_wakeup|rseq_update): (.*)"
)
# Some hosts do not record what certain tasks do (their own management's), and with it the switch
# from such a task to a vCPU. The vCPU's return to user mode, right after, ends its period as well.
RETURN = "events/rseq/rseq_update"
_FIELD = re.compile(r"(\w+)=(\S+)")


@contextlib.contextmanager
def _tracefs() -> Iterator[Path]:
    """A path to tracefs while the context lasts, also where it is not mounted.

    Raises OSError without tracefs.
    """
    if (TRACEFS / "instances").is_dir():
        yield TRACEFS
        return
    where = tempfile.mkdtemp(prefix="vaware-tracefs-")
    try:
        done = subprocess.run(["mount", "-t", "tracefs", "none", where], capture_output=True)
        if done.returncode:
            raise OSError(done.stderr.decode(errors="replace").strip())
        try:
            held = os.open(where, os.O_DIRECTORY)
        finally:
            # Detached at once, so that nothing stays mounted whatever happens to this process.
            subprocess.run(["umount", "-l", where], capture_output=True)
    finally:
        os.rmdir(where)
    try:
        yield Path(f"/proc/self/fd/{held}")
    finally:
        os.close(held)


def remove(name: str) -> None:
    """Remove the trace instance `name` that a dead run may have left."""
    with contextlib.suppress(OSError), _tracefs() as root:
        (root / "instances" / name).rmdir()


Period = tuple[int, int]  # begin and end, ns of CLOCK_MONOTONIC


@dataclass
class OffCore:
    """When one thread was off its core, by the reason; each list is in order."""

    preempted: list[Period] = field(default_factory=list)  # it had been running and wanted to
    woken: list[Period] = field(default_factory=list)  # from its wake-up until it ran
    asleep: list[Period] = field(default_factory=list)  # it wanted nothing

    @property
    def inactive(self) -> list[Period]:
        """When it was runnable and did not run."""
        return sorted(self.preempted + self.woken)


def off_core(lines: Iterable[str], tids: Sequence[int], span: Period) -> dict[int, OffCore]:
    """Read the trace text of a time `span`: per tid when it was off its core, and why.

    A period that was under way when the recording began, or ended, is cut there: a few events come
    before the first, while the recording is set up, or after the last.
    """
    threads = {tid: OffCore() for tid in tids}
    since: dict[int, tuple[int, list[Period]]] = {}
    unseen = set(tids)

    def comes_on_core(tid: int, at_ns: int) -> None:
        if tid in unseen:
            since[tid] = span[0], threads[tid].preempted
        unseen.discard(tid)
        _end(since, tid, at_ns)

    for line in lines:
        event = _EVENT.search(line)
        if not event:
            continue
        at_ns = int(event[2]) * 1_000_000_000 + int(event[3]) * 1000
        at_ns = min(max(at_ns, span[0]), span[1])
        fields = dict(_FIELD.findall(event[5]))
        if event[4] == "rseq_update":
            comes_on_core(int(event[1]), at_ns)
            continue
        if event[4] == "sched_wakeup":
            tid = int(fields["pid"])
            if tid in unseen:
                since[tid] = span[0], threads[tid].asleep
            unseen.discard(tid)
            if tid in since and since[tid][1] is threads[tid].asleep:
                _end(since, tid, at_ns)
                since[tid] = at_ns, threads[tid].woken
            continue
        leaves, comes = int(fields["prev_pid"]), int(fields["next_pid"])
        if leaves in threads:
            thread = threads[leaves]
            runnable = fields["prev_state"].startswith("R")
            since[leaves] = at_ns, thread.preempted if runnable else thread.asleep
        unseen.discard(leaves)
        comes_on_core(comes, at_ns)
    for tid in list(since):
        _end(since, tid, span[1])
    return threads


def _end(since: dict[int, tuple[int, list[Period]]], tid: int, at_ns: int) -> None:
    """The period of `tid` that began last, if one did, ends."""
    if tid in since:
        began_ns, periods = since.pop(tid)
        if began_ns < at_ns:
            periods.append((began_ns, at_ns))


class SwitchRecorder:
    """Records the scheduler events of `tids` until `stop`. Raises OSError without tracefs.

    `lost` says afterwards how many events there was no room for.
    """

    lost = 0

    def __init__(self, name: str, tids: Sequence[int]):
        self._tids = tids
        self._stack = contextlib.ExitStack()
        root = self._stack.enter_context(_tracefs())
        self._instance = root / "instances" / name
        switch = " || ".join(f"prev_pid == {tid} || next_pid == {tid}" for tid in tids)
        wakeup = " || ".join(f"pid == {tid}" for tid in tids)
        try:
            self._instance.mkdir(exist_ok=True)
            self._set("trace_clock", "mono")
            self._set("buffer_size_kb", str(BUFFERS_KB // (os.cpu_count() or 1)))
            self._set("events/sched/sched_switch/filter", switch)
            self._set("events/sched/sched_wakeup/filter", wakeup)
            if (self._instance / RETURN).is_dir():
                runs = " || ".join(f"common_pid == {tid}" for tid in tids)
                self._set(f"{RETURN}/filter", runs)
                self._set(f"{RETURN}/enable", "1")
            self._set("events/sched/sched_switch/enable", "1")
            self._set("events/sched/sched_wakeup/enable", "1")
            self._began_ns = time.monotonic_ns()
        except OSError:
            self._close()
            raise

    def stop(self) -> dict[int, OffCore]:
        """End the recording; returns when each tid was off its core."""
        try:
            ended_ns = time.monotonic_ns()
            self._set("tracing_on", "0")
            self.lost = sum(map(_overrun, self._instance.glob("per_cpu/cpu*/stats")))
            with (self._instance / "trace").open(errors="replace") as lines:
                return off_core(lines, self._tids, (self._began_ns, ended_ns))
        finally:
            self._close()

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            self._instance.rmdir()
        self._stack.close()

    def _set(self, file: str, value: str) -> None:
        (self._instance / file).write_text(value)


def _overrun(stats: Path) -> int:
    return int(re.search(r"^overrun: (\d+)", stats.read_text(), re.MULTILINE)[1])
