# SPDX-License-Identifier: GPL-2.0-only
"""What a comparison is to run: arms, workloads and seeds, their order, and what it may cost."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from workloads import Workload

from . import stats
from .arms import Arm

# Between a scheduler's start and the first workload. By then scx_vaware has probed each vCPU, and
# its probes come at their usual rate.
SETTLE_S = 12.0
# What emulation takes, measured on one core at 500 million instructions a second.
VCPU_SPEED = 0.5  # vCPU-seconds of virtual time per wall second, per ns of an instruction
LOAD_S = 15.0  # to load and unload a scheduler: 5 billion instructions, most of its verifier's
BOOT_S = 18.0


@dataclass(frozen=True)
class Plan:
    """What is compared under one shape. The first arm is the baseline.

    A block is one of `seeds`: each arm has a turn, the baseline two, and each turn runs each
    workload once. A cell, one arm on one workload, gets no more blocks once it is decided.
    `page_cells`: how many cells the page has, all its shapes together. `rehearse`: each turn begins
    with an unrecorded run, for a scheduler that learns from work.
    """

    arms: Sequence[Arm]
    workloads: Sequence[Workload]
    seeds: Sequence[int] = tuple(range(1, stats.DEFAULT_BLOCKS + 1))
    page_cells: int = 0
    margin_ratio: float = stats.MARGIN_RATIO
    settle_s: float = SETTLE_S
    warm_up: bool = True
    rehearse: bool = False

    @property
    def baselines(self) -> tuple[Arm, Arm]:
        """The first arm and its twin: equals, whose difference is the A/A noise."""
        return self.arms[0], self.arms[0].twin()

    @property
    def runs_of_block(self) -> int:
        """At most: cells that are decided get no more."""
        return (len(self.arms) + 1) * len(self.workloads)

    @property
    def runs(self) -> int:
        """Of all blocks, at most."""
        return self.runs_of_block * len(self.seeds)

    def turns(self, seed: int) -> list[Arm]:
        """The arms in the order of a block, the baseline twice: random, and repeatable.

        Arms that share a VM follow each other, so that one VM is up at a time.
        """
        order = _shuffled([*self.baselines, *self.arms[1:]], f"{seed}/arms")
        boots = [arm.boot for arm in order]
        return sorted(order, key=lambda arm: boots.index(arm.boot))

    def workloads_of(self, seed: int) -> list[Workload]:
        """The workloads in the order of a block, the same for all its arms."""
        return _shuffled(self.workloads, f"{seed}/workloads")

    def prepare(self) -> None:
        """Make what the workloads need on this machine, before a VM is booted."""
        for workload in self.workloads:
            if workload.prepare:
                workload.prepare()

    def facts(self) -> dict:
        """What goes into the record of each run."""
        return {
            "baseline": self.arms[0].name,
            "arms": [arm.name for arm in self.arms],
            "settle_s": self.settle_s,
            "rehearsed": self.rehearse,
            "page_cells": self.page_cells,
        }

    def wall_s(self, seconds: float, facts: dict) -> float:
        """Estimated wall time if every block runs: an upper bound, for cells stop early.

        `seconds` is the length of a run, `facts` are those of the stage. Under a clock other than
        "wall" one thread emulates all vCPUs, idle time is free, and each block boots anew.
        """
        is_wall, blocks = facts["clock"] == "wall", len(self.seeds)
        vms = len({arm.boot for arm in self.arms}) * (1 if is_wall else blocks)
        turns = (len(self.arms) + 1) * blocks
        runs = self.runs + turns * self.rehearse
        runs += vms * len(self.workloads) * self.warm_up
        loads = sum(bool(arm.command) for arm in self.turns(self.seeds[0])) * blocks
        fixed_s = loads * LOAD_S + vms * BOOT_S
        if is_wall:
            return fixed_s + runs * seconds + turns * self.settle_s
        slower = facts["vcpus"] / (VCPU_SPEED * facts["ns_per_instruction"])
        return fixed_s + runs * seconds * slower


def _shuffled(things: Sequence, seed: str) -> list:
    found = list(things)
    random.Random(seed).shuffle(found)
    return found


def duration(wall_s: float) -> str:
    """A time for people."""
    minutes = max(1, round(wall_s / 60))
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"


def describe(plans: Sequence[Plan], wall_s: float) -> str:
    """What a page will be, in a line."""
    first = plans[0]
    blocks = len(first.seeds)
    least = min(blocks, stats.MIN_BLOCKS)
    told = duration(wall_s)
    if least < blocks:
        told = f"at least {least}: {duration(wall_s * least / blocks)} to {told}"
    return (
        f"{first.page_cells} cells (shapes: {len(plans)}, workloads: {len(first.workloads)}, "
        f"arms: {len(first.arms)}), blocks: {blocks}, {told}"
    )
