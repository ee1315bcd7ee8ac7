# SPDX-License-Identifier: GPL-2.0-only
"""Builds the load generators of c/, go/ and java/, each into one file that a lab VM sees at the
same path."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from vlab import LabError
from vlab.errors import EX_UNAVAILABLE
from vlab.tool import built

SOURCES = Path(__file__).parent


def folder() -> Path:
    """Where eval keeps what it builds."""
    return built("eval")


def path(name: str) -> Path:
    """Where the program `name` is once it is built."""
    return folder() / name


def build(name: str) -> None:
    """Build c/NAME.c unless that has been done. Raises LabError (69)."""
    source = SOURCES / "c" / f"{name}.c"
    compiler = shutil.which("gcc") or "cc"
    flags = ["-O2", "-pthread", "-fopenmp"]
    _build(
        path(name),
        [source, *source.parent.glob("*.h")],
        "gcc and libc6-dev",
        lambda fresh, _: [[compiler, *flags, "-o", fresh, source, "-lm"]],
    )


def build_go(name: str) -> None:
    """Build go/NAME.go, which uses Go's own packages alone. Raises LabError (69)."""
    source = SOURCES / "go" / f"{name}.go"
    _build(
        path(name),
        [source],
        "golang-go",
        lambda fresh, _: [["go", "build", "-trimpath", "-o", fresh, source]],
        {"CGO_ENABLED": "0", "GO111MODULE": "off", "GOTOOLCHAIN": "local"},
    )


def build_java(name: str) -> None:
    """Build java/NAME.java into NAME.jar. Raises LabError (69)."""
    source = SOURCES / "java" / f"{name}.java"
    _build(
        path(f"{name}.jar"),
        [source],
        "default-jdk-headless",
        lambda fresh, classes: [
            ["javac", "-d", classes, source],
            ["jar", "--create", "--file", fresh, "--main-class", name, "-C", classes, "."],
        ],
    )


def _build(binary: Path, sources: list[Path], packages: str, commands, variables=None) -> None:
    """Run `commands` unless the binary is newer than its sources.

    `commands` makes them from where the binary is to go, and a folder of their own.
    """
    newest = max(file.stat().st_mtime for file in sources)
    if binary.exists() and binary.stat().st_mtime >= newest:
        return
    fresh = binary.with_suffix(f".{os.getpid()}")
    try:
        binary.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="vaware-build-") as own:
            # Go keeps what it has compiled; root's home may not be there.
            environment = os.environ | {"GOCACHE": f"{own}/go"} | (variables or {})
            for command in commands(fresh, own):
                _run(command, sources[0], packages, environment)
        fresh.replace(binary)
    except OSError as why:
        raise LabError(
            f"{binary} cannot be written ({why}); set CARGO_TARGET_DIR to a folder that can",
            EX_UNAVAILABLE,
        ) from None
    finally:
        fresh.unlink(missing_ok=True)


def _run(command: list, source: Path, packages: str, environment: dict[str, str]) -> None:
    if not shutil.which(command[0]):
        raise LabError(
            f"there is no {command[0]} to build {source.name}; install {packages}", EX_UNAVAILABLE
        )
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise LabError(
            f"{command[0]} cannot build {source.name} ({done.stderr.strip()[:300]}); install "
            f"{packages}",
            EX_UNAVAILABLE,
        )
