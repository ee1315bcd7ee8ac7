#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""real_time.py VCPU ON_MS OFF_MS: a real-time task there, which runs and sleeps in turns."""

import os
import sys
import time

vcpu, on_ms, off_ms = (int(argument) for argument in sys.argv[1:])
os.sched_setaffinity(0, {vcpu})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
print("running", flush=True)
while True:
    end_ns = time.monotonic_ns() + on_ms * 1_000_000
    while time.monotonic_ns() < end_ns:
        pass
    time.sleep(off_ms / 1000)
