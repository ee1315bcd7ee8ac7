# SPDX-License-Identifier: GPL-2.0-only
"""The workloads of eval/compare: one kind a file, each with what it needs and how it is read.

    from workloads import catalogue, Size
    catalogue(Size())["requests"].command

A new kind is a file with `workloads(size)`, and its place in KINDS.
"""

from . import (
    channels,
    cyclictest,
    fork_join,
    hackbench,
    make,
    messages,
    nginx,
    parallel,
    perf_bench,
    pipeline,
    postgresql,
    redis,
    requests,
    rt_app,
    shootdown,
    sockets,
    stress_ng,
    sync,
    sysbench,
)
from .workload import Metric, ParseError, Size, Workload, from_command

KINDS = (
    cyclictest,
    requests,
    messages,
    rt_app,
    hackbench,
    perf_bench,
    sockets,
    stress_ng,
    sync,
    parallel,
    pipeline,
    shootdown,
    make,
    channels,
    fork_join,
    sysbench,
    postgresql,
    redis,
    nginx,
)

# What is in which suite; "full" has all. `quick` is for a first look: a latency, a throughput, a
# burst of wake-ups. `honest` is what must be level with EEVDF where vCPUs are whole cores: what
# synchronizes, hands over, waits or forks a lot, timers beside computation, and that alone.
SUITES = {
    "quick": ("requests", "parallel-dynamic", "hackbench"),
    "table": (
        *("requests", "hackbench", "perf-pipe", "barrier-block", "parallel-dynamic"),
        "sysbench-cpu-4",
    ),
    "base": (
        *("hackbench", "sysbench-cpu-1", "sysbench-cpu-2", "sysbench-cpu-4", "sysbench-threads"),
        *("cyclictest-idle", "cyclictest-hogs", "stress-ng-switch"),
    ),
    "main": (
        *("cyclictest-hogs", "requests", "requests-best-effort", "rt-app", "hackbench"),
        *("perf-pipe", "tcp-ping-pong", "tcp-stream"),
        *("mutex-block", "barrier-block", "barrier-adaptive", "parallel-static"),
        *("parallel-dynamic", "pbzip2", "postgresql", "nginx"),
    ),
    "honest": (
        *("perf-pipe", "hackbench", "barrier-block", "messages", "parallel-dynamic", "requests"),
        *("sysbench-cpu-4", "sysbench-threads", "stress-ng-switch"),
        *("make", "go-ping-pong", "jvm-fork-join", "cyclictest-hogs"),
    ),
}


def catalogue(size: Size) -> dict[str, Workload]:
    """All workloads by name, in their order."""
    return {workload.name: workload for kind in KINDS for workload in kind.workloads(size)}


def suite(name: str, size: Size) -> list[Workload]:
    """The workloads of a suite. Raises KeyError."""
    every = catalogue(size)
    return list(every.values()) if name == "full" else [every[each] for each in SUITES[name]]


__all__ = [
    "KINDS",
    "SUITES",
    "Metric",
    "ParseError",
    "Size",
    "Workload",
    "catalogue",
    "from_command",
    "suite",
]
