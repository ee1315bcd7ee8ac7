# SPDX-License-Identifier: GPL-2.0-only
"""Asks in lab VMs by virtual time: one for each seed, first under EEVDF, then under scx_vaware."""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from compare.arms import OURS, Arm, ArmFailed, in_charge
from vlab import LabError, Vm, tool, virtual_time
from vlab.clock import VIRTUAL
from vlab.errors import EX_FAILED
from workloads import cgroups

from .cases import COSTS, DEPTHS, HONEST, LIMITED, SHARES, SHARES_S, VCPUS, Limit, Shares

BUILT = tool.built("release/scx_vaware")
IN_GUEST = "/tmp/scx_vaware"
COMPARED = (Arm("eevdf"), Arm(OURS, (IN_GUEST, "--listen", "off")))
ARMS = tuple(arm.name for arm in COMPARED)
MEMORY_MIB = 4096  # a thousand tasks
BOOTED_S = 10  # the kernel tests itself for a while after boot
APART_S = 0.1  # from seed to seed: on a host without chance all would see the same
SETTLE_S = 5  # until the first look at all vCPUs is over
LIMIT_S = 600  # of the guest's time
TIME = re.compile(r"(?:Time|Total time): ([\d.]+)")
Say = Callable[[str], None]


@dataclass(frozen=True)
class Setting:
    """In what VMs: a kernel (None: the lab's), seeds, and ns of an instruction."""

    kernel: str | None
    seeds: Sequence[int]
    ns_per_instruction: int


def measure(setting: Setting, parts: Sequence[str], say: Say) -> Iterator[dict]:
    """Yield a record for each case, arm and seed, of the parts "shares", "limits" and "costs".

    Raises LabError as Vm does, and 1 for what fails in the guest.
    """
    for seed in setting.seeds:
        virtual = virtual_time.Options(seed, setting.ns_per_instruction)
        with Vm(setting.kernel, VCPUS, MEMORY_MIB, HONEST, clock=VIRTUAL, virtual=virtual) as vm:
            vm.sleep(BOOTED_S + seed * APART_S)
            vm.put(BUILT, IN_GUEST)
            for arm in COMPARED:
                with _loaded(vm, arm):
                    for record in _measure_in(vm, parts):
                        say(f"seed {seed}, {arm.name}: {record['part']}, {record['case']}")
                        yield {"seed": seed, "arm": arm.name, "kernel": vm.kernel.release} | record


@contextmanager
def _loaded(vm: Vm, arm: Arm) -> Iterator[None]:
    """Within, the arm has the tasks. Raises LabError (1) if it does not get or keep them."""
    vm.shape(HONEST)
    try:
        with in_charge(vm, arm, SETTLE_S) as charge:
            yield
            charge.check()
    except ArmFailed as why:
        raise LabError(f"{arm.name}: {why}; it said: {why.output}", EX_FAILED) from None


def _measure_in(vm: Vm, parts: Sequence[str]) -> Iterator[dict]:
    alone = _got(vm, HONEST, 2, "alone:spin=1,pin=0")
    turns_per_vcpu_s = alone.turns_per_s["alone"] / alone.vcpus["alone"]
    if "shares" in parts:
        for shares in SHARES:
            yield _shares(vm, shares)
    if "limits" in parts:
        for limit in LIMITED:
            yield _limit(vm, limit, turns_per_vcpu_s)
    if "costs" in parts:
        vm.shape(HONEST)
        for name in COSTS:
            for depth in DEPTHS:
                yield {"part": "costs", "case": name, "depth": depth, "s": _cost(vm, name, depth)}


def _got(vm: Vm, shape: str, seconds: float, *groups: str) -> cgroups.Got:
    vm.shape(shape)
    return cgroups.parse(vm.output_of(cgroups.command(seconds, *groups), LIMIT_S))


def _shares(vm: Vm, case: Shares) -> dict:
    got = _got(vm, case.shape, SHARES_S, *case.groups)
    done = sum(got.turns_per_s[path] for path in case.due)
    parts = {path: got.turns_per_s[path] / done for path in case.due}
    return {"part": "shares", "case": case.name, "got": parts, "waited_s": got.waited_s}


def _limit(vm: Vm, case: Limit, turns_per_vcpu_s: float) -> dict:
    got = _got(vm, case.shape, case.seconds, case.group)
    return {
        "part": "limits",
        "case": case.name,
        "shape": case.shape,
        "percent": case.percent,
        "vcpus": got.vcpus["a"],
        "work": got.turns_per_s["a"] / turns_per_vcpu_s,
        "waited_s": got.waited_s,
    }


def _cost(vm: Vm, name: str, depth: int) -> float:
    """The time that a workload takes so many cgroups deep, each of which has a weight."""
    folder, down, up = "/sys/fs/cgroup", [], []
    for level in range(depth):
        down += [f"echo +cpu >{folder}/cgroup.subtree_control", f"mkdir {folder}/d{level}"]
        folder += f"/d{level}"
        down.append(f"echo 200 >{folder}/cpu.weight")
        up.insert(0, f"rmdir {folder}")
    inside = f"echo $$ >{folder}/cgroup.procs; exec {COSTS[name]}"
    steps = ["set -e", *down, f"sh -c {shlex.quote(inside)}", *up]
    found = TIME.search(output := vm.output_of("\n".join(steps), LIMIT_S))
    if not found:
        raise LabError(f"{name} told no time: {output.strip()}", EX_FAILED)
    return float(found[1])
