#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Take vCPUs offline and back, one after the other: replug.py SEED TIMES. In the end all are on."""

import random
import sys
from pathlib import Path

chance = random.Random(int(sys.argv[1]))
switches = [Path(f"/sys/devices/system/cpu/cpu{vcpu}/online") for vcpu in (1, 2, 3)]
for _ in range(int(sys.argv[2])):
    switch = chance.choice(switches)
    switch.write_text(str(1 - int(switch.read_text())))
for switch in switches:
    switch.write_text("1")
