#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Start tasks that end at once, RATE a second for SECONDS: short_tasks.py RATE SECONDS

Prints how many a second it started. Each is a thread that yields once.
"""

import ctypes
import sys
import time

DETACHED, STACK_BYTES = 1, 64 << 10
BATCH_S = 0.005

rate, seconds = float(sys.argv[1]), float(sys.argv[2])
libc = ctypes.CDLL(None)
attributes, thread = ctypes.create_string_buffer(64), ctypes.c_ulong()
libc.pthread_attr_init(attributes)
libc.pthread_attr_setdetachstate(attributes, DETACHED)
libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(STACK_BYTES))
started, began = 0, time.monotonic()
while (passed := time.monotonic() - began) < seconds:
    while started < rate * passed:
        if libc.pthread_create(ctypes.byref(thread), attributes, libc.sched_yield, None):
            sys.exit("the kernel has refused a thread")
        started += 1
    time.sleep(BATCH_S)
print(started / passed)
