#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Change affinity, nice value and policy of spinners all the time: churn.py SECONDS"""

import os
import random
import signal
import sys
import time

TASKS = 6
POLICIES = (os.SCHED_OTHER, os.SCHED_BATCH, os.SCHED_IDLE)


def spin() -> None:
    """Work for ever, with a sleep now and then in which the task blocks."""
    while True:
        for _ in range(random.randrange(200_000)):
            pass
        time.sleep(0.001)


def main() -> None:
    vcpus = sorted(os.sched_getaffinity(0))
    pids = []
    for _ in range(TASKS):
        pid = os.fork()
        if pid == 0:
            spin()
        pids.append(pid)
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        pid = random.choice(pids)
        os.sched_setaffinity(pid, random.sample(vcpus, random.randint(1, len(vcpus))))
        os.setpriority(os.PRIO_PROCESS, pid, random.randint(-20, 19))
        os.sched_setscheduler(random.choice(pids), random.choice(POLICIES), os.sched_param(0))
        time.sleep(0.002)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


main()
