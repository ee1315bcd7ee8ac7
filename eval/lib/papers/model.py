# SPDX-License-Identifier: GPL-2.0-only
"""What an experiment of a paper is here."""

from collections.abc import Callable
from dataclasses import dataclass

from workloads import Size, Workload

Load = Callable[[Size], Workload]


@dataclass(frozen=True)
class Row:
    """One figure of a paper, and the workload that stands for it.

    `paper`: how many times as good, above 1 is better: one number, or the lowest and the highest;
    none if the paper shows it as a chart only. `of`: what that is relative to. `metric`: of the
    workload; "" is its first.
    """

    figure: str
    what: str
    load: Load
    paper: tuple[float, ...]
    of: str
    metric: str = ""


@dataclass(frozen=True)
class Scenario:
    """A VM, and the rows that are measured in it.

    `part`: the policies that have the place of the paper's mechanism. They are judged by
    scx_vaware against itself without them. `beside`: more arms. `limit`: why the paper's gain
    cannot show, or what is missing for it. `seconds`: a run lasts at least so long.
    """

    name: str
    shape: str
    rows: tuple[Row, ...]
    vcpus: int | None = None
    part: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    limit: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Unshown:
    """A figure that has no scenario, and why."""

    figure: str
    paper: str
    why: str


@dataclass(frozen=True)
class Paper:
    """A paper's experiments; `key` begins the names of its scenarios."""

    key: str
    title: str
    scenarios: tuple[Scenario, ...]
    unshown: tuple[Unshown, ...] = ()
