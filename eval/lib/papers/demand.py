# SPDX-License-Identifier: GPL-2.0-only
"""Demand-based coordinated scheduling, ASPLOS 2013: the host runs a vCPU that is interrupted."""

from .loads import named
from .model import Paper, Row, Scenario

HOST = "the host decides to run a vCPU at once, or to let one go on; a guest can tell it neither"
SINGLE = 4  # VMs of one vCPU, each with the share of the VM of eight
WEIGHTS = ",".join(["12"] * 8)  # eight vCPUs have together what one competitor has

PAPER = Paper(
    "demand",
    "Demand-based coordinated scheduling (ASPLOS 2013)",
    (
        Scenario(
            "demand-fig8",
            f"floating:8+weight:{WEIGHTS}+bursty:1000/0.001*{SINGLE}",
            tuple(
                Row(
                    "Figure 8",
                    f"{stands_for} as {what}, beside {SINGLE} VMs of one vCPU",
                    named(what),
                    (0.99, 1.89),
                    "the scheduler against CFS",
                )
                for stands_for, what in (
                    ("dedup", "stages"),
                    ("streamcluster", "barrier-adaptive"),
                    ("facesim", "mutex-block"),
                )
            ),
            vcpus=8,
            limit=HOST,
        ),
        Scenario(
            "demand-fig10",
            "floating:8+bursty:5/1*8",
            (
                Row(
                    "Figure 10",
                    "streamcluster as barrier-adaptive, beside bodytrack",
                    named("barrier-adaptive"),
                    (1.08,),
                    "Resched-Co against none",
                ),
                Row(
                    "Figure 10",
                    "the same as barrier-block",
                    named("barrier-block"),
                    (1.027,),
                    "Resched-Co against none",
                ),
            ),
            vcpus=8,
            limit=HOST,
        ),
    ),
)
