# SPDX-License-Identifier: GPL-2.0-only
"""TCP over the loopback: a ping-pong (sockperf, as netperf's TCP_RR) and a stream (iperf3)."""

import json

from .workload import Metric, ParseError, Size, Workload, number

PORT = 5199
# A server of its own for each run, and none left behind. In a VM it may take seconds to start.
WITH_SERVER = (
    "ip link set lo up 2>/dev/null; {server} >/dev/null 2>&1 & server=$!; "
    f"timeout 20 sh -c 'until ss -Htln sport = :{PORT} | grep -q .; do sleep 0.1; done'; "
    "{client}; kill $server 2>/dev/null; wait"
)


def parse_ping_pong(output: str) -> dict[str, float]:
    """Half of a round trip, on average."""
    return {"latency": number(r"Summary: Latency is ([\d.]+) usec", output)}


def ping_pong_operations(output: str) -> float:
    """Round trips."""
    return number(r"Total Run\].* ReceivedMessages=(\d+)", output)


def parse_stream(output: str) -> dict[str, float]:
    """How fast it arrived. Raises ParseError."""
    return {"rate": _received(output)["bits_per_second"] / 1e6}


def _received(output: str) -> dict[str, float]:
    try:
        found, _ = json.JSONDecoder().raw_decode(output, output.index("{"))
        told = found["end"]["sum_received"]
        return {name: float(told[name]) for name in ("bytes", "bits_per_second")}
    except (ValueError, KeyError, TypeError) as why:
        raise ParseError(f"iperf3 gave no results that can be read ({why!r})") from None


def stream_operations(output: str) -> float:
    """Megabits. Raises ParseError."""
    return _received(output)["bytes"] * 8 / 1e6


def workloads(size: Size) -> list[Workload]:
    """One connection each."""
    seconds = max(1, round(size.seconds))
    # The stream's server closes first, so its port is not free for a minute.
    again = "--uc-reuseaddr"
    at = f"--tcp -i 127.0.0.1 -p {PORT}"
    return [
        Workload(
            "tcp-ping-pong",
            WITH_SERVER.format(
                server=f"sockperf server {at} {again}",
                client=f"sockperf ping-pong {at} -t {seconds}",
            ),
            (Metric("latency", "us", "lower"),),
            parse_ping_pong,
            needs=("sockperf", "ip", "ss"),
            operations=ping_pong_operations,
        ),
        Workload(
            "tcp-stream",
            WITH_SERVER.format(
                server=f"iperf3 -s -1 -p {PORT}",
                client=f"iperf3 -c 127.0.0.1 -p {PORT} -t {seconds} --json",
            ),
            (Metric("rate", "Mbit/s", "higher"),),
            parse_stream,
            needs=("iperf3", "ip", "ss"),
            operations=stream_operations,
        ),
    ]
