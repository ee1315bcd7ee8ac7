#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Kill a scheduler, print the seconds until sched_ext was disabled: end_by_kill.py PID"""

import os
import signal
import sys
import time
from pathlib import Path

STATE = Path("/sys/kernel/sched_ext/state")

# Above the schedulers: it is not its own wait that is measured.
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
began = time.monotonic()
os.kill(int(sys.argv[1]), signal.SIGKILL)
while STATE.read_text().strip() != "disabled":
    time.sleep(0.002)
print(time.monotonic() - began)
