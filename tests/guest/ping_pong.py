#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Two processes, on vCPUs 0 and 1 and on 2 and 3, wake each other in turns until they are killed.

One vCPU each would not do: the kernel asks no scheduler where a task goes that has no choice.
"""

import os


def take_turns(vcpus: set[int], source: int, target: int) -> None:
    os.sched_setaffinity(0, vcpus)
    while os.read(source, 1):
        os.write(target, b"x")


(to_first, from_second), (to_second, from_first) = os.pipe(), os.pipe()
if os.fork():
    os.write(from_first, b"x")
    take_turns({0, 1}, to_first, from_first)
else:
    take_turns({2, 3}, to_second, from_second)
