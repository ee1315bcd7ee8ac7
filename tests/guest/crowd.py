#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Keep so many threads, so that a scheduler takes some time to be enabled: crowd.py THREADS"""

import sys
import threading
import time

FOR_S = 1000
STACK_BYTES = 64 << 10

threading.stack_size(STACK_BYTES)
for _ in range(int(sys.argv[1])):
    threading.Thread(target=time.sleep, args=(FOR_S,), daemon=True).start()
print("there", flush=True)
time.sleep(FOR_S)
