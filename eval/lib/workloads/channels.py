# SPDX-License-Identifier: GPL-2.0-only
"""Goroutines that pass a number to and fro over channels (go/channels.go): one pair, and many."""

from . import programs
from .sync import operations, parse
from .workload import Metric, Size, Workload


def workloads(size: Size) -> list[Workload]:
    """One pair; and a pair for each vCPU, at least two. Go gets a processor for each vCPU."""
    pairs = {"go-ping-pong": 1, "go-ping-pong-many": max(2, size.vcpus)}
    return [
        Workload(
            name,
            f"{programs.path('channels')} {count} {size.vcpus} {size.seconds:g}",
            (Metric("rate", "round trips/s", "higher"),),
            parse,
            note=f"pairs: {count}, GOMAXPROCS: {size.vcpus}",
            needs=("go",),
            prepare=lambda: programs.build_go("channels"),
            operations=operations,
        )
        for name, count in pairs.items()
    ]
