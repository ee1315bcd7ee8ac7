# SPDX-License-Identifier: GPL-2.0-only
"""Locks and barriers (c/sync.c): waiters that sleep, that spin shortly first, that only spin."""

from . import programs
from .workload import Metric, Size, Workload, number

RATE = {"mutex": "sections/s", "barrier": "rounds/s"}


def parse(output: str) -> dict[str, float]:
    """The rate."""
    return {"rate": number(r"^rate ([\d.e+-]+)$", output)}


def operations(output: str) -> float:
    """What was done: what the rate is of."""
    return number(r"^done (\d+)$", output)


def workloads(size: Size) -> list[Workload]:
    """Every kind, with a thread per vCPU, at least two: one alone has nobody to wait for."""
    return [
        Workload(
            f"{what}-{how}",
            f"{programs.path('sync')} {what} {how} {max(2, size.vcpus)} {size.seconds:g}",
            (Metric("rate", unit, "higher"),),
            parse,
            needs=("gcc",),
            prepare=lambda: programs.build("sync"),
            operations=operations,
        )
        for what, unit in RATE.items()
        for how in ("block", "adaptive", "spin")
    ]
