# SPDX-License-Identifier: GPL-2.0-only
"""cyclictest: how late a sleeping task runs after its timer, on idle and on busy vCPUs."""

import json
from collections import Counter

from . import spinners
from .workload import Metric, ParseError, Size, Workload, percentile

PERCENTILES = (50, 95, 99)
METRICS = (
    Metric("p99", "us", "lower"),
    Metric("avg", "us", "lower"),
    Metric("p50", "us", "lower"),
    Metric("p95", "us", "lower"),
    Metric("max", "us", "lower"),
)
ONE_METRICS = (
    Metric("avg", "us", "lower"),
    Metric("p50", "us", "lower"),
    Metric("p99", "us", "lower"),
    Metric("spun", "turns/s", "higher"),
)
HOGS = (1, 2, 4, 8)
SPUN = "spun, in seconds and turns:"
NOTE = "SCHED_OTHER, and threads that may run anywhere: they belong to the scheduler under test"
# cyclictest pins each thread to a vCPU by itself, where no scheduler could do anything for it.
UNPIN = (
    '& cycles=$!; while kill -0 $cycles && [ "$(ls /proc/$cycles/task | wc -l)" -le {threads} ]; '
    "do sleep 0.1; done; "
    'taskset -acp "0-$(($(nproc) - 1))" $cycles >/dev/null && wait $cycles'
)


def parse(output: str) -> dict[str, float]:
    """Average, percentiles and maximum of the latencies, in microseconds, over all threads."""
    counts = latencies(output)
    threads = _threads(output)
    cycles = sum(thread["cycles"] for thread in threads)
    total_us = sum(thread["avg"] * thread["cycles"] for thread in threads)
    values = {f"p{percent}": percentile(counts, percent) for percent in PERCENTILES}
    return values | {"avg": total_us / cycles, "max": max(counts)}


def latencies(output: str) -> dict[float, int]:
    """How often each latency was seen, over all threads.

    What is longer than the histogram reaches counts as the maximum. Raises ParseError.
    """
    threads = _threads(output)
    counts: Counter[float] = Counter()
    try:
        for thread in threads:
            for latency_us, count in thread["histogram"].items():
                counts[float(latency_us)] += count
        cycles = sum(thread["cycles"] for thread in threads)
        longest_us = float(max(thread["max"] for thread in threads))
    except (ValueError, KeyError, TypeError, AttributeError) as why:
        raise ParseError(f"cyclictest gave no results that can be read ({why!r})") from None
    if not cycles:
        raise ParseError("cyclictest has measured nothing")
    counts[longest_us] += cycles - counts.total()
    return dict(counts)


def _threads(output: str) -> list[dict]:
    try:
        found, _ = json.JSONDecoder().raw_decode(output, output.index("{"))
        return list(found["thread"].values())
    except (ValueError, KeyError, TypeError, AttributeError) as why:
        raise ParseError(f"cyclictest gave no results that can be read ({why!r})") from None


def parse_one(output: str) -> dict[str, float]:
    """The same of one thread, and the work that the spinners beside it did."""
    said, _, spun = output.partition(SPUN)
    try:
        work = sum(task["turns"] for task in spinners.parse(spun)) / float(spun.split()[0])
    except (ValueError, IndexError, KeyError, TypeError) as why:
        raise ParseError(f"the spinners gave no results that can be read ({why!r})") from None
    values = parse(said) | {"spun": work}
    return {metric.name: values[metric.name] for metric in ONE_METRICS}


def _cycles(threads: str, seconds: int) -> str:
    # --default-system: or it would keep every vCPU from idling, which is no property of the
    # scheduler. JSON has only the buckets in use of the histogram's 100,000 (100 ms).
    return (
        f"cyclictest --policy=other --default-system -q -t {threads} -i 4000 -D {seconds} "
        f"-h 100000 --histfile=/dev/null --json=/proc/self/fd/1 {UNPIN.format(threads=threads)}"
    )


def _one(name: str, hogs: int, seconds: int, note: str) -> Workload:
    """One thread beside so many spinners."""
    spin_s = seconds + 2
    return Workload(
        name,
        f"{spinners.command(spin_s, *['any'] * hogs)} >/tmp/spun & spun=$!; sleep 1; "
        f"{_cycles('1', seconds)}; wait $spun && echo {SPUN} {spin_s} && cat /tmp/spun",
        ONE_METRICS,
        parse_one,
        note=note,
        needs=("cyclictest",),
        latencies=latencies,
    )


def workloads(size: Size) -> list[Workload]:
    """A thread per vCPU, alone and beside a computation on each; one thread beside some."""
    seconds = max(1, round(size.seconds * 1.5))
    command = _cycles('"$(nproc)"', seconds)
    # Fails if the hogs are not there to be ended.
    beside_hogs = (
        'stress-ng --cpu "$(nproc)" -q --temp-path /tmp & hogs=$!; sleep 1; '
        f"{command}; kill $hogs && wait"
    )
    return [
        Workload(
            name, text, METRICS, parse, note=NOTE, needs=("cyclictest", *needs), latencies=latencies
        )
        for name, text, needs in (
            ("cyclictest-idle", command, ()),
            ("cyclictest-hogs", beside_hogs, ("stress-ng",)),
        )
    ] + [
        _one("cyclictest-one", size.vcpus, seconds, "one thread beside a spinner for each vCPU"),
        *(
            _one(f"cyclictest-one-{hogs}", hogs, seconds, f"one thread beside {hogs} spinners")
            for hogs in HOGS
        ),
    ]
