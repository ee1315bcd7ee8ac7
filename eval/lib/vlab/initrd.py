# SPDX-License-Identifier: GPL-2.0-only
"""An initrd for a kernel that has virtiofs as a module: loads it, and goes on with the lab's root.

Made of busybox, the module, and an init that does what the kernel would do by itself.
"""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .errors import EX_UNAVAILABLE, LabError

INIT = """#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
init=$($b sed -E 's/.* init="([^"]*)".*/\\1/; s/.* init=([^ ]*).*/\\1/' /proc/cmdline)
$b umount /proc
$b insmod /virtiofs.ko
$b mount -t virtiofs -o ro root /root
exec $b switch_root /root "$init"
"""
MODULE = "lib/modules/{}/kernel/fs/fuse/virtiofs.ko"
NEEDED_MODULES = re.compile(rb"\0depends=([^\0]+)\0")


def build(unpacked: Path, release: str, busybox: Path, initrd: Path) -> str:
    """Write `initrd` for the kernel whose packages are in `unpacked`; returns why not, or nothing.

    Raises LabError (69) without zstd.
    """
    module = _module(unpacked, release)
    if not module:
        return "its packages hold no virtiofs"
    if needed := NEEDED_MODULES.search(module):
        return f"its virtiofs needs more modules ({needed[1].decode()})"
    with tempfile.TemporaryDirectory(dir=initrd.parent) as temporary:
        root = Path(temporary)
        for folder in ("bin", "proc", "root"):
            (root / folder).mkdir()
        shutil.copy(busybox, root / "bin/busybox")
        (root / "virtiofs.ko").write_bytes(module)
        (root / "init").write_text(INIT)
        (root / "init").chmod(0o755)
        names = "".join(f"{path.relative_to(root)}\n" for path in sorted(root.rglob("*")))
        archive = subprocess.run(
            [busybox, "cpio", "-o", "-H", "newc"],
            cwd=root,
            input=names.encode(),
            capture_output=True,
            check=True,
        )
        initrd.write_bytes(archive.stdout)
    return ""


def _module(unpacked: Path, release: str) -> bytes:
    for prefix in ("", "usr/"):
        plain = unpacked / (prefix + MODULE.format(release))
        if plain.exists():
            return plain.read_bytes()
        packed = plain.with_name(plain.name + ".zst")
        if packed.exists():
            if not shutil.which("zstd"):
                raise LabError(f"{packed.name} needs zstd; install package zstd", EX_UNAVAILABLE)
            return subprocess.run(["zstd", "-dcq", packed], capture_output=True, check=True).stdout
    return b""
