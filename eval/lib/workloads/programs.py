# SPDX-License-Identifier: GPL-2.0-only
"""Builds the load generators of c/, each into one binary that a lab VM sees at the same path."""

import os
import shutil
import subprocess
from pathlib import Path

from vlab import LabError
from vlab.errors import EX_UNAVAILABLE
from vlab.tool import built

SOURCES = Path(__file__).parent / "c"


def folder() -> Path:
    """Where eval keeps what it builds."""
    return built("eval")


def path(name: str) -> Path:
    """Where the program `name` is once it is built."""
    return folder() / name


def build(name: str) -> None:
    """Build c/NAME.c unless that has been done. Raises LabError (69)."""
    source, binary = SOURCES / f"{name}.c", path(name)
    newest = max(file.stat().st_mtime for file in (source, *SOURCES.glob("*.h")))
    if binary.exists() and binary.stat().st_mtime >= newest:
        return
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        raise LabError("there is no C compiler for the load generators; install package gcc")
    fresh = binary.with_suffix(f".{os.getpid()}")
    try:
        binary.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [compiler, "-O2", "-pthread", "-fopenmp", "-o", fresh, source, "-lm"],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise LabError(
                f"{compiler} cannot build {source.name} ({done.stderr.strip()[:300]}); "
                "install packages gcc and libc6-dev",
                EX_UNAVAILABLE,
            )
        fresh.replace(binary)
    except OSError as why:
        raise LabError(
            f"{binary} cannot be written ({why}); set CARGO_TARGET_DIR to a folder that can",
            EX_UNAVAILABLE,
        ) from None
    finally:
        fresh.unlink(missing_ok=True)
