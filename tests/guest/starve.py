#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Keep all tasks of sched_ext from running, by real-time tasks on all vCPUs: starve.py SECONDS"""

import os
import sys
import time
from pathlib import Path

RT_RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")
DEBUGFS = Path("/sys/kernel/debug")


def starve(vcpu: int, begin: float, end: float) -> None:
    """Spin on `vcpu` from `begin` to `end`."""
    os.sched_setaffinity(0, {vcpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    time.sleep(max(0, begin - time.monotonic()))
    while time.monotonic() < end:
        for _ in range(100_000):
            pass


# The kernel keeps a part of each vCPU for other tasks unless told not to: by real-time throttling,
# and by the deadline servers of newer kernels.
RT_RUNTIME.write_text("-1")
if not (DEBUGFS / "sched").exists():
    os.system(f"mount -t debugfs none {DEBUGFS}")
servers = {file: file.read_text() for file in DEBUGFS.glob("sched/*_server/cpu*/runtime")}
for file in servers:
    file.write_text("0")
begin = time.monotonic() + 1
for vcpu in os.sched_getaffinity(0):
    if os.fork() == 0:
        starve(vcpu, begin, begin + float(sys.argv[1]))
        os._exit(0)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
for file, runtime in servers.items():
    file.write_text(runtime)
RT_RUNTIME.write_text("950000")
