#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""How late a task wakes that sleeps for 2 to 6 ms at a time, beside a spinner for each vCPU.

late_timers.py SECONDS: prints as JSON by how many ms it was late, each time in the second half.
"""

import json
import os
import random
import signal
import sys
import time

SLEEPS_S = (0.002, 0.006)  # of one length, each or none would end while the host is elsewhere


def main():
    seconds = float(sys.argv[1])
    spinners = []
    for _ in range(os.cpu_count()):
        spinners.append(os.fork())
        if not spinners[-1]:
            while True:
                pass
    began = time.monotonic()
    late_ms = []
    lengths = random.Random(1)
    while (now := time.monotonic()) < began + seconds:
        sleep_s = lengths.uniform(*SLEEPS_S)
        time.sleep(sleep_s)
        if now > began + seconds / 2:
            late_ms.append((time.monotonic() - now - sleep_s) * 1e3)
    for spinner in spinners:
        os.kill(spinner, signal.SIGKILL)
        os.waitpid(spinner, 0)
    print(json.dumps(late_ms))


main()
