# SPDX-License-Identifier: GPL-2.0-only
"""The host's scheduler events for a few threads, from a tracefs instance of the lab's own."""

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

TRACEFS = Path("/sys/kernel/tracing")
_EVENT = re.compile(r"\s(\d+)\.(\d{6}): (sched_switch|sched_wakeup): (.*)")
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


def inactive_periods(lines: Iterable[str], tids: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
    """Read trace text: per tid when it was runnable but not running, as (begin_ns, end_ns)."""
    periods: dict[int, list[tuple[int, int]]] = {tid: [] for tid in tids}
    since_ns: dict[int, int] = {}
    for line in lines:
        event = _EVENT.search(line)
        if not event:
            continue
        at_ns = int(event[1]) * 1_000_000_000 + int(event[2]) * 1000
        fields = dict(_FIELD.findall(event[4]))
        waits = runs = 0
        if event[3] == "sched_wakeup":
            waits = int(fields["pid"])
        else:
            runs = int(fields["next_pid"])
            if fields["prev_state"].startswith("R"):
                waits = int(fields["prev_pid"])
        if waits in periods:
            since_ns.setdefault(waits, at_ns)
        if runs in since_ns:
            periods[runs].append((since_ns.pop(runs), at_ns))
    return periods


class SwitchRecorder:
    """Records the scheduler events of `tids` until `stop`. Raises OSError without tracefs."""

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
            self._set("buffer_size_kb", "8192")
            self._set("events/sched/sched_switch/filter", switch)
            self._set("events/sched/sched_wakeup/filter", wakeup)
            self._set("events/sched/sched_switch/enable", "1")
            self._set("events/sched/sched_wakeup/enable", "1")
        except OSError:
            self._close()
            raise

    def stop(self) -> dict[int, list[tuple[int, int]]]:
        """End the recording; returns the inactive periods per tid, on CLOCK_MONOTONIC."""
        try:
            self._set("tracing_on", "0")
            with (self._instance / "trace").open(errors="replace") as lines:
                return inactive_periods(lines, self._tids)
        finally:
            self._close()

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            self._instance.rmdir()
        self._stack.close()

    def _set(self, file: str, value: str) -> None:
        (self._instance / file).write_text(value)
