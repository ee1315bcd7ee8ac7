# SPDX-License-Identifier: GPL-2.0-only
"""What a workload is: a command, the numbers read from its output, and what it needs to run."""

import math
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

# A latency percentile is given only where at least 10 samples lie beyond it.
SAMPLES_BEYOND = 10
NAME_CHARACTERS = 40  # of a command
WALL_MARK = "vaware-wall-seconds"
_TIMED, _TIMED_END = f"TIMEFORMAT='{WALL_MARK} %R'; time (\n", "\n)"


class ParseError(Exception):
    """The output of a workload does not hold its numbers; the message says which."""


@dataclass(frozen=True)
class Metric:
    """A number of a workload: its unit, and whether "higher" or "lower" is better."""

    name: str
    unit: str
    better: str


CORE_INSTRUCTIONS_PER_NS = 4  # of a core of today: two a cycle or so, at 2 to 3 GHz


@dataclass(frozen=True)
class Size:
    """How much a workload does: it lasts about `seconds` with `vcpus` vCPUs on `cores` cores.

    Emulation (`accel` "tcg" or "icount") makes switches and wake-ups 20 to 30 times as dear as on
    hardware, and computation 4 times: workloads of a fixed amount of work do less there.
    """

    accel: str = "tcg"
    vcpus: int = 4
    cores: int = 2
    seconds: float = 4.0
    ns_per_instruction: float = 1.0  # of a virtual clock

    @property
    def is_emulated(self) -> bool:
        """True where the VM's processors are programs."""
        return self.accel in ("tcg", "icount")

    def amount(self, per_second_tcg: float, per_second: float) -> int:
        """A fixed amount of work that takes about `seconds`; at least 1."""
        rate = per_second_tcg if self.is_emulated else per_second
        if self.accel == "virtual":
            rate = per_second / (CORE_INSTRUCTIONS_PER_NS * self.ns_per_instruction)
        return max(1, round(rate * self.seconds))


@dataclass(frozen=True)
class Workload:
    """A shell command and how to read its output.

    `parse` gives a value for each of `metrics`, or raises ParseError. The first metric is the one
    that the verdict is about. `latencies` gives a distribution, {upper bound: count}, in the unit
    of the first metric. `prepare` makes what the command needs, on the machine that eval runs on,
    before anything is measured; `setup` is a shell command that is run once in each VM.
    `operations` gives the units of work that were done, for what each costs. `needs` names
    programs. `note` goes into the report.
    """

    name: str
    command: str
    metrics: tuple[Metric, ...]
    parse: Callable[[str], dict[str, float]]
    timeout_s: float = 60.0
    note: str = ""
    needs: tuple[str, ...] = ()
    prepare: Callable[[], None] | None = None
    setup: str = ""
    latencies: Callable[[str], dict[float, int]] | None = None
    operations: Callable[[str], float] | None = None

    def missing(self) -> list[str]:
        """The programs that it needs and that are not on this machine."""
        path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
        return [name for name in self.needs if not shutil.which(name, path=path)]


def number(pattern: str, output: str) -> float:
    """The number that the first group of `pattern` finds in the output. Raises ParseError."""
    found = re.search(pattern, output, re.MULTILINE)
    if not found:
        raise ParseError(f"'{pattern}' is not in the output")
    try:
        value = float(found[1])
    except (IndexError, TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ParseError(f"'{pattern}' found '{found[0]}', which gives no number")
    return value


def percentile(counts: Mapping[float, int], percent: float) -> float:
    """The smallest latency that `percent` of all samples do not exceed; `counts` is not empty."""
    ordered = sorted(counts)
    ranks = accumulate(counts[latency] for latency in ordered)
    needed = sum(counts.values()) * percent / 100
    return next(value for value, rank in zip(ordered, ranks, strict=True) if rank >= needed)


def is_known(samples: int, percent: float) -> bool:
    """True if so many samples tell this percentile: enough of them lie beyond it."""
    # round: 100 - 99.9 is not exactly a tenth
    return round(samples * (100 - percent) / 100, 6) >= SAMPLES_BEYOND


def percentiles(
    counts: Mapping[float, int], percents: Sequence[int], what: str
) -> dict[str, float]:
    """These percentiles of `what`, by name. Raises ParseError if there are too few to tell them."""
    samples = sum(counts.values())
    if not is_known(samples, max(percents)):
        raise ParseError(
            f"{samples} {what} are too few for percentile {max(percents)}; let it run longer"
        )
    return {f"p{percent}": percentile(counts, percent) for percent in percents}


def from_command(
    command: str, pattern: str | None = None, better: str = "lower", timeout_s: float = 120
) -> Workload:
    """A workload of the user's: any shell command.

    Its metric is its wall time, or what group 1 of `pattern` finds in its output. Raises ValueError
    with a sentence if the pattern is not usable.
    """
    name = _name(command)
    if pattern is None:
        time = Metric("time", "s", better)
        return Workload(name, timed(command), (time,), parse_time, timeout_s)
    try:
        groups = re.compile(pattern).groups
    except re.error as why:
        raise ValueError(f"'{pattern}' is no regular expression ({why}); correct it") from None
    if groups < 1:
        raise ValueError(f"'{pattern}' has no group; put the number into parentheses")
    value = Metric("value", "", better)
    return Workload(
        name, command, (value,), lambda output: {"value": number(pattern, output)}, timeout_s
    )


def timed(command: str) -> str:
    """The command, which then tells its wall time for parse_time."""
    # In a subshell, so that an `exit` of the command does not lose its time.
    return f"{_TIMED}{command}{_TIMED_END}"


def as_given(name: str, command: str) -> str | None:
    """The command that made a workload `from_command`, as it was given; None for any other one."""
    given = command.removeprefix(_TIMED).removesuffix(_TIMED_END)
    return given if _name(given) == name else None


def _name(command: str) -> str:
    return command.strip().split("\n")[0][:NAME_CHARACTERS]


def parse_time(output: str) -> dict[str, float]:
    """The wall time of a command that is `timed`, in seconds. Raises ParseError."""
    found = re.findall(rf"^{WALL_MARK} ([\d.]+)$", output, re.MULTILINE)
    if not found:
        raise ParseError("its wall time is not in the output")
    return {"time": float(found[-1])}
