#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Makes, changes, fills and removes cgroups for SECONDS: cgroup_churn.py SECONDS

Prints as JSON how often. Tasks compute, sleep and die meanwhile, and are moved about.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup/churn")
TASKS = 12
FOLDERS = 8


def work() -> None:
    """Compute and sleep in turns."""
    chance = random.Random(os.getpid())
    while True:
        until = time.monotonic() + chance.random() / 500
        while time.monotonic() < until:
            pass
        if chance.random() < 0.5:
            time.sleep(0.001)


def start(folder: Path) -> int:
    """Start a task in a cgroup."""
    pid = os.fork()
    if not pid:
        (folder / "cgroup.procs").write_text("0")
        work()
    return pid


def end(pid: int) -> None:
    """End a task."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def change(folder: Path, chance: random.Random) -> None:
    """Give a cgroup another weight or limit."""
    if chance.random() < 0.5:
        (folder / "cpu.weight").write_text(str(chance.choice([1, 10, 100, 1000, 10000])))
    else:
        quota = chance.choice(["max", "1000", "5000", "50000"])
        (folder / "cpu.max").write_text(f"{quota} {chance.choice([10000, 100000])}")


def churn(seconds: float) -> dict[str, int]:
    """Do it, and count."""
    chance, told = random.Random(1), {"made": 0, "moved": 0, "changed": 0, "ended": 0}
    (ROOT.parent / "cgroup.subtree_control").write_text("+cpu")
    ROOT.mkdir()
    (ROOT / "cgroup.subtree_control").write_text("+cpu")
    folders = [ROOT / f"fixed{i}" for i in range(FOLDERS)]
    for folder in folders:
        folder.mkdir()
    tasks = [start(chance.choice(folders)) for _ in range(TASKS)]
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        brief = ROOT / f"brief{told['made']}"
        brief.mkdir()
        change(brief, chance)
        told["made"] += 1
        moved = chance.choice(tasks)
        (brief / "cgroup.procs").write_text(str(moved))
        (chance.choice(folders) / "cgroup.procs").write_text(str(moved))
        told["moved"] += 2
        brief.rmdir()
        change(chance.choice(folders), chance)
        told["changed"] += 2
        if chance.random() < 0.1:
            end(tasks.pop(chance.randrange(TASKS)))
            tasks.append(start(chance.choice(folders)))
            told["ended"] += 1
    for pid in tasks:
        end(pid)
    for folder in folders:
        folder.rmdir()
    ROOT.rmdir()
    (ROOT.parent / "cgroup.subtree_control").write_text("-cpu")
    return told


if __name__ == "__main__":
    print(json.dumps(churn(float(sys.argv[1]))))
