# SPDX-License-Identifier: GPL-2.0-only
"""Which kernels are at hand for the guest: folders, those of a collection, and downloaded ones."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from .errors import EX_USAGE, LabError

FOLDERS_VARIABLE = "VAWARE_LAB_KERNELS"
PREFERRED = "7.2"  # the tests' default, if it is there


@dataclass(frozen=True)
class Kernel:
    """A kernel to boot; `initrd` only where virtio or virtiofs are modules."""

    release: str
    vmlinuz: Path
    config: Path
    initrd: Path | None

    @property
    def sched_ext(self) -> bool:
        """Whether its configuration has sched_ext."""
        return "CONFIG_SCHED_CLASS_EXT=y\n" in self.config.read_text()


def cache() -> Path:
    """Where downloaded kernels are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "scx_vaware" / "kernels"


def all() -> list[Kernel]:
    """Kernels at hand, newest first: those of $VAWARE_LAB_KERNELS, then the cached ones."""
    found: dict[str, Kernel] = {}
    for collection in _collections():
        for folder in sorted(collection.glob("*/")):
            if kernel := read(folder):
                found.setdefault(kernel.release, kernel)
    return sorted(found.values(), key=lambda kernel: version(kernel.release), reverse=True)


def at_hand(name: str | None = None) -> Kernel | None:
    """Find a kernel by folder, release or release prefix ("6.12"); None for the default one.

    Returns None if no such kernel is at hand. Raises LabError (64) for a name that means nothing.
    """
    if name and "/" in name:
        kernel = read(Path(name))
        if not kernel:
            raise LabError(
                f"{name} has no kernel; name a folder that holds vmlinuz and config", EX_USAGE
            )
        return kernel
    if name and not re.fullmatch(r"\d+\.\d[\w.+~-]*", name):
        raise LabError(
            f"'{name}' is not a kernel; give a release such as 7.2 (see vlab kernels), or a folder",
            EX_USAGE,
        )
    return choose(all(), name)


def choose(kernels: list[Kernel], name: str | None) -> Kernel | None:
    """Pick from `kernels`, newest first: by release or prefix, or the default for None."""
    if name:
        return next((kernel for kernel in kernels if matches(kernel.release, name)), None)
    with_scx = [kernel for kernel in kernels if kernel.sched_ext]
    return choose(with_scx, PREFERRED) or next(iter(with_scx), None)


def matches(release: str, name: str) -> bool:
    """Whether `name` is this release, or its beginning up to the end of a number."""
    return re.match(re.escape(name) + r"(?![0-9])", release) is not None


def version(release: str) -> tuple[int, ...]:
    """The numbers of a release, to sort by."""
    return tuple(int(number) for number in re.findall(r"\d+", release)[:4])


def read(folder: Path) -> Kernel | None:
    """The kernel in `folder`, None if it holds none."""
    vmlinuz, config, initrd = folder / "vmlinuz", folder / "config", folder / "initrd"
    if not (vmlinuz.is_file() and config.is_file()):
        return None
    folder = folder.resolve()
    return Kernel(folder.name, vmlinuz, config, initrd if initrd.is_file() else None)


def _collections() -> list[Path]:
    folder = os.environ.get(FOLDERS_VARIABLE)
    if folder and not Path(folder).is_dir():
        raise LabError(
            f"${FOLDERS_VARIABLE} names {folder}, which is no folder; correct or unset it", EX_USAGE
        )
    return [Path(folder), cache()] if folder else [cache()]
