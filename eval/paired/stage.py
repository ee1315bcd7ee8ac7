# SPDX-License-Identifier: GPL-2.0-only
"""Where the arms run: this machine, or lab VMs of one shape, one for each kernel."""

import contextlib
import os
import shlex
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from lab import LabError, Vm, host, presets, shapes, truth
from lab.errors import EX_NOT_UP, EX_USAGE
from workloads import Size

from . import arms, local
from .arms import Arm, Guest

LOCAL_SHAPE = "this machine"


class Stage:
    """The place of a comparison; a context manager.

    `facts` is what goes into every record: the conditions, and the versions of what takes part.
    """

    facts: dict

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def size(self, seconds: float) -> Size:
        """How large workloads should be here."""
        raise NotImplementedError

    def guests(self) -> list[Guest]:
        """All machines that workloads run on."""
        raise NotImplementedError

    @contextlib.contextmanager
    def take(self, arm: Arm) -> Iterator[Guest]:
        """The machine for this arm, shaped while the context lasts."""
        raise NotImplementedError
        yield

    @contextlib.contextmanager
    def watch(self, guest: Guest) -> Iterator[dict]:
        """Fill a dict with what was taken from the machine while the context lasts."""
        before, found = guest.truth(), {}
        yield found
        during = truth.difference(before, guest.truth())
        found["run_ns"] = [vcpu.run_ns for vcpu in during]
        found["run_delay_ns"] = [vcpu.delay_ns for vcpu in during]


class LocalStage(Stage):
    """This machine, as its hypervisor shapes it."""

    def __init__(self, compared: list[Arm]):
        if other := [arm.name for arm in compared if arm.kernel]:
            raise LabError(
                f"{other[0]} needs a kernel of its own, and this machine has one; add --lab",
                EX_USAGE,
            )
        local.require()
        self.machine = local.ThisMachine()
        tells = local.tells_steal()
        self.facts = {
            "place": "local",
            "kernel": os.uname().release,
            "shape": LOCAL_SHAPE,
            "vcpus": len(os.sched_getaffinity(0)),
            "accel": local.hypervisor(),
            "stolen_source": "/proc/stat" if tells else "none: no stolen time was ever told",
            "versions": _versions(compared),
            "machine": machine(),
        }

    def size(self, seconds: float) -> Size:
        vcpus = self.facts["vcpus"]
        return Size(self.facts["accel"], vcpus, vcpus, seconds)

    def guests(self) -> list[Guest]:
        return [self.machine]

    @contextlib.contextmanager
    def take(self, arm: Arm) -> Iterator[Guest]:
        yield self.machine


