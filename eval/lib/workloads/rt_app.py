# SPDX-License-Identifier: GPL-2.0-only
"""rt-app: periodic threads that compute a little after each timer, beside some that do much."""

import json
from collections import Counter

from .workload import Metric, ParseError, Size, Workload, percentiles

PERCENTILES = (50, 95, 99)
METRICS = (
    Metric("p99", "us", "lower"),
    Metric("p50", "us", "lower"),
    Metric("p95", "us", "lower"),
)
LIGHT_RUN_US, LIGHT_PERIOD_US = 300, 6_000
HEAVY_RUN_US, HEAVY_PERIOD_US = 10_000, 16_000
WAKE_UP_COLUMN = 10  # wu_lat, of a log's eleven
BUFFER_MB = 1  # a log that is written as it comes stays empty in version 1.0


def latencies(output: str) -> dict[float, int]:
    """How often each wake-up latency was seen, in microseconds. Raises ParseError."""
    rows = [line.split() for line in output.splitlines()]
    try:
        counts = Counter(float(row[WAKE_UP_COLUMN]) for row in rows if row and row[0].isdigit())
    except (IndexError, ValueError):
        raise ParseError("rt-app's log lacks the column wu_lat; is it version 1.0?") from None
    if not counts:
        raise ParseError("rt-app has logged nothing")
    return dict(counts)


def parse(output: str) -> dict[str, float]:
    """Percentiles. Raises ParseError if there are too few wake-ups to tell them."""
    return percentiles(latencies(output), PERCENTILES, "wake-ups")


def workloads(size: Size) -> list[Workload]:
    """A light thread per vCPU, which is measured, and a heavy one per core."""
    rate = size.vcpus * 1e6 / LIGHT_PERIOD_US
    tasks = {
        "light": _periodic(size.vcpus, LIGHT_RUN_US, LIGHT_PERIOD_US),
        "heavy": _periodic(size.cores, HEAVY_RUN_US, HEAVY_PERIOD_US),
    }
    script = {
        "tasks": tasks,
        "global": {
            "duration": max(2, round(size.seconds), round(1100 / rate) + 1),
            "calibration": 100,  # of no use to "runtime", but asked for otherwise at each start
            "default_policy": "SCHED_OTHER",
            "logdir": "./",
            "log_basename": "log",
            "log_size": BUFFER_MB,
            "gnuplot": False,
        },
    }
    command = (
        "folder=$(mktemp -d) && cd $folder && "
        f"echo '{json.dumps(script)}' > script.json && rt-app script.json > rt-app.out 2>&1 "
        "|| { cat rt-app.out; exit 1; }; "
        "cat log-light-*.log; cd / && rm -r $folder"
    )
    note = f"{LIGHT_RUN_US} us of work every {LIGHT_PERIOD_US} us"
    return [
        Workload(
            "rt-app", command, METRICS, parse, note=note, needs=("rt-app",), latencies=latencies
        )
    ]


def _periodic(threads: int, run_us: int, period_us: int) -> dict:
    timer = {"ref": "unique", "period": period_us}
    return {"instance": threads, "loop": -1, "runtime": run_us, "timer": timer}
