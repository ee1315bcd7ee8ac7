# SPDX-License-Identifier: GPL-2.0-only
"""Gleaner, ATC 2014: few vCPUs for work that blocks much, and no halts between its steps."""

from .loads import database, named
from .model import Paper, Row, Scenario

PART = ("retain", "gather")
POLLING = ("eevdf+haltpoll",)  # keeps vCPUs from halting
NATIVE = "this VM against no VM, without Gleaner"
OF = "Gleaner against none"
ANOTHER = "+bursty:1/1"  # a VM that blocks as much


def _dedup(where: str, vcpus: int, paper: float) -> Row:
    return Row("Table 1", f"dedup as stages, {where}, {vcpus}", named("stages"), (paper,), NATIVE)


def _scenario(name: str, shape: str, rows: tuple[Row, ...], vcpus: int | None = 16) -> Scenario:
    return Scenario(f"gleaner-{name}", shape, rows, vcpus=vcpus, part=PART, beside=POLLING)


def _vms(count: int) -> Scenario:
    """Figure 9: so many VMs with the same work."""
    rows = (
        Row("Figure 9", f"dedup as stages, {count} VMs", named("stages"), (2.6,), f"mean, {OF}"),
        Row("Figure 9", f"20 clients, {count} VMs", database(20), (1.45,), f"mean, {OF}"),
    )
    return _scenario(f"fig9-{count}", "honest" + ANOTHER * (count - 1), rows)


PAPER = Paper(
    "gleaner",
    "Gleaner (ATC 2014)",
    (
        _scenario(
            "table1-4",
            "pin:0/1/2/3",
            (_dedup("a core per vCPU", 4, 7.1 / 13.5),),
            vcpus=4,
        ),
        _scenario(
            "table1-16",
            "honest",
            (_dedup("a core per vCPU", 16, 7.6 / 46.9),),
            vcpus=None,
        ),
        _scenario(
            "table1-shared4",
            "honest+hog",
            (_dedup("beside matmul", 4, 7.1 / 65.1),),
            vcpus=4,
        ),
        _scenario(
            "fig7",
            "honest+hog",
            (
                _dedup("beside matmul", 16, 7.6 / 577.2),
                Row("Figure 7", "dedup as stages", named("stages"), (16.0,), f"the most, {OF}"),
                Row(
                    "Figure 7",
                    "streamcluster as barrier-adaptive",
                    named("barrier-adaptive"),
                    (2.03,),
                    f"mean, {OF}",
                ),
                Row("Figure 7", "mutex-block", named("mutex-block"), (2.03,), f"mean, {OF}"),
            ),
        ),
        _scenario(
            "fig8",
            f"honest{ANOTHER}",
            (
                Row("Figure 8", "16 clients of a database", database(16), (), OF),
                Row("Figure 8", "20 clients", database(20), (1.69,), f"the most, {OF}"),
                Row("Figure 8", "48 clients", database(48), (), OF),
            ),
        ),
        _vms(3),
        _vms(5),
    ),
)
