# SPDX-License-Identifier: GPL-2.0-only
"""Threads of one process that return memory to the kernel all the time (c/shootdown.c)."""

from . import programs
from .sync import operations, parse
from .workload import Metric, Size, Workload

WORK_US = 100


def workloads(size: Size) -> list[Workload]:
    """A thread per vCPU, at least two: one alone has no other vCPU to wait for."""
    return [
        Workload(
            "shootdown",
            f"{programs.path('shootdown')} {max(2, size.vcpus)} {WORK_US} {size.seconds:g}",
            (Metric("rate", "pages/s", "higher"),),
            parse,
            note=f"each thread returns a page after every {WORK_US} us of work",
            needs=("gcc",),
            prepare=lambda: programs.build("shootdown"),
            operations=operations,
        )
    ]
