# SPDX-License-Identifier: GPL-2.0-only
"""sysbench: computation with fewer, as many and more threads than cores; a contended mutex."""

from .workload import Metric, ParseError, Size, Workload, number

METRICS = (Metric("rate", "events/s", "higher"), Metric("p95", "ms", "lower"))


def parse_cpu(output: str) -> dict[str, float]:
    """sysbench cpu's rate, and its slow events: computations that were stopped on their way."""
    return {
        "rate": number(r"events per second: +([\d.]+)", output),
        "p95": number(r"95th percentile: +([\d.]+)", output),
    }


def parse_threads(output: str) -> dict[str, float]:
    """sysbench threads tells events and time, and no rate."""
    time_s = number(r"total time: +([\d.]+)s", output)
    if not time_s:
        raise ParseError("sysbench has measured no time")
    return {
        "rate": operations(output) / time_s,
        "p95": number(r"95th percentile: +([\d.]+)", output),
    }


def operations(output: str) -> float:
    """Events."""
    return number(r"total number of events: +(\d+)", output)


def workloads(size: Size) -> list[Workload]:
    """cpu with 1, 2 and 4 threads; threads with 8."""
    threads = Workload(
        "sysbench-threads",
        f"sysbench threads --threads=8 {_time(size)} run",
        METRICS,
        parse_threads,
        needs=("sysbench",),
        operations=operations,
    )
    return [*(cpu(size, count) for count in (1, 2, 4)), threads]


def cpu(size: Size, threads: int) -> Workload:
    """So many threads that compute."""
    return Workload(
        f"sysbench-cpu-{threads}",
        f"sysbench cpu --threads={threads} {_time(size)} run",
        METRICS,
        parse_cpu,
        needs=("sysbench",),
        operations=operations,
    )


def _time(size: Size) -> str:
    return f"--time={max(1, round(size.seconds))}"
