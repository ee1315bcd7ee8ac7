# SPDX-License-Identifier: GPL-2.0-only
"""Message threads that wake workers (c/messages.c): schbench's question, in a program of our own.

Distributions have no package of schbench. This is its model (a message thread, a worker for each
vCPU, wake-up latencies and requests per second), not its code: its workers also sleep within a
request and multiply matrices under a lock for each vCPU. Numbers of the two do not compare.
"""

from . import programs
from .requests import latencies
from .workload import Metric, Size, Workload, number, percentiles

PERCENTILES = (50, 99)
THINK_US = 200
WORKERS_OF_A_MESSAGE_THREAD = 8
METRICS = (
    Metric("rate", "requests/s", "higher"),
    Metric("p99", "us", "lower"),
    Metric("p50", "us", "lower"),
)


def parse(output: str) -> dict[str, float]:
    """The rate and percentiles of wake-ups. Raises ParseError if they are too few to tell them."""
    known = percentiles(latencies(output), PERCENTILES, "wake-ups")
    return {"rate": number(r'"rate": ([\d.e+-]+)', output)} | known


def operations(output: str) -> float:
    """Requests."""
    return number(r'"requests": (\d+)', output)


def workloads(size: Size) -> list[Workload]:
    """A worker for each vCPU, at least two; a message thread for each eight."""
    bosses = max(1, size.vcpus // WORKERS_OF_A_MESSAGE_THREAD)
    workers = max(2, size.vcpus // bosses)
    run = f"{bosses} {workers} {THINK_US} {size.seconds:g}"
    return [
        Workload(
            "messages",
            f"{programs.path('messages')} {run}",
            METRICS,
            parse,
            note=f"as schbench: {bosses} x {workers} workers that think for {THINK_US} us",
            needs=("gcc",),
            prepare=lambda: programs.build("messages"),
            operations=operations,
        )
    ]
