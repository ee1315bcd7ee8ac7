#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Change the affinity of tasks that check on which vCPU they run: masks.py SECONDS

Half of the tasks spin, the others sleep and wake. Prints JSON: `changes` of masks, `checks` made
while no change was under way, and `broken`, how many found the task on a vCPU outside its mask.
"""

import ctypes
import json
import mmap
import os
import random
import signal
import sys
import time

TASKS = 6
SEQUENCE, MASK, CHECKS, BROKEN, FIELDS = 0, 1, 2, 3, 4


def check(own: memoryview, sleeps: bool) -> None:
    """Check for ever. The sequence is odd while the mask is being changed."""
    getcpu = ctypes.CDLL(None).sched_getcpu
    while True:
        before = own[SEQUENCE]
        mask, vcpu = own[MASK], getcpu()
        if before % 2 == 0 and own[SEQUENCE] == before:
            own[CHECKS] += 1
            own[BROKEN] += not mask >> vcpu & 1
        if sleeps:
            time.sleep(0.001)


def main() -> None:
    vcpus = sorted(os.sched_getaffinity(0))
    shared = memoryview(mmap.mmap(-1, 8 * FIELDS * TASKS)).cast("Q")
    tasks = {}
    for number in range(TASKS):
        own = shared[number * FIELDS : (number + 1) * FIELDS]
        own[MASK] = sum(1 << vcpu for vcpu in vcpus)
        pid = os.fork()
        if pid == 0:
            check(own, sleeps=number % 2 == 1)
        tasks[pid] = own
    changes, end = 0, time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        pid, own = random.choice(list(tasks.items()))
        chosen = random.sample(vcpus, random.randint(1, len(vcpus) - 1))
        own[SEQUENCE] += 1
        os.sched_setaffinity(pid, chosen)
        own[MASK] = sum(1 << vcpu for vcpu in chosen)
        own[SEQUENCE] += 1
        changes += 1
        time.sleep(0.002)
    for pid in tasks:
        os.kill(pid, signal.SIGKILL)
    checks, broken = sum(shared[CHECKS::FIELDS]), sum(shared[BROKEN::FIELDS])
    print(json.dumps({"changes": changes, "checks": checks, "broken": broken}))


main()
