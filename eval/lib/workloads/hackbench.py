# SPDX-License-Identifier: GPL-2.0-only
"""hackbench: groups of tasks that talk over pipes; wake-ups and little else."""

from .workload import Metric, Size, Workload, number

PAIRS_OF_A_GROUP = 20 * 20  # each of 20 senders writes to each of 20 receivers


def parse(output: str) -> dict[str, float]:
    """hackbench's "Time:"."""
    return {"time": number(r"^Time: ([\d.]+)", output)}


def workloads(size: Size) -> list[Workload]:
    """Processes and pipes: four groups."""
    messages = size.amount(75, 2000)
    return [
        Workload(
            "hackbench",
            f"hackbench -g 4 --pipe -l {messages}",
            (Metric("time", "s", "lower"),),
            parse,
            needs=("hackbench",),
            operations=lambda output: 4 * PAIRS_OF_A_GROUP * messages,
        )
    ]
