# SPDX-License-Identifier: GPL-2.0-only
"""What cgroups get: see guest/cgroups.py for how they are described, and what is measured."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent / "guest/cgroups.py"


@dataclass(frozen=True)
class Got:
    """What each group got: vCPUs by its CPU time, turns per second by its work; the longest wait.

    Groups without tasks of their own have no turns.
    """

    vcpus: dict[str, float]
    turns_per_s: dict[str, float]
    waited_s: float


def command(seconds: float, *groups: str) -> str:
    """The command line that lets the tasks of `groups` run together for `seconds`."""
    return shlex.join([str(SCRIPT), str(seconds), *groups])


def parse(output: str) -> Got:
    """What the script printed. Raises ValueError, KeyError or IndexError for anything else."""
    told = json.loads(output.splitlines()[-1])
    groups = told["groups"]
    turns = {path: got["turns_per_s"] for path, got in groups.items() if "turns_per_s" in got}
    vcpus = {path: got["vcpus"] for path, got in groups.items()}
    return Got(vcpus, turns, told["waited_s"])
