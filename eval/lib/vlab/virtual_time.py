# SPDX-License-Identifier: GPL-2.0-only
"""QEMU with virtual time (vtime/): where it is, how it is built, and how it is started."""

import functools
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .errors import EX_UNAVAILABLE, EX_USAGE, LabError

SOURCES = Path(__file__).with_name("vtime")
BUILD = SOURCES / "build.sh"
# What a kernel finds out by waiting, it is told: with many vCPUs each would wait for its turn while
# the others spin. Its tests of its own ciphers take longer than the rest of the boot.
APPEND = "vaware.clock=virtual cpuhp.parallel=0 cpu_init_udelay=0 cryptomgr.notests"
TSC_HZ = 10**9
# The guest stops its clock by a byte on this port (guest/agent.py).
CLOCK_PORT = [
    *["-chardev", "file,id=clock,path=/dev/null"],
    *["-device", "virtserialport,chardev=clock,name=vaware.clock"],
]
# Where distributions keep the firmware; ours brings none.
FIRMWARE = ("/usr/share/qemu", "/usr/share/seabios", "/usr/lib/ipxe/qemu")
# Calibrating, seeding and scheduling by anything but the clock would make each run another one.
CPU = "max,-rdrand,-rdseed,-monitor"
RTC = "base=2026-01-01T00:00:00,clock=vm"
PARAVIRT = ("steal", "tlb-flush", "poll-control")
PC_VCPUS = 255  # of QEMU's default machine
MAX_VCPUS = 256  # of the simulated host (host/host.h), and of APIC ids without an IOMMU
SHIFTS = {1: 0, 2: 1, 4: 2, 8: 3}  # ns of an instruction, and its power of two


@dataclass(frozen=True)
class Options:
    """How virtual time runs.

    seed: of all that is random on the simulated host. ns_per_instruction: 1, 2, 4 or 8.
    paravirt: what the guest is offered of KVM's interface, of PARAVIRT. quantum_ns: how far the
    clocks of vCPUs may differ; None: the emulator's default. The less, the slower.
    """

    seed: int = 0
    ns_per_instruction: int = 1
    paravirt: tuple[str, ...] = PARAVIRT
    quantum_ns: int | None = None

    def __post_init__(self):
        if self.ns_per_instruction not in SHIFTS:
            raise LabError(
                f"an instruction cannot take {self.ns_per_instruction} ns; ask for 1, 2, 4 or 8",
                EX_USAGE,
            )
        if unknown := set(self.paravirt) - set(PARAVIRT):
            raise LabError(
                f"there is no paravirtual '{unknown.pop()}'; choose from {', '.join(PARAVIRT)}",
                EX_USAGE,
            )


@functools.cache
def binary() -> Path:
    """Where the emulator of these sources is kept once it is built."""
    told = subprocess.run([BUILD, "--where"], capture_output=True, text=True)
    return Path(told.stdout.strip() or "/nonexistent")


def is_there() -> bool:
    """Whether the emulator is built."""
    return os.access(binary(), os.X_OK)


def command(options: Options) -> list[str]:
    """The emulator and its options. Raises LabError (69) if it is not built."""
    if not is_there():
        raise LabError(
            "the emulator with virtual time is not built; run deploy/setup.sh lab, or take "
            "--clock wall",
            EX_UNAVAILABLE,
        )
    shift = SHIFTS[options.ns_per_instruction]
    args = [str(binary()), "-accel", "tcg,thread=single", "-icount", f"shift={shift},sleep=off"]
    for folder in FIRMWARE:
        args += ["-L", folder]
    return [*args, "-cpu", CPU, "-rtc", RTC, "-seed", str(options.seed)]


def append(config: str) -> str:
    """What goes onto the command line of a kernel with this configuration."""
    found = re.search(r"^CONFIG_HZ=(\d+)$", config, re.MULTILINE)
    return f"{APPEND} lpj={TSC_HZ // int(found[1])}" if found else APPEND


def machine(vcpus: int) -> list[str]:
    """The machine that has room for so many vCPUs."""
    return ["-machine", "q35"] if vcpus > PC_VCPUS else []


def environment(options: Options, clock: Path) -> dict[str, str]:
    """What the emulator reads from its environment (vtime/qemu)."""
    quantum = {"VT_QUANTUM_NS": str(options.quantum_ns)} if options.quantum_ns else {}
    return quantum | {
        "VT_CONTROL": str(clock),
        "VT_SEED": str(options.seed),
        "VT_KVM": ",".join(options.paravirt),
    }
