# SPDX-License-Identifier: GPL-2.0-only
"""Redis and redis-benchmark over the loopback: one thread serves clients that wait for answers."""

import re

from .workload import Metric, ParseError, Size, Workload

METRICS = (
    Metric("rate", "requests/s", "higher"),
    Metric("p99", "ms", "lower"),
    Metric("p50", "ms", "lower"),
)
FOLDER = "/dev/shm/vaware-redis"
PORT = 16379
CLIENTS = 32
# In memory alone: what is compared is scheduling.
OPTIONS = f"--port {PORT} --bind 127.0.0.1 --save '' --appendonly no --dir {FOLDER}"
COLUMNS = ("rps", "p99_latency_ms", "p50_latency_ms")


def parse(output: str) -> dict[str, float]:
    """The rate and latencies of redis-benchmark --csv."""
    lines = [re.findall(r'"([^"]*)"', line) for line in output.splitlines()]
    for header, values in zip(lines, lines[1:], strict=False):
        if header[:1] == ["test"] and len(header) == len(values):
            told = dict(zip(header, values, strict=True))
            try:
                rate, p99, p50 = (float(told[column]) for column in COLUMNS)
            except (KeyError, ValueError):
                break
            return {"rate": rate, "p99": p99, "p50": p50}
    raise ParseError("redis-benchmark told no rates and latencies; is it version 6.2 or newer?")


def workloads(size: Size) -> list[Workload]:
    """SET from 32 connections."""
    requests = size.amount(2_000, 60_000)
    tool = f"-h 127.0.0.1 -p {PORT}"
    wait = (
        f'for i in $(seq 100); do [ "$(redis-cli {tool} ping 2>/dev/null)" = PONG ] && break; '
        "sleep 0.1; done"
    )
    command = (
        f"redis-server {OPTIONS} >/dev/null & server=$!; {wait}; "
        f"redis-benchmark {tool} -t set -c {CLIENTS} -n {requests} --csv; kill $server && wait"
    )
    return [
        Workload(
            "redis",
            command,
            METRICS,
            parse,
            needs=("redis-server", "redis-benchmark", "redis-cli"),
            setup=f"mkdir -p {FOLDER}",
            operations=lambda output: requests,
        )
    ]
