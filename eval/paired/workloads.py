# SPDX-License-Identifier: GPL-2.0-only
"""The workloads: what runs in the guest, and the numbers that are read from its output.

Each lasts about 4 s in an emulated VM (TCG), where switches and wake-ups cost 20 to 30 times
as much as on hardware; the amount of work of those that are not timed depends on that.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

PERCENTILES = (50, 95, 99)


class ParseError(Exception):
    """The output of a workload does not hold its numbers; the message says which."""


@dataclass(frozen=True)
class Metric:
    """A number of a workload: its unit, and whether "higher" or "lower" is better."""

    name: str
    unit: str
    better: str


@dataclass(frozen=True)
class Workload:
    """A shell command for the guest and how to read its output.

    `parse` gives a value for each of `metrics`, or raises ParseError. The first metric is the one
    whose noise decides when there are pairs enough. `note` goes into the report.
    """

    name: str
    command: str
    metrics: tuple[Metric, ...]
    parse: Callable[[str], dict[str, float]]
    timeout_s: float = 60.0
    note: str = ""


def number(pattern: str, output: str) -> float:
    """The number that the first group of `pattern` finds in the output. Raises ParseError."""
    found = re.search(pattern, output, re.MULTILINE)
    if not found:
        raise ParseError(f"'{pattern}' is not in the output")
    try:
        return float(found[1])
    except (IndexError, TypeError, ValueError):
        raise ParseError(f"'{pattern}' found '{found[0]}', which gives no number") from None


def parse_hackbench(output: str) -> dict[str, float]:
    """hackbench's "Time:"."""
    return {"time": number(r"^Time: ([\d.]+)", output)}


def parse_sysbench_cpu(output: str) -> dict[str, float]:
    """sysbench cpu's rate, and its slow events: computations that were stopped on their way."""
    return {
        "rate": number(r"events per second: +([\d.]+)", output),
        "p95": number(r"95th percentile: +([\d.]+)", output),
    }


def parse_sysbench_threads(output: str) -> dict[str, float]:
    """sysbench threads tells events and time, and no rate."""
    events = number(r"total number of events: +(\d+)", output)
    time_s = number(r"total time: +([\d.]+)s", output)
    return {"rate": events / time_s, "p95": number(r"95th percentile: +([\d.]+)", output)}


def parse_stress_ng(output: str) -> dict[str, float]:
    """stress-ng's operations per second of real time: the fifth number of its metrics line."""
    return {"rate": number(r"metrc:.*\] switch +\d+(?: +[\d.]+){3} +([\d.]+)", output)}


def parse_cyclictest(output: str) -> dict[str, float]:
    """Average, percentiles and maximum of the latencies, in microseconds, over all threads.

    Reads cyclictest's JSON. What is longer than its histogram reaches counts as the maximum.
    """
    try:
        found, _ = json.JSONDecoder().raw_decode(output, output.index("{"))
        threads = list(found["thread"].values())
        cycles = sum(thread["cycles"] for thread in threads)
        total_us = sum(thread["avg"] * thread["cycles"] for thread in threads)
        longest_us = float(max(thread["max"] for thread in threads))
        counts: Counter[float] = Counter()
        for thread in threads:
            for latency_us, count in thread["histogram"].items():
                counts[float(latency_us)] += count
    except (ValueError, KeyError, TypeError, AttributeError) as why:
        raise ParseError(f"cyclictest gave no results that can be read ({why!r})") from None
    if not cycles:
        raise ParseError("cyclictest has measured nothing")
    counts[longest_us] += cycles - counts.total()
    values = {"avg": total_us / cycles, "max": longest_us}
    for percent in PERCENTILES:
        values[f"p{percent}"] = _percentile(counts, percent)
    return values


def _percentile(counts: Counter[float], percent: int) -> float:
    """The smallest latency that `percent` of all do not exceed."""
    ranks = accumulate(counts[latency_us] for latency_us in sorted(counts))
    needed = counts.total() * percent / 100
    return next(us for us, rank in zip(sorted(counts), ranks, strict=True) if rank >= needed)


_RATE = Metric("rate", "events/s", "higher")
_P95 = Metric("p95", "ms", "lower")

_CYCLICTEST = (
    Metric("p99", "us", "lower"),
    Metric("avg", "us", "lower"),
    Metric("p50", "us", "lower"),
    Metric("p95", "us", "lower"),
    Metric("max", "us", "lower"),
)

# --default-system: or it would keep every vCPU from idling, which is no property of the scheduler.
# JSON has only the buckets in use of the histogram's 100,000 (100 ms); printing all takes long.
_CYCLICTEST_COMMAND = (
    'cyclictest --policy=other --default-system -q -t "$(nproc)" -i 4000 -D 6'
    " -h 100000 --histfile=/dev/null --json=/proc/self/fd/1"
)
_CYCLICTEST_NOTE = "SCHED_OTHER: its threads belong to the scheduler under test"


def _cyclictest(name: str, command: str) -> Workload:
    return Workload(name, command, _CYCLICTEST, parse_cyclictest, note=_CYCLICTEST_NOTE)


def _sysbench_cpu(threads: int) -> Workload:
    return Workload(
        f"sysbench-cpu-{threads}",
        f"sysbench cpu --threads={threads} --time=4 run",
        (_RATE, _P95),
        parse_sysbench_cpu,
    )


def base_suite(accel: str) -> dict[str, Workload]:
    """The workloads by name, in their order, for a VM under "tcg" or "kvm"."""
    hackbench_loops = 300 if accel == "tcg" else 8000
    workloads = [
        Workload(
            "hackbench",
            f"hackbench -g 4 --pipe -l {hackbench_loops}",
            (Metric("time", "s", "lower"),),
            parse_hackbench,
        ),
        _sysbench_cpu(1),
        _sysbench_cpu(2),
        _sysbench_cpu(4),
        Workload(
            "sysbench-threads",
            "sysbench threads --threads=8 --time=4 run",
            (_RATE, _P95),
            parse_sysbench_threads,
        ),
        _cyclictest("cyclictest-idle", _CYCLICTEST_COMMAND),
        _cyclictest(
            "cyclictest-hogs",
            # Fails if the hogs are not there to be ended.
            'stress-ng --cpu "$(nproc)" -q --temp-path /tmp & hogs=$!; sleep 1; '
            f"{_CYCLICTEST_COMMAND}; kill $hogs && wait",
        ),
        Workload(
            "stress-ng-switch",
            "stress-ng --switch 4 -t 4 --metrics-brief --temp-path /tmp",
            (Metric("rate", "switches/s", "higher"),),
            parse_stress_ng,
        ),
    ]
    return {workload.name: workload for workload in workloads}


def from_command(command: str, pattern: str, better: str, timeout_s: float) -> Workload:
    """A workload of the user's: any command, and a pattern whose group 1 is the number.

    Raises ValueError with a sentence if the pattern is not usable.
    """
    try:
        groups = re.compile(pattern).groups
    except re.error as why:
        raise ValueError(f"'{pattern}' is no regular expression ({why}); correct it") from None
    if groups < 1:
        raise ValueError(f"'{pattern}' has no group; put the number into parentheses")
    return Workload(
        "command",
        command,
        (Metric("value", "", better),),
        lambda output: {"value": number(pattern, output)},
        timeout_s,
    )
