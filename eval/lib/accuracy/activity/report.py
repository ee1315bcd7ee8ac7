# SPDX-License-Identifier: GPL-2.0-only
"""Records to text: what was found, per shape, load and finder, as median and range of the runs."""

import statistics
from collections.abc import Callable, Iterable

HEAD = (
    f"{'shape':<28} {'vCPUs':>5} {'load':<10} {'finder':<8} {'runs':>4}  "
    f"{'>=2 ms found %':<20} {'>=1 ms found %':<20} {'late wakes %':<16} "
    f"{'false/s':<18} {'false >=1 ms/s':<18} {'emulator/s':<16} "
    f"{'stolen error %':<22} {'gaps sum error %':<22} {'emulator %':<18} {'stolen %':>8}"
)


def table(records: Iterable[dict]) -> str:
    """One line per shape, load and finder, in the order in which they first came."""
    groups: dict[tuple, list[dict]] = {}
    for record in records:
        key = record["shape"], record["vcpus"], record["load"], record["finder"]
        groups.setdefault(key, []).append(record)
    return "\n".join([HEAD, *(_line(key, group) for key, group in groups.items())])


def found_percent(record: dict, kind: str) -> float | None:
    """Share of the true periods of a kind that were found; None if there were none."""
    count = record[kind]
    return 100 * record[f"{kind}_found"] / count if count else None


def counted_error_percent(record: dict) -> float | None:
    """By how much the scheduler's sum of stolen time differs from what the host took.

    None below 1 % of the time, or if no scheduler ran.
    """
    if _stolen_percent(record) < 1 or not record.get("counted_true_ns"):
        return None
    return 100 * (record["counted_ns"] / record["counted_true_ns"] - 1)


def gaps_error_percent(record: dict) -> float | None:
    """The same of all logged gaps together."""
    if _stolen_percent(record) < 1:
        return None
    return 100 * (record["found_ns"] / record["stolen_ns"] - 1)


def emulator_percent(record: dict) -> float | None:
    """The emulator's own waits within the gaps, in % of what the host took; None below 1 %."""
    if _stolen_percent(record) < 1:
        return None
    return 100 * record["emulator_ns"] / record["stolen_ns"]


def _stolen_percent(record: dict) -> float:
    return 100 * record["stolen_ns"] / (record["seconds"] * 1e9 * record["vcpus"])


def _line(key: tuple, records: list[dict]) -> str:
    shape, vcpus, load, finder = key

    def over(value: Callable[[dict], float | None], digits: int = 1) -> str:
        return _spread([v for r in records if (v := value(r)) is not None], digits)

    return (
        f"{shape:<28} {vcpus:>5} {load:<10} {finder:<8} {len(records):>4}  "
        f"{over(lambda r: found_percent(r, 'preempted_2ms')):<20} "
        f"{over(lambda r: found_percent(r, 'preempted_1ms')):<20} "
        f"{over(lambda r: found_percent(r, 'woken_1ms')):<16} "
        f"{over(lambda r: r['false'] / r['seconds'], 2):<18} "
        f"{over(lambda r: r['false_1ms'] / r['seconds'], 2):<18} "
        f"{over(lambda r: r['emulator'] / r['seconds'], 2):<16} "
        f"{over(counted_error_percent):<22} "
        f"{over(gaps_error_percent):<22} "
        f"{over(emulator_percent):<18} "
        f"{statistics.median(map(_stolen_percent, records)):>8.1f}"
    )


def _spread(values: list[float], digits: int) -> str:
    if not values:
        return "-"
    middle = f"{statistics.median(values):.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):.{digits}f}..{max(values):.{digits}f})"
