# SPDX-License-Identifier: GPL-2.0-only
"""One virtual machine: virtiofsd and QEMU started, the agent's end marker awaited."""

import contextlib
import os
import re
import shlex
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from . import console, host, virtual_time
from .channel import Channel
from .clock import VirtualClock, WallClock
from .errors import LabError, notice
from .kernels import Kernel
from .runs import Run
from .truth import read as read_truth

GUEST = Path(__file__).parent / "guest"
PROJECT = Path(__file__).parents[3]
HIDDEN = ("/tmp", "/var/tmp", "/run", "/dev/shm")  # tmpfs in the guest
POLL_S = 0.02
ACCEPT_S = 0.2
# A virtual clock must stop at the very instruction at which the guest writes its word.
SERIAL_AT_ONCE = "virtio-serial-pci,ioeventfd=off"
REAPED_S = 1  # from the end of QEMU's line to that of its process
TIMERS_PRIORITY = 20  # of SCHED_FIFO: above a competitor's (competitor.c)


class BootFailed(Exception):
    """Why a boot did not get to its end marker."""


@dataclass(frozen=True)
class Config:
    """What to boot."""

    kernel: Kernel
    vcpus: int
    memory_mib: int
    accel: str
    append: str = ""
    shares: tuple[Path, ...] = ()
    virtual: virtual_time.Options | None = None  # a clock of executed instructions


