# SPDX-License-Identifier: GPL-2.0-only
"""perf bench: two tasks that ping each other, and groups that talk over sockets."""

from .hackbench import PAIRS_OF_A_GROUP
from .workload import Metric, Size, Workload, number


def parse_pipe(output: str) -> dict[str, float]:
    """Microseconds per exchange."""
    return {"time": number(r"([\d.]+) usecs/op", output)}


def pipe_operations(output: str) -> float:
    """Exchanges."""
    return number(r"Executed (\d+) pipe operations", output)


def parse_messaging(output: str) -> dict[str, float]:
    """The total time."""
    return {"time": number(r"Total time: ([\d.]+)", output)}


def workloads(size: Size) -> list[Workload]:
    """sched pipe and sched messaging."""
    messages = size.amount(40, 1500)
    return [
        Workload(
            "perf-pipe",
            f"perf bench sched pipe -l {size.amount(4_000, 150_000)}",
            (Metric("time", "us/op", "lower"),),
            parse_pipe,
            needs=("perf",),
            operations=pipe_operations,
        ),
        Workload(
            "perf-messaging",
            f"perf bench sched messaging -g 4 -l {messages}",
            (Metric("time", "s", "lower"),),
            parse_messaging,
            needs=("perf",),
            operations=lambda output: 4 * PAIRS_OF_A_GROUP * messages,
        ),
    ]
