# SPDX-License-Identifier: GPL-2.0-only
"""Results on disk: JSON lines, one per run, each complete in itself.

Fields: date, place (lab, local), kernel, paravirt_time (PARAVIRT_TIME_ACCOUNTING: true, false or
null for unknown), shape, vcpus, accel, clock (virtual, wall, instructions), ns_per_instruction
(null for wall), paravirt (what a virtual host offers, if not all), machine, versions, seed (the
block), order (the arm's place in it), workload, command, note, baseline, arms, page_cells, arm,
arm_command, arm_vm (of an arm in a VM of its own), seconds (that a named workload lasts),
settle_s, rehearsed (a run before it did not count), ok, failure and output (of a failed run),
metrics {name: {value, unit, better}}, latencies {upper bound: count} in the unit of the first
metric, duration_s (wall time), run_ns and run_delay_ns (per vCPU: ran, and wanted to run and could
not), stolen_source (who says so), neighbours_run_ns (of the VMs beside it).
"""

import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from vlab import LabError
from vlab.errors import EX_UNAVAILABLE, EX_USAGE

# What must be the same in all runs that are compared with each other, and may differ on a page.
CONDITIONS = ("kernel", "paravirt_time", "shape", "vcpus", "accel")
# What must be the same on a whole page.
PAGE = {
    "arms": "arm sets",
    "baseline": "baselines",
    "versions": "builds",
    "settle_s": "settle times",
    "rehearsed": "runs with and without a rehearsal",
    "clock": "clocks",
    "ns_per_instruction": "speeds of an instruction",
    "paravirt": "hosts that offer different things",
}
OPTIONAL = ("paravirt",)
REQUIRED = (
    *CONDITIONS,
    *(name for name in PAGE if name not in OPTIONAL),
    "date",
    "seed",
    "workload",
    "command",
    "arm",
    "ok",
    "metrics",
)


def conditions(record: dict) -> tuple:
    """The conditions of a run, as a key."""
    return tuple(record[name] for name in CONDITIONS)


def require_one_page(runs: Iterable[dict], advice: str) -> None:
    """Raise LabError (64), which ends with the advice, if these runs differ in PAGE."""
    first = None
    for run in runs:
        first = first or run
        for name, meaning in PAGE.items():
            both = first.get(name), run.get(name)
            if both[0] != both[1]:
                told = " and ".join(_differing(one, other) for one, other in (both, both[::-1]))
                raise LabError(
                    f"the runs mix {meaning} ({told}), which make no page; {advice}", EX_USAGE
                )


def require_distinct(runs: Iterable[dict]) -> None:
    """Raise LabError (64) if a run is there twice, as in two files with the same seeds."""
    seen = set()
    for run in runs:
        place = (*conditions(run), run["seed"], run["workload"], run["arm"])
        if place in seen:
            raise LabError(
                f"{run['workload']} under {run['arm']} has run twice with seed {run['seed']}; "
                "report one file, or give the other comparison other --seeds",
                EX_USAGE,
            )
        seen.add(place)


def _differing(one: object, other: object) -> str:
    """The part of `one` that is not in `other`, for people."""
    if isinstance(one, dict) and isinstance(other, dict):
        return ", ".join(f"{key} {value}" for key, value in (one.items() - other.items())) or "none"
    return ", ".join(map(str, one)) if isinstance(one, list) else str(one)


def read(path: str | Path) -> list[dict]:
    """Read the runs of a file. Raises LabError: 69 if it cannot be read, 64 if it holds no runs.

    A last line without an end, left by an interruption, is no run.
    """
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as why:
        raise LabError(f"{path} cannot be read ({why}); check the path", EX_UNAVAILABLE) from None
    records = []
    for number, line in enumerate(text.rpartition("\n")[0].splitlines(), start=1):
        try:
            record = json.loads(line)
            for name in REQUIRED:
                record[name]
        except (ValueError, KeyError, TypeError):
            raise LabError(
                f"line {number} of {path} is no run of this version; name a file that this "
                "version of compare wrote",
                EX_USAGE,
            ) from None
        records.append(record)
    return records


class Journal:
    """The runs so far, in memory and, with a path, in a file that has each as soon as it is done.

    Raises LabError: 64 if the file is there and `resume` is not set, 69 if it cannot be written.
    """

    def __init__(self, path: str | Path | None, resume: bool = False):
        self.records: list[dict] = []
        self._file = None
        self._turn = threading.Lock()
        self.path = path = None if path is None else Path(path)
        if path is None:
            return
        if path.exists():
            if not resume:
                raise LabError(
                    f"{path} exists; give another name, or --resume to go on with it", EX_USAGE
                )
            self.records = read(path)
            _cut_torn_line(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a")
        except OSError as why:
            raise LabError(f"{path} cannot be written ({why}); check it", EX_UNAVAILABLE) from None

    def add(self, record: dict) -> None:
        """Keep a run; it is on disk when this returns. Raises LabError (69), as for a full disk.

        Several threads may do so.
        """
        with self._turn:
            self._add(record)

    def _add(self, record: dict) -> None:
        self.records.append(record)
        if self._file:
            try:
                self._file.write(json.dumps(record) + "\n")
                self._file.flush()
                os.fsync(self._file.fileno())
            except OSError as why:
                raise LabError(
                    f"{self.path} cannot be written any more ({why.strerror}); the "
                    f"{len(self.records) - 1} runs before are kept: make room, and go on with "
                    "--resume",
                    EX_UNAVAILABLE,
                ) from None


def _cut_torn_line(path: Path) -> None:
    complete = path.read_bytes().rpartition(b"\n")
    os.truncate(path, len(complete[0]) + len(complete[1]))
