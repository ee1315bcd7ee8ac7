#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""What cgroups get of the vCPUs: cgroups.py SECONDS PATH:KEY=VALUE,... [...]

Makes the cgroups, starts their tasks, waits for a second, and prints as JSON the vCPUs that each
used for SECONDS, and as "waited_s" how long at most a task that computes was kept from it. Keys:

    weight, idle, max, max.burst    what is written to cpu.KEY; `max=50000/100000`
    later.KEY                       the same, when its tasks run already
    spin                            tasks that compute
    nap                             tasks that compute 2 ms and sleep 2 ms
    read                            tasks that read zeros, all their time in the kernel
    traced                          its tasks are, by one who does nothing
    pin                             its tasks may run on this vCPU only
    together                        its tasks begin when all have been started, and limits written

A nested cgroup comes after the one that it is in. All are gone in the end.
"""

import ctypes
import json
import mmap
import os
import signal
import struct
import sys
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
SETTLED_S = 1
JOIN_S = 20
NAP_S = 0.002
READ_BYTES = 64 << 20
PTRACE_TRACEME = 0
KINDS = ("spin", "nap", "read")
SEEN = struct.Struct("dd")


def used_s(folder: Path) -> float:
    """CPU time of a cgroup and those below it."""
    stat = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
    return int(stat["usage_usec"]) / 1e6


def read_zeros() -> None:
    """Read zeros for ever, in calls that take long."""
    into = memoryview(mmap.mmap(-1, READ_BYTES))
    with open("/dev/zero", "rb", buffering=0) as zeros:
        while True:
            zeros.readinto(into)


def work(kind: str, ran: mmap.mmap, slot: int) -> None:
    """Work for ever, with or without sleeps; note when that was last and its longest gap."""
    if kind == "read":
        read_zeros()
    last, longest = time.monotonic(), 0.0
    while True:
        now = time.monotonic()
        longest, last = max(longest, now - last), now
        SEEN.pack_into(ran, slot * SEEN.size, last, longest)
        if kind == "nap":
            until = time.thread_time() + NAP_S
            while time.thread_time() < until:
                pass
            time.sleep(NAP_S)


class Gate:
    """Tasks wait at it until it opens."""

    def __init__(self) -> None:
        self.shut, self.held = os.pipe()

    def wait(self) -> None:
        os.close(self.held)
        os.read(self.shut, 1)

    def open(self) -> None:
        os.close(self.held)


def start(
    folder: Path, settings: dict[str, str], kind: str, ran: mmap.mmap, slot: int, gate: Gate
) -> int:
    """Start a task in a cgroup; returns its process id."""
    pid = os.fork()
    if not pid:
        if "pin" in settings:
            os.sched_setaffinity(0, {int(settings["pin"])})
        (folder / "cgroup.procs").write_text("0")
        if "together" in settings:
            gate.wait()
        if "traced" in settings:
            ctypes.CDLL(None).ptrace(PTRACE_TRACEME, 0, None, None)
        work(kind, ran, slot)
    return pid


def write(folder: Path, settings: dict[str, str], prefix: str) -> None:
    """Write the settings whose keys begin with `prefix`."""
    for key, value in settings.items():
        name = key.removeprefix(prefix)
        if name in ("weight", "idle", "max", "max.burst") and key == prefix + name:
            (folder / f"cpu.{name}").write_text(value.replace("/", " "))


def wait_until_joined(groups: dict[str, dict[str, str]], tasks: int) -> None:
    """Wait until all tasks have moved to their groups: each waits for the others, in the kernel."""
    until = time.monotonic() + JOIN_S
    while sum(len((ROOT / path / "cgroup.procs").read_text().split()) for path in groups) < tasks:
        if time.monotonic() > until:
            sys.exit(f"not all tasks were in their cgroups after {JOIN_S} s")
        time.sleep(0.1)


def measured(groups: dict[str, dict[str, str]], seconds: float) -> dict[str, float]:
    """The vCPUs that each group used."""
    tasks: list[int] = []
    ran = mmap.mmap(-1, mmap.PAGESIZE * 16)
    gate = Gate()
    try:
        for path, settings in groups.items():
            folder = ROOT / path
            folder.mkdir()
            (folder.parent / "cgroup.subtree_control").write_text("+cpu")
            write(folder, settings, "")
        for path, settings in groups.items():
            for kind in KINDS:
                for _ in range(int(settings.get(kind, 0))):
                    tasks.append(start(ROOT / path, settings, kind, ran, len(tasks), gate))
        wait_until_joined(groups, len(tasks))
        for path, settings in groups.items():
            write(ROOT / path, settings, "later.")
        gate.open()
        time.sleep(SETTLED_S)
        before, began_s = {path: used_s(ROOT / path) for path in groups}, time.monotonic()
        time.sleep(seconds)
        took_s = time.monotonic() - began_s
        used = {path: (used_s(ROOT / path) - before[path]) / took_s for path in groups}
        seen = [SEEN.unpack_from(ran, slot * SEEN.size) for slot in range(len(tasks))]
        now = time.monotonic()
        waits = [max(longest, now - last) for last, longest in seen if last]
        return used | {"waited_s": max(waits, default=0)}
    finally:
        for pid in tasks:
            os.kill(pid, signal.SIGKILL)
        for pid in tasks:
            os.waitpid(pid, 0)
        for path in reversed(groups):
            if (ROOT / path).is_dir():
                (ROOT / path).rmdir()
        (ROOT / "cgroup.subtree_control").write_text("-cpu")


if __name__ == "__main__":
    asked = {}
    for argument in sys.argv[2:]:
        name, _, keys = argument.partition(":")
        asked[name] = dict(key.split("=", 1) for key in keys.split(",") if key)
    print(json.dumps(measured(asked, float(sys.argv[1]))))
