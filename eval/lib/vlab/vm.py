# SPDX-License-Identifier: GPL-2.0-only
"""A lab VM: boot it, run commands in it, shape its vCPUs, ask the host for the truth."""

import contextlib
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from signal import SIGCONT, SIGSTOP

from . import accel, btf, host, kernels, mirror, presets, shapes, virtual_time, virtual_truth
from .channel import ClockReading, Handle, Result
from .clock import VIRTUAL, WALL, VirtualClock, WallClock
from .clocks import best_reading
from .errors import EX_FAILED, EX_NOT_UP, EX_USAGE, LabError, notice
from .machine import BootFailed, Config, Machine
from .runs import Run
from .shaping import Shaper, VirtualShaper
from .truth import InactivePeriods, Recorder, VcpuTruth
from .truth import read as read_truth
from .virtual_truth import read as read_virtual_truth
from .vtime_shape import describe

BOOTS = 3
GUEST_SHARE = "/run/lab"
CLOCK_S = 60  # for one answer of the guest's clock


class Vm:
    """A VM with shaped vCPUs; a context manager, or `up()` and `down()`.

    kernel: see find_kernel. shape: see shapes.GRAMMAR. append: more kernel command line.
    shares: host folders that the guest may write, at the same path. name: shown by `vlab list`.
    clock: of clock.CLOCKS. virtual: how a virtual clock runs, and what of KVM's interface the guest
    has by it, such as the steal clock.
    """

    def __init__(
        self,
        kernel: str | None = None,
        vcpus: int = 4,
        memory_mib: int = 3072,
        shape: str | Sequence[presets.Phase] = "floating:2",
        append: str = "",
        shares: Sequence[str | Path] = (),
        *,
        boot_timeout_s: float = 60.0,
        name: str = "",
        clock: str = WALL,
        virtual: virtual_time.Options | None = None,
    ):
        most = virtual_time.MAX_VCPUS if clock == VIRTUAL else virtual_time.PC_VCPUS
        if not 1 <= vcpus <= most:
            raise LabError(f"a VM cannot have {vcpus} vCPUs; ask for 1 to {most}", EX_USAGE)
        if memory_mib < 256:
            raise LabError(f"{memory_mib} MiB are too few to boot; ask for 256 or more", EX_USAGE)
        for folder in shares:
            if not Path(folder).is_dir():
                raise LabError(f"{folder} is no folder to share; create it first", EX_USAGE)
        if clock != VIRTUAL:
            shapes.plan(shape, vcpus)
        else:
            describe(_phases(shape), vcpus)
        host.require_root()
        self.kernel = find_kernel(kernel)
        self.vcpus = vcpus
        self.accel = ""
        self._memory_mib = memory_mib
        self._shape = shape
        self._append = append
        self._shares = tuple(Path(folder).resolve() for folder in shares)
        self._boot_timeout_s = boot_timeout_s
        self._name = name
        self._wants_clock = clock
        self._virtual = virtual or virtual_time.Options()
        self._run: Run | None = None
        self._machine: Machine | None = None
        self._shaper: Shaper | None = None
        self._plan = None
        self._transfers = 0

    def __enter__(self) -> "Vm":
        return self.up()

    def __exit__(self, *_: object) -> None:
        self.down()

    def up(self) -> "Vm":
        """Boot and shape. Raises LabError: 69 if something is missing, 75 if it does not boot."""
        self.accel = accel.choose(self.kernel, self._wants_clock)
        if self.accel != "virtual":
            host.qemu()
        host.virtiofsd()
        self._run = Run(self._name)
        try:
            self._machine = self._boot()
            self.shape(self._shape)
        except BaseException:
            self.down()
            raise
        return self

    @property
    def folder(self) -> Path:
        """The run's folder on the host while the VM is up: logs, console, sockets."""
        self._up()
        return self._run.path

    @property
    def alive(self) -> bool:
        """Whether the VM is up and its agent on the line."""
        return self._machine is not None and not self._machine.channel.closed.is_set()

    def down(self) -> None:
        """End the VM and everything that belongs to it. May be called again."""
        if self._machine:
            self._machine.stop()
            self._machine = None
        if self._run:
            self._run.destroy()
            self._run = None

    def run(
        self,
        cmd: str,
        timeout_s: float | None = 120,
        on_output: Callable[[bytes], None] | None = None,
        env: dict[str, str] | None = None,
    ) -> Result:
        """Run a shell command as root in the guest, in the caller's working directory.

        `on_output` gets stdout and stderr as they come. Several threads may run commands at once.
        Raises CommandTimeout (its process group is killed), or LabError (75) if the VM is gone.
        """
        handle = self.spawn(cmd, env)
        try:
            return handle.wait(timeout_s, on_output)
        except KeyboardInterrupt:
            with contextlib.suppress(LabError):
                handle.kill()
            raise

    def output_of(self, cmd: str, timeout_s: float | None = 120) -> str:
        """What a command prints. Raises LabError (1) if it fails, and as run() does."""
        done = self.run(cmd, timeout_s)
        if done.rc:
            raise LabError(f"'{cmd}' failed in the guest: {done.output.strip()}", EX_FAILED)
        return done.output

    def spawn(self, cmd: str, env: dict[str, str] | None = None, cwd: str | None = None) -> Handle:
        """Start a shell command in the guest and return at once."""
        return self._up().channel.start(cmd, env, cwd or os.getcwd())

    def get(self, guest_path: str, host_path: str | Path) -> None:
        """Copy a file or folder out of the guest. Raises LabError (69) if it cannot."""
        with self._transfer() as (here, there):
            self._copy(f"cp -aL {shlex.quote(str(guest_path))} {there}/file", guest_path)
            _copy_on_host(here / "file", Path(host_path))

    def put(self, host_path: str | Path, guest_path: str) -> None:
        """Copy a file or folder into the guest. Raises LabError (69) if it cannot."""
        with self._transfer() as (here, there):
            _copy_on_host(Path(host_path), here / "file")
            self._copy(f"cp -a {there}/file {shlex.quote(str(guest_path))}", guest_path)

    def shape(self, shape: str | Sequence[presets.Phase]) -> None:
        """Change the shape of the running VM; the previous one is undone first.

        Phases follow each other by themselves, over and over, which takes a virtual clock.
        """
        self._up()
        if isinstance(self._shaper, VirtualShaper):
            self._shaper.apply(_phases(shape))
            return
        self._plan = shapes.plan(shape, self.vcpus)
        self._shaper.apply(self._plan)

    @property
    def clock(self) -> WallClock | VirtualClock:
        """The clock that the guest and all time-outs run by."""
        return self._up().clock

    def sleep(self, seconds: float) -> None:
        """Let the guest go on by itself for that long."""
        self.clock.sleep(seconds)

    def pause(self, seconds: float) -> None:
        """Stop the whole VM for that long, as a snapshot or a migration does.

        Under a virtual clock this takes no time; otherwise the emulator is stopped by a signal.
        """
        machine = self._up()
        if isinstance(machine.clock, VirtualClock):
            machine.clock.jump(seconds)
            return
        os.kill(machine.pid, SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(machine.pid, SIGCONT)

    def truth(self) -> list[VcpuTruth]:
        """What the host did to each vCPU since it started (see truth.difference)."""
        machine = self._up()
        if isinstance(machine.clock, VirtualClock):
            return read_virtual_truth(machine.clock)
        return read_truth(machine.pid, machine.tids)

    def clocks(self, probes: int = 100) -> ClockReading:
        """CLOCK_MONOTONIC of host and guest at one time; see clocks.Alignment."""
        channel = self._up().channel
        return best_reading(lambda: channel.ask_clock(CLOCK_S), probes)

    @contextlib.contextmanager
    def inactive_periods(self) -> Iterator[InactivePeriods]:
        """Record single inactive periods while the context lasts; read them after it."""
        machine = self._up()
        if isinstance(machine.clock, VirtualClock):
            recorded = InactivePeriods()
            with virtual_truth.recorded(machine.clock, self.folder, self.vcpus, recorded):
                yield recorded
            return
        recorder = Recorder(
            self._run.cgroup, self._machine.tids, self._plan.affinity, self._shaper.duty_logs
        )
        recorder.start()
        try:
            yield recorder.result
        finally:
            recorder.stop()

    def _up(self) -> Machine:
        if not self._machine:
            raise LabError("the VM is not up; call up() first", EX_NOT_UP)
        return self._machine

    def last_words(self) -> str:
        """The end of the guest's console, in brackets; a copy of all of it is kept."""
        return self._machine.epitaph() if self._machine else ""

    def _boot(self) -> Machine:
        reason = ""
        for attempt in range(1, BOOTS + 1):
            try:
                return self._boot_once()
            except BootFailed as why:
                reason = str(why)
                if attempt < BOOTS:
                    notice(f"boot {attempt} of {BOOTS} failed, {reason}; trying again.")
        raise LabError(
            f"{self.kernel.release} did not come up in {BOOTS} boots, the last time because "
            f"{reason}; try another kernel (vlab kernels) or more memory",
            EX_NOT_UP,
        )

    def _boot_once(self) -> Machine:
        config = Config(
            kernel=self.kernel,
            vcpus=self.vcpus,
            memory_mib=self._memory_mib,
            accel=self.accel,
            append=self._append,
            shares=self._shares,
            virtual=self._virtual if self.accel == "virtual" else None,
        )
        machine = Machine(self._run, config)
        try:
            # Unshaped, but with the share of a busy host that the vCPUs are entitled to.
            # A simulated host begins with a pCPU for each vCPU.
            if isinstance(machine.clock, VirtualClock):
                self._shaper = VirtualShaper(machine.clock, self.vcpus)
            else:
                self._shaper = Shaper(self._run, machine.pid, machine.tids)
                self._shaper.apply(shapes.plan(shapes.UNSHAPED, self.vcpus))
            machine.wait_up(self._boot_timeout_s)
        except BaseException:
            machine.stop()
            raise
        return machine

    @contextlib.contextmanager
    def _transfer(self) -> Iterator[tuple[Path, str]]:
        machine = self._up()
        self._transfers += 1
        name = f"transfer-{self._transfers}"
        here = machine.share / name
        here.mkdir()
        try:
            yield here, f"{GUEST_SHARE}/{name}"
        finally:
            shutil.rmtree(here, ignore_errors=True)

    def _copy(self, cmd: str, path: str) -> None:
        result = self.run(cmd)
        if result.rc:
            raise LabError(f"cannot copy {path}: {result.output.strip()}; check the path")


def _phases(shape: str | Sequence[presets.Phase]) -> Sequence[presets.Phase]:
    return [presets.Phase(shape)] if isinstance(shape, str) else shape


def _copy_on_host(source: Path, target: Path) -> None:
    if target.is_dir():
        target = target / source.name
    try:
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy2(source, target)
    except OSError as why:
        raise LabError(f"cannot copy to {target}: {why.strerror}; check the path") from None


def find_kernel(name: str | None = None) -> kernels.Kernel:
    """Find a kernel as kernels.at_hand does; what is not at hand comes from the mirror.

    Raises LabError: 64 for a name that means nothing, 69 if no such kernel can be had.
    """
    chosen = kernels.at_hand(name)
    if not chosen:
        chosen = kernels.read(mirror.download(name, kernels.cache(), _fault))
    return chosen


def _fault(folder: Path) -> str:
    """Boot the kernel and look at its BTF: returns what is wrong, or nothing."""
    blob = folder.parent / "btf"
    try:
        with Vm(str(folder), vcpus=1, memory_mib=1024, shape="floating:1") as vm:
            vm.get("/sys/kernel/btf/vmlinux", blob)
        bad = btf.malformed_kfuncs(blob.read_bytes())
    except (LabError, ValueError) as why:
        return f"its trial failed ({why})"
    if bad:
        return f"its BTF is malformed for schedulers ({len(bad)} kfuncs, such as {bad[0]})"
    return ""
