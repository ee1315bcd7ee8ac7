#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""How long a task waits that last slept on vCPU 2 and is woken by a busy vCPU 0.

late_wakeups.py ROUNDS: prints the waits in ms as JSON. The task may run on vCPUs 1 and 2; before
each wake-up it makes sure that it ran on vCPU 2 last. The waker goes on computing after it,
so that its own vCPU does not become idle and take the task.
"""

import json
import os
import sys
import time

BEFORE_S = 0.010
AFTER_S = 0.120  # longer than a stop: what waits must be taken by somebody else


def spin(seconds):
    """Keep this vCPU busy."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def sleeper(wake, done):
    """Sleep on vCPU 2 until woken, and tell when that was.

    It goes there as best-effort work, whose waits do not count to the governor: pinned to a stopped
    vCPU it waits as long as nobody can help.
    """
    while True:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        os.sched_setaffinity(0, {2})
        os.sched_setaffinity(0, {1, 2})
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.write(done, b"ready\n" + b" " * 26)
        if not os.read(wake, 1):
            return
        os.write(done, f"{time.monotonic():<31.9f}\n".encode())


def main():
    rounds = int(sys.argv[1])
    wake_end, wake = os.pipe()
    done, done_end = os.pipe()
    if not os.fork():
        os.close(wake)
        sleeper(wake_end, done_end)
        os._exit(0)
    os.sched_setaffinity(0, {0})
    waits_ms = []
    for _ in range(rounds):
        os.read(done, 32)  # it is about to sleep
        spin(BEFORE_S)
        woken = time.monotonic()
        os.write(wake, b"w")
        spin(AFTER_S)
        waits_ms.append((float(os.read(done, 32)) - woken) * 1e3)
    os.close(wake)
    print(json.dumps(waits_ms))


main()
