# SPDX-License-Identifier: GPL-2.0-only
"""What the lab needs from this machine: QEMU, virtiofsd, a C compiler, root, and maybe KVM."""

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .errors import EX_UNAVAILABLE, EX_USAGE, LabError, notice

SETUP = Path(__file__).parents[3] / "deploy" / "setup.sh"
QEMU_WANTED = 10  # older ones panic the guest now and then while it patches its text
# QEMU's options, by the names of $VAWARE_LAB_ACCEL.
ACCELERATORS = {
    "kvm": ["-accel", "kvm", "-cpu", "host"],
    "tcg": ["-accel", "tcg,thread=multi", "-cpu", "max"],
    # In turns, by a clock of executed instructions: time in the guest counts them.
    "icount": ["-accel", "tcg,thread=single", "-icount", "shift=2,sleep=off", "-cpu", "max"],
}
VIRTIOFSD_VARIABLE = "VAWARE_LAB_VIRTIOFSD"
# The C virtiofsd and the Rust one before 1.11 cannot serve read-only, and a guest may remount what
# it is given: take the right to write away from the daemon. The lock of the C one goes to /run.
READ_ONLY = """
findmnt --real -rno TARGET |
while read -r target; do mount -o remount,bind,ro "$(printf %b "$target")"; done
mount -t tmpfs run /run
exec "$@"
"""


@dataclass(frozen=True)
class Qemu:
    """The emulator and its version."""

    path: str
    version: str


@dataclass(frozen=True)
class Virtiofsd:
    """The virtiofs daemon: the Rust one, or the C one that came with QEMU up to 7.2."""

    path: str
    is_rust: bool
    has_readonly: bool

    def command(self, socket: Path, folder: Path, read_only: bool) -> list[str]:
        """Command line that serves `folder` on `socket`."""
        # What does not change under the guest is cached for good: execs are then cheap.
        cache = "always" if read_only else "auto"
        if self.is_rust:
            args = [f"--shared-dir={folder}", f"--cache={cache}", "--sandbox=chroot"]
        else:
            args = ["-f", f"-osource={folder}", f"-ocache={cache}", "-osandbox=chroot"]
        command = [self.path, f"--socket-path={socket}", *args]
        if not read_only:
            return command
        if self.has_readonly:
            return [*command, "--readonly"]
        own_mounts = ["unshare", "--mount", "--propagation", "private"]
        return [*own_mounts, "bash", "-euc", READ_ONLY, "read-only", *command]


@functools.cache
def qemu() -> Qemu:
    """Find QEMU; a notice if it is older than wanted. Raises LabError (69)."""
    path = shutil.which("qemu-system-x86_64")
    if not path:
        raise LabError(
            "QEMU is not installed; install package qemu-system-x86 (version 10 or newer)",
            EX_UNAVAILABLE,
        )
    said = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
    match = re.search(r"version (\d+)(\.\S+)?", said)
    if not match:
        raise LabError(f"{path} does not tell its version; reinstall qemu-system-x86")
    if int(match[1]) < QEMU_WANTED:
        notice(
            f"QEMU {match[1]} panics guests now and then; boots are retried, "
            f"but version {QEMU_WANTED} or newer is better."
        )
    return Qemu(path, match[0].removeprefix("version "))


@functools.cache
def virtiofsd() -> Virtiofsd:
    """Find virtiofsd, $VAWARE_LAB_VIRTIOFSD first. Raises LabError (69)."""
    chosen = os.environ.get(VIRTIOFSD_VARIABLE)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "scx_vaware"
    places = [
        "/usr/libexec/virtiofsd",
        "/usr/lib/virtiofsd",
        "/usr/lib/qemu/virtiofsd",
        str(home / "bin" / "virtiofsd"),
        str(Path.home() / ".cargo" / "bin" / "virtiofsd"),
    ]
    on_path = shutil.which("virtiofsd")
    candidates = [chosen] if chosen else [on_path] * bool(on_path) + places
    path = next((place for place in candidates if place and os.access(place, os.X_OK)), None)
    if not path:
        where = f"${VIRTIOFSD_VARIABLE} ({chosen})" if chosen else "the usual places"
        raise LabError(
            f"there is no virtiofsd in {where}; install package virtiofsd "
            f"(Debian 12: run deploy/setup.sh lab), or name one in ${VIRTIOFSD_VARIABLE}",
            EX_UNAVAILABLE,
        )
    told = subprocess.run([path, "--help"], capture_output=True, text=True)
    options = told.stdout + told.stderr
    return Virtiofsd(path, "--shared-dir" in options, "--readonly" in options)


def compile_c(source: Path, binary: Path, *libraries: str) -> None:
    """Compile one C file. Raises LabError (69)."""
    cc = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not cc:
        raise LabError("there is no C compiler for the lab's helpers; install package gcc")
    packages = " and ".join(["libc6-dev", *(f"lib{library}-dev" for library in libraries)])
    links = [f"-l{library}" for library in libraries]
    _compile([cc, "-O2", "-Wall", "-o", binary, source, *links], source, packages)


def compile_bpf(source: Path, binary: Path) -> None:
    """Compile a BPF program with $VAWARE_CLANG or the best clang there is. Raises LabError (69)."""
    told = subprocess.run([SETUP, "--print-clang"], capture_output=True, text=True)
    clang = told.stdout.strip()
    if not (clang and shutil.which(clang)):
        raise LabError("there is no clang to compile BPF with; run deploy/setup.sh lab")
    # The kernel's headers for the machine at hand, where Debian and Ubuntu keep them.
    include = f"-I/usr/include/{os.uname().machine}-linux-gnu"
    args = [clang, "-O2", "-g", "-Wall", "-target", "bpf", "-D__TARGET_ARCH_x86", include]
    _compile([*args, "-c", source, "-o", binary], source, "libbpf-dev")


def _compile(command: list[object], source: Path, packages: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise LabError(
            f"{command[0]} cannot compile {source}: {done.stderr.strip()}; install {packages}"
        )


def require_root() -> None:
    """Raise LabError (69) unless run by root."""
    if os.geteuid() != 0:
        raise LabError(
            "the lab pins threads and sets cgroups on the host, which takes root; run it with sudo",
            EX_UNAVAILABLE,
        )


def forced_accel() -> str | None:
    """The accelerator that $VAWARE_LAB_ACCEL asks for, if it does. Raises LabError (64)."""
    accel = os.environ.get("VAWARE_LAB_ACCEL")
    if accel and accel not in (*ACCELERATORS, "virtual"):
        raise LabError(
            f"$VAWARE_LAB_ACCEL is '{accel}'; set it to kvm, tcg, icount or virtual, or unset it",
            EX_USAGE,
        )
    return accel or None
