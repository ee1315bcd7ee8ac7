#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Spinners that say what they got: spinners.py SECONDS TASK...

TASK is `vcpu=1,nice=5,policy=idle` or a part of it; `any` for a task as it is; `vcpu=1,free` may
leave vCPU 1 as soon as it spins there. All of them count turns of equal work over the same time.
Prints a JSON list, one object per task:
  turns           work done
  longest_gap_s   longest time between two turns
  overtaken       most turns that the others did together between two turns of this one
"""

import json
import mmap
import os
import sys
import time

POLICIES = {"other": 0, "batch": 3, "idle": 5, "ext": 7}
NS = 1_000_000_000
LEAD_NS = NS // 10  # from "all are ready" to the first turn


def become(task: str) -> set[int]:
    """Make this process what `task` says, and return where it may run once it spins."""
    anywhere = os.sched_getaffinity(0)
    settings = dict(part.split("=") for part in task.split(",") if "=" in part)
    if "vcpu" in settings:
        os.sched_setaffinity(0, {int(settings["vcpu"])})
    os.setpriority(os.PRIO_PROCESS, 0, int(settings.get("nice", 0)))
    os.sched_setscheduler(0, POLICIES[settings.get("policy", "other")], os.sched_param(0))
    return anywhere if "free" in task.split(",") else os.sched_getaffinity(0)


def spin(own: int, turns: memoryview, begin_ns: int, seconds: float, allowed: set[int]) -> dict:
    """Count turns from `begin_ns` on; `turns` has a counter per task, this one's is `own`."""
    last_ns, end_ns = begin_ns, begin_ns + int(seconds * NS)
    longest_gap_ns = overtaken = others_before = 0
    time.sleep(max(0, begin_ns - time.monotonic_ns()) / NS)
    os.sched_setaffinity(0, allowed)
    while last_ns < end_ns:
        for _ in range(1000):  # reading the clock more often would disturb an emulated vCPU
            pass
        now_ns = time.monotonic_ns()
        turns[own] += 1
        others = sum(turns) - turns[own]
        longest_gap_ns = max(longest_gap_ns, now_ns - last_ns)
        overtaken = max(overtaken, others - others_before)
        last_ns, others_before = now_ns, others
    return {"turns": turns[own], "longest_gap_s": longest_gap_ns / NS, "overtaken": overtaken}


def main() -> None:
    seconds, tasks = float(sys.argv[1]), sys.argv[2:]
    turns = memoryview(mmap.mmap(-1, 8 * len(tasks))).cast("Q")
    begin = memoryview(mmap.mmap(-1, 8)).cast("Q")
    pipes = []
    for own, task in enumerate(tasks):
        reader, writer = os.pipe()
        if os.fork() == 0:
            allowed = become(task)
            os.write(writer, b"\n")
            while not begin[0]:
                time.sleep(LEAD_NS / 10 / NS)
            os.write(writer, json.dumps(spin(own, turns, begin[0], seconds, allowed)).encode())
            os._exit(0)
        os.close(writer)
        pipes.append(os.fdopen(reader))
    for pipe in pipes:
        pipe.readline()
    begin[0] = time.monotonic_ns() + LEAD_NS
    print("spinning", flush=True)
    print(json.dumps([json.loads(pipe.read()) for pipe in pipes]))


main()
