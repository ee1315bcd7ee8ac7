#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Runs in the guest: busy.py TURNS. A task for each vCPU; all begin at once and do the same work.

Prints nothing. Forking takes long next to the work, so they wait for each other.
"""

import os
import sys


def spin(turns: int) -> None:
    """Some 30 instructions a turn."""
    for _ in range(turns):
        pass


def main() -> None:
    turns, (begin, go) = int(sys.argv[1]), os.pipe()
    for _ in range(os.cpu_count()):
        if os.fork() == 0:
            os.close(go)
            os.read(begin, 1)  # ends when the last writer is gone
            spin(turns)
            os._exit(0)
    os.close(go)
    for _ in range(os.cpu_count()):
        os.wait()


main()
