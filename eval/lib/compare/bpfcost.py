# SPDX-License-Identifier: GPL-2.0-only
"""What the callbacks of sched_ext schedulers cost: time per call in BPF during hackbench.

The kernel's own accounting (kernel.bpf_stats_enabled), which itself adds a little to each call; BPF
timers are not in it.
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from vlab import LabError, Vm
from workloads import Workload

from . import arms
from .arms import Arm, ArmFailed

READER = Path(__file__).parent / "guest" / "bpf_stats.py"
CALLBACKS = (
    "select_cpu",
    "enqueue",
    "dequeue",
    "dispatch",
    "runnable",
    "running",
    "stopping",
    "quiescent",
    "tick",
    "yield",
    "update_idle",
    "set_weight",
    "set_cpumask",
    "enable",
    "disable",
    "init_task",
    "exit_task",
    "cpu_release",
    "cpu_acquire",
)
NAME_LENGTH = 15  # what the kernel keeps of a program's name
EXIT_FAILED = 1


@dataclass(frozen=True)
class Cost:
    """What one callback has cost in one run."""

    calls: int
    run_time_ns: int


def callback(program: str) -> str:
    """The callback that a program is, by the end of its name; the name itself if none fits.

    A name of full length may have lost its end: "vaware_select_c" is select_cpu.
    """
    for name in CALLBACKS:
        if program == name or program.endswith("_" + name):
            return name
    if len(program) == NAME_LENGTH:
        for name in CALLBACKS:
            if any(program.endswith("_" + name[:kept]) for kept in range(3, len(name))):
                return name
    return program


def measure(
    vm: Vm, compared: list[Arm], workload: Workload, rounds: int
) -> dict[str, list[dict[str, Cost]]]:
    """Run the workload `rounds` times under each arm, in turns; costs by arm, run and callback.

    Raises LabError if a scheduler or the workload fails (1), or the VM is gone (75).
    """
    vm.run("echo 1 > /proc/sys/kernel/bpf_stats_enabled")
    costs = defaultdict(list)
    for number in range(rounds):
        for arm in compared if number % 2 == 0 else compared[::-1]:
            try:
                with arms.in_charge(vm, arm) as charge:
                    before = _read(vm)
                    result = vm.run(workload.command, workload.timeout_s)
                    after = _read(vm)
                    charge.check()
            except ArmFailed as why:
                raise LabError(f"{arm.name}: {why}\n{why.output}", EXIT_FAILED) from None
            if result.rc:
                raise LabError(f"{workload.name} failed: {result.output.strip()}", EXIT_FAILED)
            costs[arm.name].append(_difference(before, after))
    return costs


def table(costs: dict[str, list[dict[str, Cost]]]) -> str:
    """Per arm and callback: time per call (median and range over the runs), calls, time per run."""
    lines = [
        f"{'arm':<16} {'callback':<16} {'ns/call':>8} {'range':>13} {'calls':>9} {'ms/run':>8}"
    ]
    for arm, runs in costs.items():
        for name in sorted({name for run in runs for name in run}, key=_rank):
            called = [run[name] for run in runs if name in run and run[name].calls]
            if not called:
                continue
            each_ns = [cost.run_time_ns / cost.calls for cost in called]
            spread = f"{min(each_ns):.0f}-{max(each_ns):.0f}"
            lines.append(
                f"{arm:<16} {name:<16} {median(each_ns):>8.0f} {spread:>13} "
                f"{median(cost.calls for cost in called):>9.0f} "
                f"{median(cost.run_time_ns for cost in called) / 1e6:>8.1f}"
            )
    return "\n".join(lines)


def _rank(name: str) -> tuple[int, str]:
    return (CALLBACKS.index(name) if name in CALLBACKS else len(CALLBACKS), name)


def _read(vm: Vm) -> dict[str, Cost]:
    told = vm.run(f"/usr/bin/python3 {READER}")
    if told.rc:
        raise LabError(f"the guest tells no BPF costs: {told.output.strip()}", EXIT_FAILED)
    costs = defaultdict(lambda: Cost(0, 0))
    for program in json.loads(told.output):
        sum_so_far = costs[callback(program["name"])]
        costs[callback(program["name"])] = Cost(
            sum_so_far.calls + program["run_cnt"],
            sum_so_far.run_time_ns + program["run_time_ns"],
        )
    return dict(costs)


def _difference(before: dict[str, Cost], after: dict[str, Cost]) -> dict[str, Cost]:
    nothing = Cost(0, 0)
    return {
        name: Cost(
            cost.calls - before.get(name, nothing).calls,
            cost.run_time_ns - before.get(name, nothing).run_time_ns,
        )
        for name, cost in after.items()
    }
