# SPDX-License-Identifier: GPL-2.0-only
"""How far a comparison is: lines for a log, and below them a bar on a terminal."""

import shutil
import sys
import threading
import time
from typing import TextIO

WIDTH = 24


class Progress:
    """Tells on `out` what is done; draws a bar with the time left if that is a terminal.

    Several threads may tell it of their runs.
    """

    def __init__(self, out: TextIO = sys.stderr, name: str = "compare"):
        self._out = out
        self._name = name
        self._bar = out.isatty()
        self._total = self._finished = self._before = 0
        self._began_s = time.monotonic()
        self._now = ""
        self._turn = threading.RLock()

    def begin(self, total: int, done: int = 0) -> None:
        """So many runs are to come, of which `done` were there already."""
        self._total, self._finished, self._before = total, done, done
        self._began_s = time.monotonic()
        if done:
            self.say(f"going on after {done} runs")

    def tell(self, what: str) -> None:
        """What is being done now."""
        with self._turn:
            self._now = what
            self._draw()

    def done(self, line: str) -> None:
        """One more run is done; `line` says how it went."""
        with self._turn:
            self._finished += 1
            self.say(line)

    def skip(self, runs: int) -> None:
        """So many of the runs to come are not needed."""
        with self._turn:
            self._total -= runs

    def say(self, line: str) -> None:
        """A line of the log."""
        with self._turn:
            self._clear()
            print(f"{self._name}: {line}", file=self._out, flush=True)
            self._draw()

    def end(self) -> None:
        """Take the bar away."""
        self._clear()
        self._bar = False

    def left_s(self) -> float | None:
        """Estimated time left; None before anything is done."""
        done = self._finished - self._before
        if not done:
            return None
        return (time.monotonic() - self._began_s) / done * (self._total - self._finished)

    def _clear(self) -> None:
        if self._bar:
            self._out.write("\r\x1b[K")

    def _draw(self) -> None:
        if not (self._bar and self._total):
            return
        filled = WIDTH * self._finished // max(self._total, 1)
        left_s = self.left_s()
        left = "" if left_s is None else f", {_duration(left_s)} left"
        line = (
            f"[{'#' * filled}{'.' * (WIDTH - filled)}] {self._finished}/{self._total}{left}  "
            f"{self._now}"
        )
        self._clear()
        self._out.write(line[: shutil.get_terminal_size().columns - 1])
        self._out.flush()


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
