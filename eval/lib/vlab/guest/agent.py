#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""PID 1 of the guest once it is up: runs the host's commands, many at once.

Frames over the virtio-serial port are lines of JSON. In: {"id", "run", "env", "cwd"}, {"id",
"signal"}, and {"id", "clock"}, which is answered at once. Out: {"up": true} once, {"id", "out":
base64}, {"id", "rc"}, {"id", "clock_ns"}.

Where the lab's clock is virtual, there is a second port: a byte there stops it, with the number of
frames sent so far. So the lab decides what comes next without the guest going on meanwhile.
"""

import base64
import json
import os
import selectors
import signal
import subprocess
import time
from pathlib import Path

PORT_NAME = "vaware.lab"
CLOCK_PORT_NAME = "vaware.clock"
CHUNK = 65536
CANNOT_START = 126


class Command:
    """A command that runs: its pipe and its id on the host."""

    def __init__(self, number: int, process: subprocess.Popen):
        self.number = number
        self.process = process


class Agent:
    """One thread, one loop: frames in, output and exit codes out."""

    def __init__(self, port: int, clock: int | None):
        self.port = port
        self.clock = clock
        self.sent = 0
        self.pending = b""
        self.commands: dict[int, Command] = {}  # by pid
        self.selector = selectors.DefaultSelector()
        self.child_ended, wakeup = os.pipe()
        os.set_blocking(self.child_ended, False)
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(self.port, selectors.EVENT_READ, self.read_port)
        self.selector.register(self.child_ended, selectors.EVENT_READ, self.reap)

    def serve(self) -> None:
        self.send({"up": True})
        self.stop_clock()
        while True:
            for key, _ in self.selector.select():
                key.data()

    def send(self, frame: dict) -> None:
        data = memoryview(json.dumps(frame).encode() + b"\n")
        while data:
            data = data[os.write(self.port, data) :]
        self.sent += 1

    def stop_clock(self) -> None:
        """Have the lab decide how to go on."""
        if self.clock is not None:
            os.write(self.clock, bytes([self.sent % 256]))

    def read_port(self) -> None:
        data = os.read(self.port, CHUNK)
        if not data:  # the host has hung up and may come back
            time.sleep(0.1)
            return
        *lines, self.pending = (self.pending + data).split(b"\n")
        for line in lines:
            frame = json.loads(line)
            if "run" in frame:
                self.start(frame)
            elif "clock" in frame:
                self.send({"id": frame["id"], "clock_ns": time.monotonic_ns()})
                self.stop_clock()
            else:
                self.signal(frame["id"], frame["signal"])

    def start(self, frame: dict) -> None:
        cwd = frame["cwd"] if os.path.isdir(frame["cwd"]) else "/"
        try:
            process = subprocess.Popen(
                ["/bin/bash", "-c", frame["run"]],
                cwd=cwd,
                env=os.environ | frame["env"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as why:
            message = f"the guest cannot start a command: {why}\n".encode()
            self.send({"id": frame["id"], "out": base64.b64encode(message).decode()})
            self.send({"id": frame["id"], "rc": CANNOT_START})
            self.stop_clock()
            return
        os.set_blocking(process.stdout.fileno(), False)
        command = Command(frame["id"], process)
        self.commands[process.pid] = command
        self.selector.register(
            process.stdout, selectors.EVENT_READ, lambda: self.read_output(command)
        )

    def signal(self, number: int, signum: int) -> None:
        for pid, command in self.commands.items():
            if command.number == number:
                os.killpg(pid, signum)

    def read_output(self, command: Command) -> bool:
        """Pass on what there is; False at the end of the output."""
        pipe = command.process.stdout
        data = None if pipe.closed else pipe.read(CHUNK)
        if data:
            self.send({"id": command.number, "out": base64.b64encode(data).decode()})
        elif data == b"":
            self.hang_up(pipe)
        return bool(data)

    def hang_up(self, pipe) -> None:
        if not pipe.closed:
            self.selector.unregister(pipe)
            pipe.close()

    def reap(self) -> None:
        os.read(self.child_ended, CHUNK)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self.commands:
                self.finish(self.commands.pop(pid), os.waitstatus_to_exitcode(status))

    def finish(self, command: Command, code: int) -> None:
        command.process.returncode = code
        # Something it left in the background may hold the pipe: take what is there, do not wait.
        while self.read_output(command):
            pass
        self.hang_up(command.process.stdout)
        self.send({"id": command.number, "rc": code if code >= 0 else 128 - code})
        self.stop_clock()


def find_port(name: str) -> int | None:
    """Open the virtio-serial port called `name`, if it is there by now."""
    for file in Path("/sys/class/virtio-ports").glob("*/name"):
        node = Path("/dev", file.parent.name)  # comes a little after its entry in /sys
        if node.exists() and file.read_text().strip() == name:
            return os.open(node, os.O_RDWR)
    return None


def open_port(name: str) -> int:
    """Open a port that the kernel may still be about to create."""
    while (port := find_port(name)) is None:
        time.sleep(0.05)
    return port


def main() -> None:
    # Above whatever scheduler is under test, so that a stalled guest can still be asked and told;
    # the commands start as ordinary tasks.
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    has_clock = "vaware.clock=virtual" in Path("/proc/cmdline").read_text().split()
    clock = open_port(CLOCK_PORT_NAME) if has_clock else None
    Agent(open_port(PORT_NAME), clock).serve()


main()
