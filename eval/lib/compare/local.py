# SPDX-License-Identifier: GPL-2.0-only
"""This machine as the place of a comparison: commands as local processes, the guest's own clocks.

Has the part of vlab.Vm that a comparison uses: run, spawn, truth.
"""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from vlab import CommandTimeout, LabError, Result, VcpuTruth
from vlab.errors import EX_NOT_UP, EX_UNAVAILABLE

EX_NO_PERMISSION = 77
KILL_GRACE_S = 5.0
SCHED_EXT = Path("/sys/kernel/sched_ext")
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
# Fields of /proc/stat's cpu lines: user nice system idle iowait irq softirq steal (guest times are
# part of user time).
BUSY_FIELDS, STEAL_FIELD = (0, 1, 2, 5, 6), 7


class LocalHandle:
    """A command that runs on this machine; as vlab.Handle."""

    def __init__(self, cmd: str, env: dict[str, str] | None = None):
        self.cmd = cmd
        self._out = os.memfd_create("output")
        # Should this process die without a chance to clean up, its commands go as well.
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", "/bin/bash", "-c", cmd],
            env=os.environ | (env or {}),
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __del__(self):
        os.close(self._out)

    @property
    def output(self) -> str:
        """What the command has said so far, stdout and stderr together."""
        size = os.fstat(self._out).st_size
        return os.pread(self._out, size, 0).decode(errors="replace")

    @property
    def rc(self) -> int | None:
        """Exit code, 128 + N for signal N; None while the command runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def wait(self, timeout_s: float | None = None) -> Result:
        """Wait for the end. Raises CommandTimeout after `timeout_s`, with the command killed."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill(signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(KILL_GRACE_S)
            raise CommandTimeout(
                f"it did not end within {timeout_s:g} s and was killed; give it more time",
                self.output,
            ) from None
        return Result(self.rc, self.output)

    def kill(self, signum: int = signal.SIGTERM) -> None:
        """Send a signal to the command's process group; no error if it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signum)


class ThisMachine:
    """The machine that eval/compare runs on."""

    def run(
        self, cmd: str, timeout_s: float | None = 120, env: dict[str, str] | None = None
    ) -> Result:
        """Run a shell command. Raises CommandTimeout, with its process group killed."""
        handle = self.spawn(cmd, env)
        try:
            return handle.wait(timeout_s)
        except KeyboardInterrupt:
            handle.kill(signal.SIGKILL)
            raise

    def spawn(self, cmd: str, env: dict[str, str] | None = None) -> LocalHandle:
        """Start a shell command and return at once."""
        return LocalHandle(cmd, env)

    def truth(self) -> list[VcpuTruth]:
        """Per CPU: time busy, and time stolen as far as the hypervisor tells (10 ms steps)."""
        return parse_stat(Path("/proc/stat").read_text())


def parse_stat(text: str) -> list[VcpuTruth]:
    """The lines of /proc/stat for single CPUs."""
    found = []
    for line in text.splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu":
            ticks = [int(field) for field in fields]
            busy = sum(ticks[field] for field in BUSY_FIELDS)
            found.append(
                VcpuTruth(int(name[3:]), 0, busy * TICK_NS, ticks[STEAL_FIELD] * TICK_NS, 0)
            )
    return found


def tells_steal(patience_s: float = 0.0) -> bool:
    """True if any stolen time has been counted since boot: the hypervisor tells of it."""
    time.sleep(patience_s)
    return any(vcpu.delay_ns for vcpu in ThisMachine().truth())


def has_paravirt_time(config: str) -> bool:
    """Whether a kernel of this configuration leaves stolen time out of a task's run time."""
    return "CONFIG_PARAVIRT_TIME_ACCOUNTING=y\n" in config


def paravirt_time() -> bool | None:
    """The same of the running kernel; None if its configuration is not to be found."""
    try:
        return has_paravirt_time(Path(f"/boot/config-{os.uname().release}").read_text())
    except OSError:
        return None


def hypervisor() -> str:
    """What this machine runs on, in a word: kvm, xen, microsoft, ..., none."""
    with contextlib.suppress(OSError):
        told = subprocess.run(["systemd-detect-virt", "--vm"], capture_output=True, text=True)
        if word := told.stdout.strip():
            return word
    is_guest = " hypervisor" in Path("/proc/cpuinfo").read_text()
    return "hypervisor" if is_guest else "none"


def require(root: Path = SCHED_EXT) -> None:
    """Raise LabError unless schedulers can be loaded here now.

    69 without sched_ext, 77 without root, 75 if another scheduler is loaded.
    """
    if not root.is_dir():
        raise LabError(
            "this kernel has no sched_ext; use one that has (6.12 or later), or add --lab to "
            "compare in a lab VM",
            EX_UNAVAILABLE,
        )
    if os.geteuid() != 0:
        raise LabError("loading schedulers takes root; run it with sudo", EX_NO_PERMISSION)
    state = (root / "state").read_text().strip()
    if state != "disabled":
        ops = root / "root" / "ops"
        name = ops.read_text().strip() if ops.exists() else "a scheduler"
        raise LabError(
            f"{name} is loaded (sched_ext is {state}), and would be compared with itself; stop it "
            "first (systemctl stop scx_vaware, or Ctrl-C where it runs)",
            EX_NOT_UP,
        )
