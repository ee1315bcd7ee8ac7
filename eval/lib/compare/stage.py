# SPDX-License-Identifier: GPL-2.0-only
"""Where the arms run: this machine, or lab VMs of one shape, one for each kernel."""

import contextlib
import os
import shlex
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import manifest
from vlab import (
    Kernel,
    LabError,
    Vm,
    accel,
    find_kernel,
    host,
    presets,
    shapes,
    truth,
    virtual_time,
    vtime_presets,
)
from vlab.clock import INSTRUCTIONS, VIRTUAL, WALL
from vlab.errors import EX_NOT_UP, EX_USAGE
from workloads import Size

from . import arms, local
from .arms import Arm, Guest

LOCAL_SHAPE = "this machine"
ICOUNT_NS = 4  # of an instruction, as vlab.host starts -icount


def ns_of(clock: str, asked: float | None) -> float | None:
    """How long an instruction takes by this clock; None by the wall's."""
    return {WALL: None, VIRTUAL: asked or 1, INSTRUCTIONS: ICOUNT_NS}[clock]


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

    def ready(self, arm: Arm, seed: int) -> Guest | None:
        """Have the machine for this arm and block up; returns it if it is new."""
        raise NotImplementedError

    def facts_of(self, arm: Arm) -> dict:
        """What goes into the records of this arm besides."""
        return {}

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
        if other := [arm.name for arm in compared if any(arm.boot)]:
            raise LabError(
                f"{other[0]} needs a boot of its own, and this machine is up; add --lab", EX_USAGE
            )
        local.require()
        self.machine = local.ThisMachine()
        self._was_ready = False
        tells = local.tells_steal()
        self.facts = {
            "place": "local",
            "kernel": os.uname().release,
            "paravirt_time": local.paravirt_time(),
            "shape": LOCAL_SHAPE,
            "clock": WALL,
            "ns_per_instruction": None,
            "vcpus": len(os.sched_getaffinity(0)),
            "accel": local.hypervisor(),
            "stolen_source": "/proc/stat" if tells else "none: no stolen time was ever told",
            "versions": versions(compared),
            "machine": machine(),
        }

    def size(self, seconds: float) -> Size:
        vcpus = self.facts["vcpus"]
        return Size(self.facts["accel"], vcpus, vcpus, seconds)

    def ready(self, arm: Arm, seed: int) -> Guest | None:
        self._was_ready, was_ready = True, self._was_ready
        return None if was_ready else self.machine

    @contextlib.contextmanager
    def take(self, arm: Arm) -> Iterator[Guest]:
        yield self.machine


