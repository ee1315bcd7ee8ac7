# SPDX-License-Identifier: GPL-2.0-only
"""Data-parallel loops (c/parallel.c, OpenMP): shares fixed beforehand, or taken as threads go."""

from . import programs
from .sync import operations, parse
from .workload import Metric, Size, Workload


def workloads(size: Size) -> list[Workload]:
    """Static and dynamic with sleeping waiters; static with spinning ones; dynamic beside idle.

    A thread per vCPU, at least two. What a piece costs is not known beside other work.
    """
    run = f"{max(2, size.vcpus)} {size.seconds:g}"
    binary = programs.path("parallel")
    hogs = 'chrt --idle 0 stress-ng --cpu "$(nproc)" -q --temp-path /tmp & hogs=$!; '
    commands = {
        "parallel-static": (f"OMP_WAIT_POLICY=passive {binary} static {run}", ()),
        "parallel-dynamic": (f"OMP_WAIT_POLICY=passive {binary} dynamic {run}", ()),
        "parallel-static-spin": (f"OMP_WAIT_POLICY=active {binary} static {run}", ()),
        "parallel-best-effort": (
            f"{hogs} OMP_WAIT_POLICY=passive {binary} dynamic {run}; kill $hogs && wait",
            ("stress-ng", "chrt"),
        ),
    }
    return [
        Workload(
            name,
            command,
            (Metric("rate", "pieces/s", "higher"),),
            parse,
            needs=("gcc", *needs),
            prepare=lambda: programs.build("parallel"),
            operations=None if hogs in command else operations,
        )
        for name, (command, needs) in commands.items()
    ]
