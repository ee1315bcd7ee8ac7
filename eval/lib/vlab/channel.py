# SPDX-License-Identifier: GPL-2.0-only
"""The host's end of the line to the guest agent: many commands at once over one socket.

Frames are lines of JSON, output is base64 (guest/agent.py has the other end).
"""

import base64
import contextlib
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from signal import SIGKILL, SIGTERM

from .clock import VirtualClock, WallClock
from .errors import EX_NOT_UP, CommandTimeout, LabError

KILL_GRACE_S = 5.0


@dataclass(frozen=True)
class ClockReading:
    """CLOCK_MONOTONIC of host and guest at one time, up to `error_ns`: half the way to and fro."""

    host_ns: int
    guest_ns: int
    error_ns: int


@dataclass(frozen=True)
class Result:
    """How a command in the guest ended: its exit code (128 + N for signal N) and its output."""

    rc: int
    output: str


class Handle:
    """A command that runs in the guest."""

    def __init__(self, channel: "Channel", number: int, cmd: str):
        self.cmd = cmd
        self._channel = channel
        self.number = number
        self._chunks: list[bytes] = []
        self._rc: int | None = None
        self._lost = False
        self._changed = threading.Condition()

    @property
    def output(self) -> str:
        """What the command has said so far, stdout and stderr together."""
        with self._changed:
            return b"".join(self._chunks).decode(errors="replace")

    @property
    def rc(self) -> int | None:
        """Exit code, None while the command runs."""
        return self._rc

    def wait(
        self, timeout_s: float | None = None, on_output: Callable[[bytes], None] | None = None
    ) -> Result:
        """Wait for the end; `on_output` gets the output as it comes.

        Raises CommandTimeout after `timeout_s` seconds, with the command killed, and LabError (75)
        if the VM is gone.
        """
        passed_on = 0

        def pass_on() -> None:
            nonlocal passed_on
            while on_output and passed_on < len(self._chunks):
                on_output(self._chunks[passed_on])
                passed_on += 1

        clock = self._channel.clock
        if not clock.wait_for(self._changed, lambda: self._ended, timeout_s, pass_on):
            self._give_up(timeout_s)
        pass_on()
        return self._result()

    def kill(self, signal: int = SIGTERM) -> None:
        """Send a signal to the command's process group in the guest; no error if it has ended."""
        if not self._ended:
            self._channel.send({"id": self.number, "signal": int(signal)})

    @property
    def _ended(self) -> bool:
        return self._rc is not None or self._lost

    def _result(self) -> Result:
        if self._rc is None:
            raise LabError(
                f"the VM went away while '{_short(self.cmd)}' ran{self._channel.epitaph()}; "
                "start it again",
                EX_NOT_UP,
            )
        return Result(self._rc, self.output)

    def _give_up(self, timeout_s: float | None) -> None:
        self.kill(SIGKILL)
        self._channel.clock.wait_for(self._changed, lambda: self._ended, KILL_GRACE_S)
        raise CommandTimeout(
            f"'{_short(self.cmd)}' did not end within {timeout_s:g} s in the guest and was killed; "
            "give it more time or less to do",
            self.output,
        )

    def feed(self, frame: dict) -> None:
        """Take one frame of the agent, or an empty one when the line is lost."""
        with self._changed:
            if "out" in frame:
                self._chunks.append(base64.b64decode(frame["out"]))
            elif "rc" in frame:
                self._rc = frame["rc"]
            else:
                self._lost = True
            self._changed.notify_all()


class Channel:
    """The line itself. `up` is set when the agent has said that the guest is up."""

    def __init__(
        self,
        sock: socket.socket,
        epitaph: Callable[[], str] = lambda: "",
        clock: WallClock | VirtualClock | None = None,
    ):
        self.clock = clock or WallClock()
        self.frames = 0  # received so far
        self.sent_bytes = 0
        self.up = threading.Event()
        self.closed = threading.Event()
        self.epitaph = epitaph
        self._sock = sock
        self._lock = threading.Lock()
        self._handles: dict[int, Handle] = {}
        self._clocks: dict[int, list[tuple[int, int]]] = {}
        self.changed = threading.Condition()  # up, closed, or a clock's answer
        self._next = 0
        threading.Thread(target=self._read, name="lab-channel", daemon=True).start()

    def start(self, cmd: str, env: dict[str, str] | None = None, cwd: str = "/") -> Handle:
        """Start a shell command in the guest. Raises LabError (75) if the VM is gone."""
        with self._lock:
            self._next += 1
            handle = Handle(self, self._next, cmd)
            self._handles[self._next] = handle
        self.send({"id": handle.number, "run": cmd, "env": env or {}, "cwd": cwd})
        return handle

    def ask_clock(self, timeout_s: float) -> ClockReading:
        """Read CLOCK_MONOTONIC on both sides. Raises LabError (75) if no answer comes in time."""
        with self._lock:
            self._next += 1
            number = self._next
            answers = self._clocks[number] = []
        sent_ns = self.clock.now_ns()
        self.send({"id": number, "clock": True})
        if not self.clock.wait_for(self.changed, lambda: answers, timeout_s):
            raise LabError(
                f"the guest did not tell its clock within {timeout_s:g} s{self.epitaph()}; "
                "start the VM again",
                EX_NOT_UP,
            )
        came_ns, guest_ns = answers[0]
        if self.clock.is_virtual:
            came_ns = self.clock.now_ns()  # the guest stopped it as it answered
        return ClockReading((sent_ns + came_ns) // 2, guest_ns, (came_ns - sent_ns + 1) // 2)

    def send(self, frame: dict) -> None:
        """Send one frame to the agent. Raises LabError (75) if the VM is gone."""
        try:
            data = json.dumps(frame).encode() + b"\n"
            with self._lock:
                self._sock.sendall(data)
                self.sent_bytes += len(data)
        except OSError:
            raise LabError(f"the VM is gone{self.epitaph()}; start it again", EX_NOT_UP) from None

    def close(self) -> None:
        """Hang up; commands that still wait get an error."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _read(self) -> None:
        try:
            with self._sock.makefile("rb") as lines:
                for line in lines:
                    self._take(json.loads(line))
                    self.frames += 1
        except (OSError, ValueError):
            pass  # cut off in the middle of a frame: the VM has died
        with self.changed:
            self.closed.set()
            self.changed.notify_all()
        with self._lock:
            handles = list(self._handles.values())
        for handle in handles:
            handle.feed({})

    def _take(self, frame: dict) -> None:
        if frame.get("up"):
            with self.changed:
                self.up.set()
                self.changed.notify_all()
            return
        if "clock_ns" in frame:
            came_ns = self.clock.now_ns()
            with self.changed:
                with self._lock:
                    answers = self._clocks.pop(frame["id"])
                answers.append((came_ns, frame["clock_ns"]))
                self.changed.notify_all()
            return
        with self._lock:
            handle = self._handles.get(frame["id"])
            if "rc" in frame:
                self._handles.pop(frame["id"], None)
        if handle:
            handle.feed(frame)


def _short(cmd: str) -> str:
    line = cmd.strip().split("\n")[0]
    return line if len(line) <= 60 else line[:57] + "..."
