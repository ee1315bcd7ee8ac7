#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Isolates a vCPU by a cpuset partition, and looks who else runs there: partition.py VCPU SECONDS

A task computes there. Prints as JSON the part of the time that it ran, and the names of other
programs' threads that have used the vCPU in that time and are no kernel threads.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PROCESSOR, UTIME, STIME = 36, 11, 12  # fields of /proc/PID/stat after the name
SETTLED_S = 2  # for the daemon to see it, too
LOOK_S = 0.02


def threads() -> dict[int, tuple[str, int, int]]:
    """Name, vCPU and CPU time in ticks of each thread that is no kernel thread."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/task/[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue  # it has ended
        name, fields = text[text.index("(") + 1 : text.rindex(")")], text.rpartition(")")[2].split()
        if fields[1] == "2" or stat.parts[2] == "2":
            continue
        ran = int(fields[UTIME]) + int(fields[STIME])
        found[int(stat.parts[4])] = (name, int(fields[PROCESSOR]), ran)
    return found


def look(vcpu: int, seconds: float) -> dict[str, object]:
    """Isolate, compute, look."""
    (ROOT / "cgroup.subtree_control").write_text("+cpuset")
    folder = ROOT / "isolated"
    folder.mkdir()
    (folder / "cpuset.cpus").write_text(str(vcpu))
    (folder / "cpuset.cpus.partition").write_text("isolated")
    state = (folder / "cpuset.cpus.partition").read_text().strip()
    pid = os.fork()
    if not pid:
        (folder / "cgroup.procs").write_text("0")
        while True:
            pass
    try:
        time.sleep(SETTLED_S)
        before, began_s = threads(), time.monotonic()
        strangers = set()
        while time.monotonic() < began_s + seconds:
            time.sleep(LOOK_S)
            for tid, (name, at, ran) in threads().items():
                if tid != pid and at == vcpu and ran > before.get(tid, (name, at, ran))[2]:
                    strangers.add(name)
        took_s = time.monotonic() - began_s
        ran = threads()[pid][2] - before[pid][2]
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        (folder / "cpuset.cpus.partition").write_text("member")
        folder.rmdir()
        (ROOT / "cgroup.subtree_control").write_text("-cpuset")
    return {
        "state": state,
        "alone_ratio": ran / os.sysconf("SC_CLK_TCK") / took_s,
        "strangers": sorted(strangers),
    }


if __name__ == "__main__":
    print(json.dumps(look(int(sys.argv[1]), float(sys.argv[2]))))
