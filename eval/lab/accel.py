# SPDX-License-Identifier: GPL-2.0-only
"""KVM where a trial boot with it works, TCG elsewhere."""

import hashlib
import os
from pathlib import Path

from . import host
from .errors import notice
from .kernels import Kernel, cache
from .machine import BootFailed, Config, Machine
from .runs import Run

TRIAL_S = 10.0
TRIAL_MEMORY_MIB = 512


def choose(kernel: Kernel) -> str:
    """Return "kvm" or "tcg" for this kernel. The trial's result is kept until the host reboots."""
    forced = host.forced_accel()
    if forced:
        return forced
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        notice("no usable /dev/kvm here, so the VM runs under TCG: slow, but the shapes are real.")
        return "tcg"
    works = _remembered(kernel)
    if works is None:
        works = _try(kernel)
        _remember(kernel, works)
    if not works:
        notice("KVM cannot boot this kernel here, so the VM runs under TCG: slow, shapes are real.")
    return "kvm" if works else "tcg"


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
