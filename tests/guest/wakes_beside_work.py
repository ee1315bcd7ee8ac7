#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Wake a task on a vCPU that computes: wakes_beside_work.py work|timer ROUNDS.

All on vCPU 0. "work": what computes there wakes the task; "timer": the task's own timer does.
"""

import os
import sys
import time

APART_S = 0.005


def main():
    by, rounds = sys.argv[1], int(sys.argv[2])
    os.sched_setaffinity(0, {0})
    wake_end, wake = os.pipe()
    child = os.fork()
    if not child:
        os.close(wake)
        if by == "timer":
            for _ in range(rounds):
                time.sleep(APART_S)
        else:
            while os.read(wake_end, 1):
                pass
        os._exit(0)
    if by == "work":
        for _ in range(rounds):
            end = time.monotonic() + APART_S
            while time.monotonic() < end:
                pass
            os.write(wake, b"w")
        os.close(wake)
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        pass


main()