class Machine:
    """A virtual machine that boots; `wait_up` says when it has.

    Raises BootFailed. Its processes end with `stop` or with the run.
    """

    def __init__(self, run: Run, config: Config):
        self._run = run
        self._processes: list[subprocess.Popen] = []
        self._stopped = False
        self.channel: Channel | None = None
        self.clock: WallClock | VirtualClock = WallClock()
        if config.virtual:
            self.clock = VirtualClock(run.path / "clock.sock")
        self.share = run.path / "share"
        self.console = run.path / "console.log"
        self.tids: list[int] = []  # thread of each vCPU, in order
        self._prepare_share(config)
        folders = [(Path("/"), "root", True), (self.share, "lab", False)]
        folders += [(folder, f"share{i}", False) for i, folder in enumerate(config.shares)]
        try:
            tags = [self._serve(*folder) for folder in folders]
            self._qemu = self._start_qemu(config, tags)
            self._accept_clock()
            self.channel = self._connect()
            if isinstance(self.clock, VirtualClock):
                self.clock.follow(self.channel)
            while len(self.tids) < config.vcpus:
                self._check_alive()
                time.sleep(POLL_S)
                self.tids = vcpu_tids(Path(f"/proc/{self.pid}/task"))
                if config.accel in ("icount", "virtual"):
                    self.tids *= config.vcpus
            if config.accel == "tcg":
                self._hurry_timers()
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """Process id of QEMU."""
        return self._qemu.pid

    def wait_up(self, timeout_s: float) -> None:
        """Wait for the agent's word. Time in which the host ran others than vCPU 0 is not counted:
        a busy host makes a boot slow, not stuck."""
        if self.clock.is_virtual:
            self._wait_up_virtually(timeout_s)
            return
        began = time.monotonic()
        while not self.channel.up.wait(POLL_S):
            self._check_alive()
            try:
                taken_s = read_truth(self.pid, self.tids[:1])[0].delay_ns / 1e9
            except LabError as why:
                raise BootFailed(f"{why.message}{self.epitaph()}") from None
            if time.monotonic() - began - taken_s > timeout_s:
                raise BootFailed(f"the guest was not up after {timeout_s:g} s{self.epitaph()}")

    def _wait_up_virtually(self, timeout_s: float) -> None:
        line = self.channel
        try:
            ended = self.clock.wait_for(
                line.changed, lambda: line.up.is_set() or line.closed.is_set(), timeout_s
            )
        except LabError as why:
            raise BootFailed(f"{why.message}{self.epitaph()}") from None
        self._check_alive()
        if not ended:
            raise BootFailed(
                f"the guest was not up after {timeout_s:g} s of its time{self.epitaph()}"
            )

    def epitaph(self) -> str:
        """Why the guest died, in brackets: how QEMU ended, and what the console said last.

        Nothing of a machine that was stopped on purpose.
        """
        if self._stopped:
            return ""
        causes = [self._end_of_qemu(), console.epitaph(self.console, self._run.id)]
        told = "; ".join(filter(None, causes))
        return f" ({told})" if told else ""

    def stop(self) -> None:
        """End the machine at once; its disk is the host's and read-only, nothing can be lost."""
        self._stopped = True
        if self.channel:
            self.channel.close()
        if isinstance(self.clock, VirtualClock):
            self.clock.close()
        for process in reversed(self._processes):
            self._run.end(process)
        self._processes.clear()

    def _prepare_share(self, config: Config) -> None:
        self.share.mkdir(exist_ok=True)
        shutil.copy(config.kernel.config, self.share / "config")
        shutil.copy(GUEST / "agent.py", self.share / "agent.py")
        keep = [PROJECT] if str(PROJECT).startswith(tuple(f"{h}/" for h in HIDDEN)) else []
        env = [
            f"KEEP=({shlex.join(str(folder) for folder in keep)})",
            f"SHARES=({shlex.join(str(folder) for folder in config.shares)})",
            f"HOST_HOME={shlex.quote(str(Path.home()))}",
        ]
        (self.share / "boot.env").write_text("\n".join(env) + "\n")
        self.console.unlink(missing_ok=True)

    def _serve(self, folder: Path, tag: str, read_only: bool) -> str:
        path = self._run.path / f"{tag}.sock"
        path.unlink(missing_ok=True)
        log = f"virtiofsd-{tag}.log"
        command = host.virtiofsd().command(path, folder, read_only)
        process = self._run.spawn(command, log)
        self._processes.append(process)
        self._wait_for_socket(path, process, log)
        return tag

    def _start_qemu(self, config: Config, tags: list[str]) -> subprocess.Popen:
        init = f"{GUEST}/init.sh"
        append = [
            "console=ttyS0 quiet panic=-1 rootfstype=virtiofs root=root ro",
            f'init="{init}"' if " " in init else f"init={init}",
            "clocksource=tsc tsc=reliable mitigations=off",
            virtual_time.append(config.kernel.config.read_text()) if config.virtual else "",
            config.append,
        ]
        memory = f"{config.memory_mib}M"
        if config.virtual:
            emulator = virtual_time.command(config.virtual) + virtual_time.machine(config.vcpus)
        else:
            emulator = [host.qemu().path, *host.ACCELERATORS[config.accel]]
        args = [
            *emulator,
            *["-name", "vaware-lab,debug-threads=on", "-no-reboot"],
            *["-nodefaults", "-no-user-config", "-display", "none"],
            *["-smp", config.vcpus, "-m", memory],
            *["-object", f"memory-backend-memfd,id=mem,size={memory},share=on"],
            *["-numa", "node,memdev=mem"],
            *["-kernel", config.kernel.vmlinuz, "-append", " ".join(append).strip()],
            *["-serial", f"file:{self.console}"],
            *["-device", SERIAL_AT_ONCE if config.virtual else "virtio-serial-pci", "-chardev"],
            *[f"socket,id=agent,path={self._run.path}/agent.sock,server=on,wait=off"],
            *["-device", "virtserialport,chardev=agent,name=vaware.lab"],
        ]
        if config.kernel.initrd:
            args += ["-initrd", config.kernel.initrd]
        for tag in tags:
            args += ["-chardev", f"socket,id={tag},path={self._run.path}/{tag}.sock"]
            args += ["-device", f"vhost-user-fs-pci,chardev={tag},tag={tag}"]
        env = {}
        if config.virtual:
            args += virtual_time.CLOCK_PORT
            env = virtual_time.environment(config.virtual, self._run.path / "clock.sock")
        (self._run.path / "agent.sock").unlink(missing_ok=True)
        process = self._run.spawn(args, "qemu.log", env)
        self._processes.append(process)
        return process

    def _connect(self) -> Channel:
        path = self._run.path / "agent.sock"
        while True:
            self._wait_for_socket(path, self._qemu, "qemu.log")
            line = socket.socket(socket.AF_UNIX)
            try:
                line.connect(str(path))
                return Channel(line, self.epitaph, self.clock)
            except ConnectionRefusedError:  # QEMU does not listen yet, or has died meanwhile
                line.close()
                if self._qemu.poll() is not None:
                    raise BootFailed(f"QEMU ended at once{self.epitaph()}") from None
                time.sleep(POLL_S)

    def _accept_clock(self) -> None:
        """Wait for the emulator's connection to the virtual clock."""
        while isinstance(self.clock, VirtualClock) and not self.clock.accept(ACCEPT_S):
            if self._qemu.poll() is not None:
                raise BootFailed(f"QEMU ended at once: {self._last_said('qemu.log')}")

    def _end_of_qemu(self) -> str:
        """How QEMU ended, unless it runs or the guest has powered off."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._qemu.wait(REAPED_S)
            if code < 0:
                return f"QEMU was ended by signal {-code}"
            if code > 0:
                return f"QEMU ended with {code}: {self._last_said('qemu.log')}"
        return ""

    def _check_alive(self) -> None:
        if self.channel.closed.is_set() or self._qemu.poll() is not None:
            raise BootFailed(f"the guest died while booting{self.epitaph()}")

    def _hurry_timers(self) -> None:
        """Let the guest's timers come on time, as hardware's do, however busy the host is.

        TCG's are QEMU's first thread; a late one would look like a stop of the vCPU.
        """
        policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        try:
            os.sched_setscheduler(self.pid, policy, os.sched_param(TIMERS_PRIORITY))
        except PermissionError:
            notice(
                "the guest's timers may be late (real-time priority is not allowed); for precise "
                "measurements run the lab as root and in a cgroup with real-time bandwidth."
            )

    def _wait_for_socket(self, path: Path, process: subprocess.Popen, log: str) -> None:
        while not path.exists():
            if process.poll() is not None:
                name = os.path.basename(process.args[0])
                raise BootFailed(f"{name} ended at once: {self._last_said(log)}")
            time.sleep(POLL_S)

    def _last_said(self, log: str) -> str:
        return (self._run.path / log).read_text(errors="replace").strip().split("\n")[-1]


def vcpu_tids(tasks: Path) -> list[int]:
    """The threads of QEMU's vCPUs, in order, or the only one that there is for all of them; `tasks`
    is the process's folder in /proc.

    Other threads of QEMU come and go, so one may be gone when its name is read.
    """
    tids = {}
    with contextlib.suppress(OSError):  # QEMU is gone
        for task in tasks.iterdir():
            with contextlib.suppress(OSError):
                name = (task / "comm").read_text().strip()
                if match := re.fullmatch(r"(?:CPU (\d+)|ALL CPUs)/(?:TCG|KVM)", name):
                    tids[int(match[1] or 0)] = int(task.name)
    return [tids[vcpu] for vcpu in sorted(tids)]
