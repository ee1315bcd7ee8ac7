# SPDX-License-Identifier: GPL-2.0-only
"""A run: the directory, processes and cgroups of one VM, and their certain end.

Every process of a run carries the run's id in its environment, so whoever cleans up finds all of
them without a record that could be incomplete. A guard process holds the read end of a pipe; when
the lab dies, however it dies, the pipe closes and the guard cleans up.
"""

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import cgroups, tracing

# tmpfs: short socket paths, and no disk between a competitor and its log
BASE = Path("/dev/shm/vaware-lab")
MARK = "VAWARE_LAB_RUN"


class Run:
    """One run of the lab. `destroy` ends everything that `spawn` started."""

    def __init__(self, name: str = ""):
        BASE.mkdir(mode=0o700, exist_ok=True)
        self.id = secrets.token_hex(4)
        self.path = BASE / self.id
        self.path.mkdir(mode=0o700)
        self.name = name
        self._processes: list[subprocess.Popen] = []
        owner = {"pid": os.getpid(), "started": _start_time(os.getpid()), "name": name}
        (self.path / "owner.json").write_text(json.dumps(owner))
        # In a session of its own: Ctrl-C in the terminal is for the lab, not for its guard.
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "vlab.runs", str(self.path)],
            cwd="/",
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def cgroup(self) -> str:
        """Name of the run's cgroup."""
        return cgroup_of(self.path)

    def spawn(
        self, args: Sequence[object], log: str, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen:
        """Start a process of this run; its stdout and stderr are appended to file `log`."""
        with (self.path / log).open("ab") as out:
            process = subprocess.Popen(
                [str(arg) for arg in args],
                env=os.environ | dict(env or {}) | {MARK: self.id},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def end(self, process: subprocess.Popen) -> None:
        """Kill one process of this run and wait for its end."""
        process.kill()
        process.wait()
        self._processes.remove(process)

    def destroy(self) -> None:
        """End all processes, remove cgroups and directory. May be called again."""
        destroy(self.path)
        for process in self._processes:
            process.wait()
        self._processes.clear()
        if self._guard.stdin:
            with contextlib.suppress(OSError):
                self._guard.stdin.close()
            self._guard.wait()


def cgroup_of(path: Path) -> str:
    """Name of the cgroup of the run in directory `path`."""
    return f"vaware-lab-{path.name}"


def destroy(path: Path) -> None:
    """Remove whatever is left of the run in directory `path`, processes first."""
    deadline = time.monotonic() + 10
    while (pids := processes(path.name)) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    cgroups.remove(cgroup_of(path))
    tracing.remove(cgroup_of(path))
    shutil.rmtree(path, ignore_errors=True)


def live() -> list[dict]:
    """Runs whose owner is alive: dicts of `path`, `name`, `pid`."""
    return [run for run in _all() if run["alive"]]


def clean() -> list[str]:
    """Remove what runs with a dead owner left behind; returns their ids."""
    dead = [run["path"] for run in _all() if not run["alive"]]
    for path in dead:
        destroy(path)
    return [path.name for path in dead]


def _all() -> list[dict]:
    found = []
    for path in sorted(BASE.glob("*/")):
        try:
            owner = json.loads((path / "owner.json").read_text())
        except (OSError, ValueError):
            owner = {"pid": 0, "started": 0, "name": ""}
        alive = owner["started"] != 0 and _start_time(owner["pid"]) == owner["started"]
        found.append({"path": path, "name": owner["name"], "pid": owner["pid"], "alive": alive})
    return found


def _start_time(pid: int) -> int:
    """Start time of a process in ticks since boot, 0 if there is none: tells reused pids apart."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 0


def processes(run_id: str) -> list[int]:
    """Ids of all processes of a run."""
    mark = f"{MARK}={run_id}".encode()
    pids = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if mark in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                    pids.append(int(entry))
    return pids


def _guard(path: Path) -> None:
    while os.read(0, 4096):
        pass
    destroy(path)


if __name__ == "__main__":
    _guard(Path(sys.argv[1]))
