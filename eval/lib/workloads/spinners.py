# SPDX-License-Identifier: GPL-2.0-only
"""Spinners that say what they got: see guest/spinners.py for the tasks and what is printed."""

import json
import shlex
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent / "guest/spinners.py"


def command(seconds: float, *tasks: str) -> str:
    """The command line that lets `tasks` spin together for `seconds`."""
    return shlex.join([str(SCRIPT), str(seconds), *tasks])


def parse(output: str) -> list[dict]:
    """What each task got, by what the script printed. Raises ValueError or IndexError."""
    return json.loads(output.splitlines()[-1])
