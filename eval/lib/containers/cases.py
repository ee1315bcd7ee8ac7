# SPDX-License-Identifier: GPL-2.0-only
"""What is asked: groups as workloads.cgroups describes them, and what each should get.

A group has more work than it is due, so what it should get is known: its part by weights of what
all did together, or its limit.
"""

from dataclasses import dataclass, field

VCPUS = 4
HONEST = "pin:0/1/2/3"
SHARES_S = 4
LIMITS_S = 4
FEW_S = 30  # of a limit that is soon used up, for a tick more or less not to count
# Of vCPUs 0 and 1 half is another's, in turns as long as a host's slices are.
HALF_STOLEN = "honest+quota:10/20:0-1"
ALL_HALF_STOLEN = "honest+quota:10/20:0-3"
MANY = "spin=1000"
LIMITS = (1, 10, 50, 150, 390)
PERIOD_US = 100_000
DEPTHS = (0, 1, 3, 8)
# Work begins when all have been started: the last ones would wait for long behind the first.
TOGETHER = "together=1"


@dataclass(frozen=True)
class Shares:
    """Groups that share the VM by weights: `due` has the part of each group that has tasks."""

    name: str
    shape: str
    groups: tuple[str, ...]
    due: dict[str, float] = field(hash=False)


@dataclass(frozen=True)
class Limit:
    """One group, whose tasks would use more than `percent` of a vCPU."""

    name: str
    shape: str
    percent: int
    tasks: str

    @property
    def seconds(self) -> int:
        """For how long it is measured. What is held costs an emulated VM nothing."""
        return FEW_S if self.percent <= 10 else LIMITS_S

    @property
    def group(self) -> str:
        """It, for workloads.cgroups. Among many the limit comes last, or they never begin."""
        when = "later." if self.tasks == MANY else ""
        return f"a:{when}max={self.percent * PERIOD_US // 100}/{PERIOD_US},{self.tasks},{TOGETHER}"


def flat(name: str, shape: str, tasks: str, *weights: int) -> Shares:
    """Groups side by side, all with the same tasks."""
    names = [f"g{i}" for i in range(len(weights))]
    groups = (
        f"{each}:weight={w},{tasks},{TOGETHER}" for each, w in zip(names, weights, strict=True)
    )
    due = {each: w / sum(weights) for each, w in zip(names, weights, strict=True)}
    return Shares(name, shape, tuple(groups), due)


def nested(name: str, shape: str, tasks: str, *weights: int) -> Shares:
    """Three levels: on each, one group for each weight; tasks are in the lowest."""
    groups, due = [], {}
    for i, top in enumerate(weights):
        groups.append(f"t{i}:weight={top}")
        for j, middle in enumerate(weights):
            groups.append(f"t{i}/m{j}:weight={middle}")
            for k, low in enumerate(weights):
                path = f"t{i}/m{j}/l{k}"
                groups.append(f"{path}:weight={low},{tasks},{TOGETHER}")
                due[path] = top * middle * low / sum(weights) ** 3
    return Shares(name, shape, tuple(groups), due)


FAR, NEAR = (1, 10, 100, 10_000) * 4, (100, 200, 300, 400) * 4
SHARES = (
    flat("2 groups, 1:10", HONEST, "spin=5", 100, 1000),
    flat("2 groups, 1:100", HONEST, "spin=5", 100, 10_000),
    flat("2 groups, 1:1", HONEST, "spin=5", 100, 100),
    flat("16 groups, 1:10:100:10000", HONEST, "spin=2", *FAR),
    flat("16 groups, 1:2:3:4", HONEST, "spin=2", *NEAR),
    nested("nested three deep, 1:10 each", HONEST, "spin=4", 100, 1000),
    flat("2 groups that sleep half of the time, 1:3", HONEST, "nap=16", 100, 300),
    flat("2 groups, half of the tasks sleep, 1:3", HONEST, "spin=4,nap=8", 100, 300),
    flat("2 groups, 1:3, two vCPUs half stolen", HALF_STOLEN, "spin=5", 100, 300),
    flat(
        "16 groups, 1:2:3:4, two vCPUs half stolen",
        HALF_STOLEN,
        "spin=2",
        *NEAR,
    ),
)
LOADS = {"busy": "spin=6", "bursty": "nap=12", "1000 tasks": MANY}
LIMITED = (
    *(Limit(name, HONEST, percent, LOADS[name]) for name in LOADS for percent in LIMITS),
    # There is no work for more than two.
    *(Limit("busy", ALL_HALF_STOLEN, percent, LOADS["busy"]) for percent in LIMITS[:-1]),
)
COSTS = {
    "hackbench": "hackbench -g 2 --pipe -l 200",
    "pipe": "perf bench sched pipe -l 20000",
}
