# SPDX-License-Identifier: GPL-2.0-only
"""The host's scheduler events for a few threads, from a tracefs instance of the lab's own."""

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

TRACEFS = Path("/sys/kernel/tracing")
_EVENT = re.compile(r"\s(\d+)\.(\d{6}): (sched_switch|sched_wakeup): (.*)")


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


class SwitchRecorder:
    """Records when each of `tids` was runnable but not running. Raises OSError without tracefs.

    Start it, `stop()` it, then read `periods`: per tid a list of (begin_ns, end_ns), in us steps,
    on CLOCK_MONOTONIC.
    """

    def __init__(self, name: str, tids: Sequence[int]):
        self.periods: dict[int, list[tuple[int, int]]] = {tid: [] for tid in tids}
        self._since_ns: dict[int, int] = {}
        self._stack = contextlib.ExitStack()
        root = self._stack.enter_context(_tracefs())
        self._instance = root / "instances" / name
        try:
            self._instance.mkdir(exist_ok=True)
            self._set("trace_clock", "mono")
            self._set("buffer_size_kb", "8192")
            switch = " || ".join(f"prev_pid == {tid} || next_pid == {tid}" for tid in tids)
            self._set("events/sched/sched_switch/filter", switch)
            wakeup = " || ".join(f"pid == {tid}" for tid in tids)
            self._set("events/sched/sched_wakeup/filter", wakeup)
            self._set("events/sched/sched_switch/enable", "1")
            self._set("events/sched/sched_wakeup/enable", "1")
        except OSError:
            self.close()
            raise

    def stop(self) -> None:
        """End the recording, read it and give everything back."""
        self._set("tracing_on", "0")
        with (self._instance / "trace").open(errors="replace") as lines:
            for line in lines:
                self.feed(line)
        self.close()

    def close(self) -> None:
        """Remove the trace instance."""
        with contextlib.suppress(OSError):
            self._instance.rmdir()
        self._stack.close()

    def feed(self, line: str) -> None:
        """Take one line of trace text."""
        event = _EVENT.search(line)
        if not event:
            return
        at_ns = int(event[1]) * 1_000_000_000 + int(event[2]) * 1000
        fields = dict(re.findall(r"(\w+)=(\S+)", event[4]))
        if event[3] == "sched_wakeup":
            self._waits(int(fields["pid"]), at_ns)
            return
        if fields["prev_state"].startswith("R"):
            self._waits(int(fields["prev_pid"]), at_ns)
        runs = int(fields["next_pid"])
        if runs in self._since_ns:
            self.periods[runs].append((self._since_ns.pop(runs), at_ns))

    def _waits(self, tid: int, at_ns: int) -> None:
        if tid in self.periods:
            self._since_ns.setdefault(tid, at_ns)

    def _set(self, file: str, value: str) -> None:
        (self._instance / file).write_text(value)
