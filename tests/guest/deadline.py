#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""deadline.py VCPU ON_MS PERIOD_MS: a SCHED_DEADLINE task that runs for so long in each period.

The kernel takes none that may not run on all vCPUs. It begins on VCPU, and wakes where it slept.
"""

import ctypes
import os
import struct
import sys
import time

SYS_SCHED_SETATTR = 314  # x86-64
SCHED_DEADLINE = 6

vcpu, on_ms, period_ms = (int(argument) for argument in sys.argv[1:])
everywhere = os.sched_getaffinity(0)
os.sched_setaffinity(0, {vcpu})
os.sched_setaffinity(0, everywhere)
runtime_ns, period_ns = (on_ms + 2) * 1_000_000, period_ms * 1_000_000
attributes = struct.pack("=IIQiIQQQ", 48, SCHED_DEADLINE, 0, 0, 0, runtime_ns, period_ns, period_ns)
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall(SYS_SCHED_SETATTR, 0, attributes, 0) < 0:
    sys.exit(f"sched_setattr: {os.strerror(ctypes.get_errno())}")
print("running", flush=True)
begin_ns = time.monotonic_ns()
while True:
    end_ns = begin_ns + on_ms * 1_000_000
    while time.monotonic_ns() < end_ns:
        pass
    begin_ns += period_ns
    time.sleep(max(0, begin_ns - time.monotonic_ns()) / 1e9)
