#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""What a task that computes gets beside a chain of forks: fork_chain.py VCPU SECONDS.

Each link of the chain computes for less than a slice, forks, and ends. Prints which part of the
vCPU the other task had.
"""

import ctypes
import mmap
import os
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
LINK_S = 0.002
RAN_S, STOP = range(2)  # what is shared


def hog(shared: memoryview) -> None:
    """Compute for ever, and tell how much."""
    while True:
        shared[RAN_S] = time.thread_time()


def link(shared: memoryview) -> None:
    """Go on as one's own child, again and again."""
    while not shared[STOP]:
        until = time.thread_time() + LINK_S
        while time.thread_time() < until:
            pass
        if os.fork():
            break
    os._exit(0)


def measured(vcpu: int, seconds: float) -> float:
    """The part of the vCPU that the hog had."""
    shared = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("d")
    os.sched_setaffinity(0, {vcpu})
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a link ended
    pids = []
    for does in (hog, link):
        pids.append(os.fork())
        if not pids[-1]:
            does(shared)
    before, began_s = shared[RAN_S], time.monotonic()
    time.sleep(seconds)
    part = (shared[RAN_S] - before) / (time.monotonic() - began_s)
    shared[STOP] = 1
    os.kill(pids[0], signal.SIGKILL)
    return part


if __name__ == "__main__":
    print(measured(int(sys.argv[1]), float(sys.argv[2])))