class LabStage(Stage):
    """VMs of one shape, one for each kernel that an arm asks for; a VM is shaped in its turn only.

    `shape` is one of lab.shapes or the name of a preset, whose number of vCPUs holds if `vcpus` is
    None. `steal_clock`: KVM's is imitated in the guests' memory.
    """

    def __init__(
        self,
        compared: list[Arm],
        shape: str,
        kernel: str | None = None,
        vcpus: int | None = None,
        memory_mib: int = 3072,
        steal_clock: bool = False,
    ):
        self._steal_clock = steal_clock
        self.preset = presets.find(shape, vcpus)
        self._kernel = kernel
        self._memory_mib = memory_mib
        self._vms: dict[str, Vm] = {}
        self._neighbours: list[Vm] = []
        self._stack = contextlib.ExitStack()
        self._binaries = sorted({arm.command[0] for arm in compared if arm.command})
        self._wanted = list(dict.fromkeys(arm.kernel for arm in compared))
        self.facts = {
            "place": "lab",
            "shape": f"{shape}, imitated steal clock" if steal_clock else shape,
            "vcpus": self.preset.vcpus,
            "memory_mib": memory_mib,
            "stolen_source": "run_delay of the vCPU threads on the host",
            "versions": {"qemu": host.qemu().version} | _versions(compared),
            "machine": machine(),
        }

    def __enter__(self) -> "LabStage":
        with self._stack:
            for name in self._wanted:
                self._vms[name] = self._boot(name or self._kernel)
            self._neighbours = [self._boot(self._kernel) for _ in self.preset.neighbours]
            self._stack = self._stack.pop_all()
        first = self._vms[self._wanted[0]]
        self.facts |= {"kernel": first.kernel.release, "accel": first.accel}
        self.facts["kernels"] = {name: vm.kernel.release for name, vm in self._vms.items() if name}
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _boot(self, kernel: str | None) -> Vm:
        vm = self._stack.enter_context(
            Vm(
                kernel,
                self.preset.vcpus,
                self._memory_mib,
                shapes.UNSHAPED,
                steal_clock=self._steal_clock,
            )
        )
        for binary in self._binaries:  # the guest does not see the host's /tmp
            name = shlex.quote(binary)
            if vm.run(f"test -x {name} || {{ mkdir -p $(dirname {name}); false; }}").rc:
                vm.put(binary, binary)
        return vm

    def size(self, seconds: float) -> Size:
        cores = min(self.preset.vcpus, len(shapes.host_cores()))
        accel = next(iter(self._vms.values())).accel if self._vms else "tcg"
        return Size(accel, self.preset.vcpus, cores, seconds)

    def guests(self) -> list[Guest]:
        return list(self._vms.values())

    @contextlib.contextmanager
    def take(self, arm: Arm) -> Iterator[Guest]:
        vm = self._vms[arm.kernel]
        vm.shape(self.preset.phases[0].shape)
        try:
            yield vm
        finally:
            with contextlib.suppress(LabError):  # the VM is gone, and its competitors with it
                vm.shape(shapes.UNSHAPED)

    @contextlib.contextmanager
    def watch(self, guest: Guest) -> Iterator[dict]:
        """Also walks through the phases of the shape, and has the neighbours work."""
        before = [vm.truth() for vm in self._neighbours]
        with (
            _phases(guest, self.preset.phases),
            _work(self._neighbours, self.preset.neighbours),
            super().watch(guest) as found,
        ):
            yield found
        if self._neighbours:
            # What the others got meanwhile: a gain at their cost is none.
            after = [vm.truth() for vm in self._neighbours]
            found["neighbours_run_ns"] = [
                sum(vcpu.run_ns for vcpu in truth.difference(*both))
                for both in zip(before, after, strict=True)
            ]


@contextlib.contextmanager
def _phases(vm: Vm, phases: tuple[presets.Phase, ...]) -> Iterator[None]:
    """Change the shape as time passes, from the first phase on, over and over.

    Raises LabError (75) at the end if a change failed: the run was not under this shape.
    """
    if len(phases) == 1:
        yield
        return
    vm.shape(phases[0].shape)
    over, failures = threading.Event(), []

    def walk() -> None:
        number = 0
        try:
            while not over.wait(phases[number % len(phases)].seconds):
                number += 1
                vm.shape(phases[number % len(phases)].shape)
        except (LabError, OSError) as why:
            failures.append(why)

    walker = threading.Thread(target=walk, daemon=True)
    walker.start()
    try:
        yield
    finally:
        over.set()
        walker.join()
    if failures:
        raise LabError(
            f"the shape could not be changed during the run ({failures[0]}); start again with "
            "--resume",
            EX_NOT_UP,
        )


@contextlib.contextmanager
def _work(vms: list[Vm], commands: tuple[str, ...]) -> Iterator[None]:
    """Have each VM run its command, over and over."""
    handles = [
        vm.spawn(f"while :; do {command}; done >/dev/null 2>&1")
        for vm, command in zip(vms, commands, strict=True)
    ]
    try:
        yield
    finally:
        for handle in handles:
            with contextlib.suppress(LabError):
                handle.kill(9)
                handle.wait(5)


def machine() -> dict:
    """The machine that eval runs on, in words."""
    cpus = Path("/proc/cpuinfo").read_text().split("\n")
    model = next((li.partition(":")[2].strip() for li in cpus if li.startswith("model name")), "")
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": os.uname().release,
        "load_1min": os.getloadavg()[0],
        "booted_s": round(time.clock_gettime(time.CLOCK_BOOTTIME)),
    }


def _versions(compared: list[Arm]) -> dict[str, str]:
    told = subprocess.run(
        ["git", "-C", Path(__file__).parent, "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
    )
    own = {"repository": told.stdout.strip()}
    return own | {arm.name: arms.version(arm) for arm in compared if arm.command}
