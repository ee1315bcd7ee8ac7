# SPDX-License-Identifier: GPL-2.0-only
"""What the callbacks of sched_ext schedulers cost: instructions per call, and per task that runs.

In virtual time at 1 ns an instruction, where the kernel's own accounting of a program's run time
(kernel.bpf_stats_enabled) counts instructions, and the costs of VM exits where there are any. It
adds a little to each call itself. BPF timers are not in it.
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from vlab import LabError, Vm
from vlab.errors import EX_FAILED
from workloads import Workload

from . import arms
from .arms import Arm, ArmFailed
from .stage import LabStage

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


@dataclass(frozen=True)
class Cost:
    """What one callback has cost in one run."""

    calls: int
    instructions: int


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
    place: LabStage, compared: list[Arm], workload: Workload, rounds: int
) -> dict[str, list[dict[str, Cost]]]:
    """Run the workload by `rounds` seeds under each arm; costs by arm, run and callback.

    Raises LabError if a scheduler or the workload fails (1), or the VM is gone (75).
    """
    costs = defaultdict(list)
    for seed in range(1, rounds + 1):
        for arm in compared:
            place.ready(arm, seed)
            try:
                with place.take(arm) as vm, arms.in_charge(vm, arm) as charge:
                    vm.run("echo 1 > /proc/sys/kernel/bpf_stats_enabled")
                    before = read(vm)
                    result = vm.run(workload.command, workload.timeout_s)
                    after = read(vm)
                    charge.check()
            except ArmFailed as why:
                raise LabError(f"{arm.name}: {why}\n{why.output}", EX_FAILED) from None
            if result.rc:
                raise LabError(f"{workload.name} failed: {result.output.strip()}", EX_FAILED)
            costs[arm.name].append(difference(before, after))
    return costs


def table(costs: dict[str, list[dict[str, Cost]]]) -> str:
    """Per arm and callback: instructions per call and per task that runs, and the sum of those."""
    lines = [
        f"{'arm':<16} {'callback':<12} {'per call':>8} {'range':>13} {'calls':>9} {'per run':>8}"
    ]
    for arm, runs in costs.items():
        for name in sorted({name for run in runs for name in run}, key=_rank):
            called = [run[name] for run in runs if name in run]
            each = [cost.instructions / cost.calls for cost in called]
            spread = f"{min(each):.0f}-{max(each):.0f}"
            lines.append(
                f"{arm:<16} {name:<12} {median(each):>8.0f} {spread:>13} "
                f"{median(cost.calls for cost in called):>9.0f} {per_run(runs, [name]):>8.0f}"
            )
        whole = per_run(runs, list(CALLBACKS))
        lines.append(f"{arm:<16} {'all':<12} {'':>8} {'':>13} {'':>9} {whole:>8.0f} {_bar(whole)}")
    return "\n".join(lines)


def per_run(runs: list[dict[str, Cost]], names: list[str]) -> float:
    """What these callbacks take in instructions for each time that a task begins to run."""
    nothing = Cost(0, 0)
    return median(
        sum(run.get(name, nothing).instructions for name in names)
        / max(1, run.get("running", nothing).calls)
        for run in runs
    )


def _bar(instructions: float) -> str:
    return "#" * round(instructions / 100)


def _rank(name: str) -> tuple[int, str]:
    return (CALLBACKS.index(name) if name in CALLBACKS else len(CALLBACKS), name)


def read(vm: Vm) -> dict[int, tuple[str, Cost]]:
    """The callback that each loaded program is, and its cost so far, by the program's id."""
    told = vm.run(f"/usr/bin/python3 {READER}")
    if told.rc:
        raise LabError(f"the guest tells no BPF costs: {told.output.strip()}", EX_FAILED)
    return {
        program["id"]: (
            callback(program["name"]),
            Cost(program["run_cnt"], program["run_time_ns"]),
        )
        for program in json.loads(told.output)
    }


def difference(
    before: dict[int, tuple[str, Cost]], after: dict[int, tuple[str, Cost]]
) -> dict[str, Cost]:
    """What each callback has cost meanwhile. Programs of a scheduler that is gone may linger."""
    costs = defaultdict(lambda: Cost(0, 0))
    for number, (name, cost) in after.items():
        _, was = before.get(number, (name, Cost(0, 0)))
        so_far = costs[name]
        costs[name] = Cost(
            so_far.calls + cost.calls - was.calls,
            so_far.instructions + cost.instructions - was.instructions,
        )
    return {name: cost for name, cost in costs.items() if cost.calls}
