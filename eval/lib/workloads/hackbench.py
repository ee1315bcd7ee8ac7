# SPDX-License-Identifier: GPL-2.0-only
"""hackbench: groups of tasks that talk over pipes; wake-ups and little else."""

from .workload import Metric, Size, Workload, number


def parse(output: str) -> dict[str, float]:
    """hackbench's "Time:"."""
    return {"time": number(r"^Time: ([\d.]+)", output)}


def workloads(size: Size) -> list[Workload]:
    """Processes and pipes: four groups."""
    return [
        Workload(
            "hackbench",
            f"hackbench -g 4 --pipe -l {size.amount(75, 2000)}",
            (Metric("time", "s", "lower"),),
            parse,
            needs=("hackbench",),
        )
    ]
