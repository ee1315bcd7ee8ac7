# SPDX-License-Identifier: GPL-2.0-only
"""What the console of a guest that died tells, and where it is kept for a closer look."""

import re
import shutil
from pathlib import Path

from . import kernels

KEPT = 8  # consoles: those of the guests that died last
QUOTED = 5  # lines
ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|.)")


def epitaph(console: Path, run_id: str) -> str:
    """The last words on a console and the name of a copy that is kept; empty if it said nothing."""
    try:
        said = last_lines(console.read_text(errors="replace"))
        kept = _keep(console, run_id)
    except OSError:  # it never came to write one, or there is no room
        return ""
    return f"its console, kept in {kept}, ends with '{' | '.join(said)}'" if said else ""


def last_lines(text: str) -> list[str]:
    """The last lines with something in them; first of all what made the kernel give up."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", ESCAPES.sub("", text))]
    lines = [line for line in lines if line]
    tail = lines[-QUOTED:]
    faults = [line for line in lines if "Oops:" in line or "Kernel panic" in line]
    return tail if not faults or faults[0] in tail else [faults[0], *tail[1:]]


def _keep(console: Path, run_id: str) -> Path:
    folder = kernels.cache().parent / "consoles"
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"{run_id}.log"
    shutil.copyfile(console, kept)
    for old in sorted(folder.glob("*.log"), key=lambda file: file.stat().st_mtime)[:-KEPT]:
        old.unlink(missing_ok=True)
    return kept
