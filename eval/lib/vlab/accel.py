# SPDX-License-Identifier: GPL-2.0-only
"""By which clock a VM runs, and by which accelerator.

The wall's clock under KVM where a trial boot with it works. Else a virtual clock, where the
emulator for it is built. Else the wall's clock under TCG: the guest is slow, its times mean little.
"""

import hashlib
import os
from pathlib import Path

from . import host, virtual_time
from .clock import CLOCKS, INSTRUCTIONS, VIRTUAL, WALL
from .errors import EX_USAGE, LabError, notice
from .kernels import Kernel, cache
from .machine import BootFailed, Config, Machine
from .runs import Run

TRIAL_S = 10.0
TRIAL_MEMORY_MIB = 512


def best_clock(kernel: Kernel) -> str:
    """The clock whose times say most of real machines."""
    if host.forced_accel() in ("kvm", "tcg") or not virtual_time.is_there() or _kvm_works(kernel):
        return WALL
    return VIRTUAL


def choose(kernel: Kernel, clock: str) -> str:
    """The accelerator for this kernel and this clock of CLOCKS.

    Raises LabError (64) if there is no such clock.
    """
    if clock not in CLOCKS:
        raise LabError(f"there is no clock '{clock}'; choose from {', '.join(CLOCKS)}", EX_USAGE)
    forced = host.forced_accel()
    if clock == INSTRUCTIONS:
        return "icount"
    if clock == VIRTUAL or forced == "virtual":
        return "virtual"
    if forced:
        return forced
    if _kvm_works(kernel):
        return "kvm"
    notice("KVM cannot boot this kernel here, so the VM runs under TCG: slow, shapes are real.")
    return "tcg"


def _kvm_works(kernel: Kernel) -> bool:
    """Whether a trial boot with KVM works; its result is kept until the host reboots."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    works = _remembered(kernel)
    if works is None:
        works = _try(kernel)
        _remember(kernel, works)
    return works


def _try(kernel: Kernel) -> bool:
    run = Run("kvm trial")
    try:
        Machine(run, Config(kernel, 1, TRIAL_MEMORY_MIB, "kvm")).wait_up(TRIAL_S)
    except BootFailed:
        return False
    finally:
        run.destroy()
    return True


def _record(kernel: Kernel) -> Path:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    key = "\n".join([boot_id, str(kernel.vmlinuz.resolve()), host.qemu().version])
    return cache().parent / "kvm" / hashlib.sha256(key.encode()).hexdigest()[:16]


def _remembered(kernel: Kernel) -> bool | None:
    record = _record(kernel)
    # Neither, if another lab is writing it at this moment.
    told = record.read_text() if record.exists() else ""
    return {"works": True, "fails": False}.get(told)


def _remember(kernel: Kernel, works: bool) -> None:
    record = _record(kernel)
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text("works" if works else "fails")
