#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""What cgroups get of the vCPUs: cgroups.py SECONDS PATH:KEY=VALUE,... [...]

Makes the cgroups, starts their tasks, waits for a second, and prints as JSON for each group, over
SECONDS, the "vcpus" that it used and the "turns_per_s" that its tasks made of a loop: that is work,
however much of the vCPUs' time was stolen. "waited_s" is how long at most a task that computes was
kept from it. Keys:

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
CALIBRATED_S = 0.05
NUMBER = 8  # bytes of what it tells
TURN = range(200)  # a clock costs an emulated VM more than all the rest
LAST, LONGEST, TURNS, NR_TOLD = range(4)  # what a task tells


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


def told_by(tasks: int) -> list[memoryview]:
    """What each of so many tasks tells, in memory that they share.

    A number is written at once, which struct's pack_into() does not do: it writes zeros first, and
    who is preempted then has told nothing.
    """
    ran = memoryview(mmap.mmap(-1, max(1, tasks) * NR_TOLD * NUMBER)).cast("d")
    return [ran[slot * NR_TOLD : (slot + 1) * NR_TOLD] for slot in range(tasks)]


def compute(tells: memoryview, turns: int) -> None:
    """Make so many turns; tell how many all have been, when the last was, and the longest gap."""
    last = tells[LAST] or time.monotonic()
    for _ in range(turns):
        for _ in TURN:
            pass
        now = time.monotonic()
        tells[LONGEST] = max(tells[LONGEST], now - last)
        tells[LAST] = last = now
        tells[TURNS] += 1


def turns_per_s() -> float:
    """What a task makes on a vCPU of its own, or less."""
    (tells,), began_s = told_by(1), time.monotonic()
    while (took_s := time.monotonic() - began_s) < CALIBRATED_S:
        compute(tells, 100)
    return tells[TURNS] / took_s


def work(kind: str, tells: memoryview, nap_turns: int) -> None:
    """Work for ever, with or without sleeps."""
    if kind == "read":
        read_zeros()
    while True:
        compute(tells, nap_turns)
        if kind == "nap":
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


def start(folder: Path, settings: dict[str, str], gate: Gate, task: tuple) -> int:
    """Start a task in a cgroup, `task` being the arguments of work(); returns its process id."""
    pid = os.fork()
    if not pid:
        if "pin" in settings:
            os.sched_setaffinity(0, {int(settings["pin"])})
        (folder / "cgroup.procs").write_text("0")
        if "together" in settings:
            gate.wait()
        if "traced" in settings:
            ctypes.CDLL(None).ptrace(PTRACE_TRACEME, 0, None, None)
        work(*task)
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


class Tasks:
    """The tasks of all groups, and what they tell of themselves."""

    def __init__(self, groups: dict[str, dict[str, str]]) -> None:
        self.groups = [
            (path, kind)
            for path, settings in groups.items()
            for kind in KINDS
            for _ in range(int(settings.get(kind, 0)))
        ]
        self.told = told_by(len(self.groups))
        self.pids: list[int] = []

    def start(self, groups: dict[str, dict[str, str]], gate: Gate) -> None:
        nap_turns = max(1, round(turns_per_s() * NAP_S))
        for (path, kind), tells in zip(self.groups, self.told, strict=True):
            task = (kind, tells, nap_turns)
            self.pids.append(start(ROOT / path, groups[path], gate, task))

    def longest_wait_s(self, now_s: float) -> float:
        """The longest gap, one that lasts until now included."""
        begun = [tells for tells in self.told if tells[LAST]]
        return max((max(tells[LONGEST], now_s - tells[LAST]) for tells in begun), default=0)

    def turns(self) -> dict[str, float]:
        """Of each group with tasks, those in groups below it not included."""
        found = dict.fromkeys((path for path, _ in self.groups), 0.0)
        for (path, _), tells in zip(self.groups, self.told, strict=True):
            found[path] += tells[TURNS]
        return found

    def end(self) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
        for pid in self.pids:
            os.waitpid(pid, 0)


def measured(groups: dict[str, dict[str, str]], seconds: float) -> dict:
    """What each group got, and the longest wait."""
    # Not in any group, it would soon wait behind those of great weight.
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    tasks = Tasks(groups)
    gate = Gate()
    try:
        for path, settings in groups.items():
            folder = ROOT / path
            folder.mkdir()
            (folder.parent / "cgroup.subtree_control").write_text("+cpu")
            write(folder, settings, "")
        tasks.start(groups, gate)
        wait_until_joined(groups, len(tasks.pids))
        for path, settings in groups.items():
            write(ROOT / path, settings, "later.")
        gate.open()
        time.sleep(SETTLED_S)
        turns, began_s = tasks.turns(), time.monotonic()
        before = {path: used_s(ROOT / path) for path in groups}
        time.sleep(seconds)
        took_s = time.monotonic() - began_s
        got = {path: {"vcpus": (used_s(ROOT / path) - before[path]) / took_s} for path in groups}
        for path, now in tasks.turns().items():
            got[path]["turns_per_s"] = (now - turns[path]) / took_s
        return {"groups": got, "waited_s": tasks.longest_wait_s(time.monotonic())}
    finally:
        for path, settings in groups.items():
            if any("max" in key for key in settings):  # else their end takes as long as all else
                (ROOT / path / "cpu.max").write_text("max")
        tasks.end()
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
