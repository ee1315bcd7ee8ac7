# SPDX-License-Identifier: GPL-2.0-only
"""stress-ng --switch: pairs of processes that hand a byte to each other."""

from .workload import Metric, Size, Workload, number


def parse(output: str) -> dict[str, float]:
    """Operations per second of real time: the fifth number of the metrics line."""
    return {"rate": number(r"metrc:.*\] switch +\d+(?: +[\d.]+){3} +([\d.]+)", output)}


def operations(output: str) -> float:
    """Switches: the first number of the metrics line."""
    return number(r"metrc:.*\] switch +(\d+)(?: +[\d.]+){4}", output)


def workloads(size: Size) -> list[Workload]:
    """Four pairs."""
    seconds = max(1, round(size.seconds))
    return [
        Workload(
            "stress-ng-switch",
            f"stress-ng --switch 4 -t {seconds} --metrics-brief --temp-path /tmp",
            (Metric("rate", "switches/s", "higher"),),
            parse,
            needs=("stress-ng",),
            operations=operations,
        )
    ]
