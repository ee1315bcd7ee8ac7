# SPDX-License-Identifier: GPL-2.0-only
"""The clock that a VM runs by: the wall's, or a virtual one.

A virtual clock goes only while a thread of this process waits for the guest, so what the lab does
between two commands, and how fast, does not show in the guest. The guest stops the clock itself
when a command has ended (guest/agent.py), at that very instruction.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from .errors import EX_NOT_UP, LabError

CLOCKS = VIRTUAL, WALL, INSTRUCTIONS = "virtual", "wall", "instructions"
WORDS = 256  # the guest's word is a byte: its frames so far, modulo this
ANSWER_S = 60.0  # wall time for what the emulator answers at once
FRAMES_S = 30.0  # wall time from the guest's word to its frames on the other line
SLICE_S = 0.1  # wall time after which output is passed on while the guest works
HEARTBEAT_S = 10.0  # wall time after which a clock that goes is asked for its time
FOREVER = 2**63 - 1


class WallClock:
    """Time as it passes on this machine."""

    is_virtual = False

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait_for(
        self,
        changed: threading.Condition,
        condition: Callable[[], bool],
        timeout_s: float | None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> bool:
        """Wait until `condition` holds; False after `timeout_s`. `changed` guards the condition."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            with changed:
                left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
                wait_s = SLICE_S if left_s is None else min(left_s, SLICE_S)
                done = changed.wait_for(condition, wait_s)
            meanwhile()
            if done or left_s == 0.0:
                return done


class Line(Protocol):
    """The line to the guest (channel.Channel)."""

    frames: int  # received so far
    sent_bytes: int


class VirtualClock:
    """The clock of an emulator with virtual time, which connects to the socket at `path`.

    `guard_s`: wall time without progress of a clock that goes after which the guest counts as hung.
    """

    is_virtual = True

    def __init__(self, path: Path, guard_s: float = 300.0):
        self._channel: Line | None = None
        self._guard_s = guard_s
        self._listener = socket.socket(socket.AF_UNIX)
        path.unlink(missing_ok=True)  # of a boot before
        self._listener.bind(str(path))
        self._listener.listen(1)
        self._line: socket.socket | None = None
        self._received = b""
        self._now_ns = 0
        self._turn = threading.Condition()
        self._goals: list[int] = []  # times at which waiting threads want the clock to stop
        self._until_ns: int | None = None  # where it stops by itself; None: it stands still
        self._stops = 0

    def accept(self, timeout_s: float) -> bool:
        """Take the emulator's connection; False if there is none in time."""
        self._listener.settimeout(timeout_s)
        with contextlib.suppress(TimeoutError):
            self._line, _ = self._listener.accept()
            self._line.settimeout(SLICE_S)
        return self._line is not None

    def follow(self, channel: Line) -> None:
        """Keep in step with the line to the guest."""
        self._channel = channel

    def close(self) -> None:
        """Hang up, which ends the emulator."""
        for line in (self._line, self._listener):
            if line:
                line.close()

    def now_ns(self) -> int:
        """Virtual time since the emulator started."""
        return self._now_ns

    def sleep(self, seconds: float) -> None:
        """Let the guest work for that long."""
        self.wait_for(threading.Condition(), lambda: False, seconds)

    def jump(self, seconds: float) -> None:
        """Stop the whole VM for that long, as a snapshot or a migration does."""
        answer = self.ask(f"pause {round(seconds * 1e9)}\n")[0]
        self._now_ns = int(answer.split()[1])

    def wait_for(
        self,
        changed: threading.Condition,
        condition: Callable[[], bool],
        timeout_s: float | None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> bool:
        """Let the clock go until `condition` holds; False after `timeout_s` of virtual time.

        Raises LabError (75) if the emulator is gone or the guest hangs.
        """
        goal_ns = FOREVER if timeout_s is None else self._now_ns + round(timeout_s * 1e9)
        with self._goal(goal_ns):
            while True:
                meanwhile()
                with changed:
                    if condition():
                        return True
                if self._now_ns >= goal_ns:
                    return False
                self._go(meanwhile)

    def ask(self, request: str, lines: Callable[[str], int] = lambda answer: 0) -> list[str]:
        """Ask the emulator; `lines` says by the answer how many lines follow it.

        The clock stands still for it. Raises LabError with the emulator's own sentence.
        """
        with self._turn:
            while self._until_ns is not None:
                self._send("hold\n")
                self._turn.wait()
            self._send(request)
            answer = self._read_line(ANSWER_S)
            while answer.startswith("now "):  # asked for while the clock went, and late
                answer = self._read_line(ANSWER_S)
            if answer.startswith("error "):
                raise LabError(answer.removeprefix("error "))
            return [answer, *(self._read_line(ANSWER_S) for _ in range(lines(answer)))]

    @contextlib.contextmanager
    def _goal(self, goal_ns: int) -> Iterator[None]:
        with self._turn:
            self._goals.append(goal_ns)
            if self._until_ns is not None and goal_ns < self._until_ns:
                self._send("hold\n")  # whoever lets it go will not let it pass this goal
        try:
            yield
        finally:
            with self._turn:
                self._goals.remove(goal_ns)

    def _go(self, meanwhile: Callable[[], None]) -> None:
        """Let the clock go until it is stopped, by whomever."""
        with self._turn:
            if self._until_ns is not None:  # another thread has let it go
                stops = self._stops
                self._turn.wait_for(lambda: self._stops != stops)
                return
            self._until_ns = min(self._goals)
        try:
            self._run(self._until_ns, meanwhile)
        finally:
            with self._turn:
                self._until_ns = None
                self._stops += 1
                self._turn.notify_all()

    def _run(self, until_ns: int, meanwhile: Callable[[], None]) -> None:
        sent_bytes = self._channel.sent_bytes if self._channel else 0
        self._send(f"run {-1 if until_ns == FOREVER else until_ns} {sent_bytes}\n")
        progress_s = asked_s = time.monotonic()
        while True:
            try:
                word, *values = self._read_line(SLICE_S).split()
            except TimeoutError:
                meanwhile()
                now_s = time.monotonic()
                if now_s - progress_s > self._guard_s:
                    raise LabError(
                        f"the guest hangs: its clock has stood at {self._now_ns / 1e9:.3f} s for "
                        f"{self._guard_s:g} s; start it again",
                        EX_NOT_UP,
                    ) from None
                if now_s - asked_s > HEARTBEAT_S:
                    asked_s = now_s
                    self._send("now\n")
                continue
            now_ns = int(values[0])
            if now_ns > self._now_ns:
                progress_s = time.monotonic()
            self._now_ns = now_ns
            if word == "held":
                if values[1] == "guest":
                    self._await_frames(int(values[2]))
                return

    def _await_frames(self, word: int) -> None:
        """What the guest sent before it stopped the clock came by another line: have it all."""
        deadline = time.monotonic() + FRAMES_S
        while self._channel.frames % WORDS != word and time.monotonic() < deadline:
            time.sleep(0.0005)

    def _send(self, text: str) -> None:
        try:
            self._line.sendall(text.encode())
        except OSError:
            raise _gone() from None

    def _read_line(self, timeout_s: float) -> str:
        """The next line of the emulator's. Raises TimeoutError, or LabError (75) if it is gone."""
        self._line.settimeout(timeout_s)
        while b"\n" not in self._received:
            try:
                data = self._line.recv(65536)
            except TimeoutError:
                raise
            except OSError:
                raise _gone() from None
            if not data:
                raise _gone()
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line.decode()


def _gone() -> LabError:
    return LabError("the emulator is gone, and the VM with it; start it again", EX_NOT_UP)
