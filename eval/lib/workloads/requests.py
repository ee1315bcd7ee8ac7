# SPDX-License-Identifier: GPL-2.0-only
"""An open-loop request server (c/requests.c), alone and beside best-effort work."""

import json

from . import programs
from .workload import Metric, ParseError, Size, Workload, percentiles

PERCENTILES = (50, 95, 99)
SERVICE_US = 500
# Of the cores that the VM can have: what competes takes most of them, and emulation makes the two
# wake-ups of a request as dear as its service.
LOAD_RATIO, LOAD_TCG_RATIO = 0.15, 0.06
REQUESTS_WANTED = 1100  # on average; 1000 tell the 99th percentile
METRICS = (
    Metric("p99", "us", "lower"),
    Metric("p50", "us", "lower"),
    Metric("p95", "us", "lower"),
)
BUILT = ("gcc",)


def latencies(output: str) -> dict[float, int]:
    """Upper bounds of the bins and their counts, in microseconds. Raises ParseError."""
    try:
        found, _ = json.JSONDecoder().raw_decode(output, output.index("{"))
        counts = {float(bound): int(count) for bound, count in found["counts"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as why:
        raise ParseError(f"requests gave no results that can be read ({why!r})") from None
    if not counts:
        raise ParseError("no request was served")
    return counts


def parse(output: str) -> dict[str, float]:
    """Percentiles. Raises ParseError if there are too few requests to tell them."""
    return percentiles(latencies(output), PERCENTILES, "requests")


def operations(output: str) -> float:
    """Requests."""
    return sum(latencies(output).values())


def workloads(size: Size) -> list[Workload]:
    """A light load: alone, and beside SCHED_IDLE work that would fill every vCPU.

    It lasts until there are requests enough for the percentiles, rather than being a heavier load.
    What a request costs is not known beside other work.
    """
    load_ratio = LOAD_TCG_RATIO if size.is_emulated else LOAD_RATIO
    rate = load_ratio * size.cores * 1e6 / SERVICE_US
    seconds = max(size.seconds, REQUESTS_WANTED / rate)
    serve = f"{programs.path('requests')} {rate:.0f} {SERVICE_US} {2 * size.vcpus} {seconds:.4g}"
    beside = (
        'chrt --idle 0 stress-ng --cpu "$(nproc)" -q --temp-path /tmp & hogs=$!; sleep 0.5; '
        f"{serve}; kill $hogs && wait"
    )
    return [
        Workload(
            name,
            command,
            METRICS,
            parse,
            note=f"open loop, {rate:.0f} requests of {SERVICE_US} us per second",
            needs=BUILT + needs,
            prepare=lambda: programs.build("requests"),
            latencies=latencies,
            operations=None if needs else operations,
        )
        for name, command, needs in (
            ("requests", serve, ()),
            ("requests-best-effort", beside, ("stress-ng", "chrt")),
        )
    ]
