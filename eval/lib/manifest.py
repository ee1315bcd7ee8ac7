# SPDX-License-Identifier: GPL-2.0-only
"""Of which build the generated pages and pictures of a folder are, and how they were made.

The folder's manifest.json has an entry for each, which the tool that writes the page makes from
what it ran: command, build (commit), version of scx_vaware, date, seeds, kernels, emulator and ns
of an instruction, as far as the tool knows them, and the digest of what it wrote. Where parts of a
page have builds of their own, `builds` has them all, and the rest is of the oldest part.
"""

import datetime
import hashlib
import json
import re
import subprocess
from pathlib import Path

from vlab import LabError, host
from vlab.clock import VIRTUAL
from vlab.errors import EX_UNAVAILABLE, EX_USAGE

NAME = "manifest.json"
# Text around numbers of tools that write no such page.
BY_HAND = ("fuzz.md", "sim-scale.md", "soak.md")
JUDGE_NO_BUILD = ("instances.md",)  # of hosts, by whatever version their owners had


def build() -> str:
    """The commit that is checked out, with "-dirty" if files differ from it; "" outside of git."""
    told = subprocess.run(
        ["git", "-C", Path(__file__).parent, "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
    )
    return told.stdout.strip()


def of_vm(version: str, kernel: str, seed: int, ns_per_instruction: float) -> dict:
    """What an entry has of a run in one VM by virtual time, today."""
    return {
        "build": build(),
        "version": version,
        "emulator": f"qemu {host.qemu().version}",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seeds": f"{seed}",
        "kernels": [kernel],
        "clock": VIRTUAL,
        "ns_per_instruction": ns_per_instruction,
    }


def entries(folder: Path) -> dict[str, dict]:
    """The manifest of a folder, by file name. Raises LabError (64) if it is none."""
    try:
        return json.loads((folder / NAME).read_text())
    except (OSError, ValueError) as why:
        raise LabError(
            f"{folder / NAME} is no manifest ({why}); restore it from git", EX_USAGE
        ) from None


def write(page: str | Path, text: str, facts: dict) -> None:
    """Write a page and, if its folder has a manifest, enter it there with `facts`.

    Raises LabError: 69 if it cannot be written, 64 if the manifest is none.
    """
    page = Path(page)
    try:
        page.write_text(text)
        if (page.parent / NAME).exists():
            entry = {name: value for name, value in facts.items() if value not in (None, "", [])}
            found = entries(page.parent) | {page.name: entry | {"sha256": _digest(page)}}
            told = json.dumps(dict(sorted(found.items())), indent=1)
            (page.parent / NAME).write_text(told + "\n")
    except OSError as why:
        raise LabError(
            f"{page} cannot be written ({why.strerror}); check it", EX_UNAVAILABLE
        ) from None


def problems(folder: Path, version: str) -> list[str]:
    """What is wrong with the generated files of a folder, for code of this version."""
    known = entries(folder)
    there = {path.name for kind in ("*.md", "*.svg") for path in folder.glob(kind)}
    found = [
        f"{name} is not in {NAME}; have its tool write it again"
        for name in sorted(there - set(known) - set(BY_HAND))
    ]
    for name, entry in known.items():
        if name not in there:
            found.append(f"{name} is in {NAME} and not there; remove the entry")
        else:
            found += _problems(folder / name, entry, version)
    return found


def _problems(page: Path, entry: dict, version: str) -> list[str]:
    again = f"run {entry['command']}"
    if _digest(page) != entry["sha256"]:
        return [f"{page.name} is not what was written; change the tool and {again}"]
    if page.name in JUDGE_NO_BUILD:
        return []
    if not entry.get("build") or not entry.get("version"):
        return [f"{page.name} is of no known build; in a checkout of git {again}"]
    for build in entry.get("builds", [entry["build"]]):
        if build.endswith("-dirty"):
            return [f"{page.name} is of a build that no commit has ({build}); commit, then {again}"]
        if not re.search(rf"(build|repository) {re.escape(build)}(?![\w-])", page.read_text()):
            return [f"{page.name} does not say that it is of build {build}; {again}"]
    if not is_current(entry["version"], version):
        return [f"{page.name} judges version {entry['version']}, and this is {version}; {again}"]
    return []


def is_current(judged: str, version: str) -> bool:
    """Whether what judged one version still speaks for another, which is at most a release later.

    A release has another minor or major number; the third number is for repairs. How many minor
    releases a major one had is not known, so the first release of the next one is next to all.
    """
    (major, minor), (now_major, now_minor) = _release(judged), _release(version)
    if major == now_major:
        return 0 <= now_minor - minor <= 1
    return now_major - major == 1 and now_minor == 0


def _release(version: str) -> tuple[int, int]:
    major, minor = re.match(r"(\d+)\.(\d+)\.", version).groups()
    return int(major), int(minor)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