class LabStage(Stage):
    """VMs of one shape, one for each boot that the arms ask for; a VM is shaped in its turn only.

    What is up is made on entry, so a copy of a stage that is not entered is another stage.

    `shape` is one of vlab.shapes or the name of a preset, whose number of vCPUs holds if `vcpus` is
    None. Under a clock other than "wall" one VM is up at a time, and boots with the seed of the
    block: it sets the simulated host's phases. `paravirt` is what the simulated host offers; None:
    all that it can.
    """

    def __init__(
        self,
        compared: list[Arm],
        shape: str,
        kernel: str | None = None,
        vcpus: int | None = None,
        memory_mib: int = 3072,
        clock: str = WALL,
        ns_per_instruction: float | None = None,
        paravirt: tuple[str, ...] | None = None,
    ):
        known = vtime_presets if clock == VIRTUAL else presets
        self.preset = known.find(shape, vcpus)
        if clock == INSTRUCTIONS and (len(self.preset.phases) > 1 or self.preset.neighbours):
            raise LabError(f"'{shape}' needs a host; add --clock virtual or wall", EX_USAGE)
        if paravirt is not None and clock != VIRTUAL:
            raise LabError("only a virtual host can offer less; add --clock virtual", EX_USAGE)
        self._paravirt = virtual_time.PARAVIRT if paravirt is None else paravirt
        virtual_time.Options(paravirt=self._paravirt)  # raises if there is no such thing
        self._options = {"memory_mib": memory_mib, "shape": shapes.UNSHAPED, "clock": clock}
        self._options["vcpus"] = self.preset.vcpus
        self._kernel = kernel
        self._binaries = sorted({arm.command[0] for arm in compared if arm.command})
        self._boots = list(dict.fromkeys(arm.boot for arm in compared))
        self.facts = {
            "place": "lab",
            "shape": shape,
            "vcpus": self.preset.vcpus,
            "memory_mib": memory_mib,
            "clock": clock,
            "ns_per_instruction": ns_of(clock, ns_per_instruction),
            "stolen_source": "the simulated host"
            if clock == VIRTUAL
            else "run_delay of the vCPU threads on the host",
            "versions": {"qemu": host.qemu().version} | versions(compared),
            "machine": machine(),
        }
        if paravirt is not None:
            self.facts["paravirt"] = list(paravirt)

    def __enter__(self) -> "LabStage":
        self._kernels: dict[str, Kernel] = {
            name: find_kernel(name or self._kernel) for name, _ in self._boots
        }
        self._vms: dict[tuple[str, str], Vm] = {}  # by arm.boot
        self._seed = 0
        self._neighbours: list[Vm] = []
        self._stack = contextlib.ExitStack()
        first = self._kernels[self._boots[0][0]]
        accelerator = accel.choose(first, self.facts["clock"])
        self.facts = self.facts | _kernel_facts(first) | {"accel": accelerator}
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ready(self, arm: Arm, seed: int) -> Guest | None:
        is_virtual = self.facts["clock"] == VIRTUAL
        seed = seed if is_virtual else 0
        if arm.boot in self._vms and seed == self._seed:
            return None
        if is_virtual:
            self._stack.close()
            self._vms.clear()
        elif not self._vms:
            self._neighbours = [self._boot(("", ""), 0) for _ in self.preset.neighbours]
        self._seed = seed
        self._vms[arm.boot] = self._boot(arm.boot, seed)
        return self._vms[arm.boot]

    def _boot(self, boot: tuple[str, str], seed: int) -> Vm:
        kernel, append = boot
        options = dict(self._options)
        if self.facts["clock"] == VIRTUAL:
            ns = self.facts["ns_per_instruction"]
            options["virtual"] = virtual_time.Options(seed, ns, self._paravirt)
        vm = Vm(kernel or self._kernel, append=append, **options)
        self._stack.enter_context(vm)
        for binary in self._binaries:  # the guest does not see the host's /tmp
            name = shlex.quote(binary)
            if vm.run(f"test -x {name} || {{ mkdir -p $(dirname {name}); false; }}").rc:
                vm.put(binary, binary)
        return vm

    def size(self, seconds: float) -> Size:
        cores = self.preset.vcpus
        if self.facts["clock"] != VIRTUAL:
            cores = min(cores, len(shapes.host_cores()))
        accel_name = self.facts.get("accel", "tcg")
        ns = self.facts["ns_per_instruction"] or 1
        return Size(accel_name, self.preset.vcpus, cores, seconds, ns)

    @property
    def _shape(self) -> str | tuple[presets.Phase, ...]:
        phases = self.preset.phases
        return phases if self.facts["clock"] == VIRTUAL else phases[0].shape

    def facts_of(self, arm: Arm) -> dict:
        if arm.boot == self._boots[0]:
            return {}
        return {"arm_vm": _kernel_facts(self._kernels[arm.kernel]) | {"append": arm.append}}

    @contextlib.contextmanager
    def take(self, arm: Arm) -> Iterator[Guest]:
        vm = self._vms[arm.boot]
        vm.shape(self._shape)
        try:
            yield vm
        finally:
            with contextlib.suppress(LabError):  # the VM is gone, and its competitors with it
                vm.shape(shapes.UNSHAPED)

    @contextlib.contextmanager
    def watch(self, guest: Guest) -> Iterator[dict]:
        """Also walks through the phases of the shape, and has the neighbours work."""
        before = [vm.truth() for vm in self._neighbours]
        # A simulated host walks through them by itself.
        phases = self.preset.phases[:1] if self.facts["clock"] == VIRTUAL else self.preset.phases
        with (
            _phases(guest, phases),
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


def _kernel_facts(kernel: Kernel) -> dict:
    return {
        "kernel": kernel.release,
        "paravirt_time": local.has_paravirt_time(kernel.config.read_text()),
    }


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


def versions(compared: list[Arm]) -> dict[str, str]:
    """What the repository and the arms' binaries say of their versions."""
    return {"repository": manifest.build()} | {
        arm.name: arms.version(arm) for arm in compared if arm.command
    }
