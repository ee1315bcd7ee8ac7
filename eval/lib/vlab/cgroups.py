# SPDX-License-Identifier: GPL-2.0-only
"""CPU cgroups for single threads, v1 or v2 (threaded): a weight and a quota per vCPU.

Each vCPU thread and each competitor gets a group of its own, all below one group of the run, which
weighs as much as its members together: against the rest of the host each counts as one.
"""

import contextlib
import time
from pathlib import Path

from .errors import EX_UNAVAILABLE, LabError
from .shapes import NORMAL_WEIGHT

ROOT = Path("/sys/fs/cgroup")
V1_SHARES_PER_WEIGHT = 1024 / NORMAL_WEIGHT
V2_WEIGHT_MAX = 10000


def remove(name: str, root: Path = ROOT, patience_s: float = 5.0) -> None:
    """Remove run group `name` and its members in either hierarchy; absent ones are fine."""
    deadline = time.monotonic() + patience_s
    for parent in (root / "cpu" / name, root / name):
        while parent.is_dir():
            # EBUSY until the last killed thread has left
            for group in [g for g in parent.iterdir() if g.is_dir()] + [parent]:
                with contextlib.suppress(OSError):
                    group.rmdir()
            if time.monotonic() > deadline:
                return
            if parent.is_dir():
                time.sleep(0.02)


class CpuGroups:
    """The cgroups of one run. Raises LabError (69) without a writable cpu controller."""

    def __init__(self, name: str, root: Path = ROOT):
        if (root / "cpu" / "cpu.shares").exists():
            self.version, self.parent = 1, root / "cpu" / name
        elif "cpu" in _words(root / "cgroup.controllers"):
            self.version, self.parent = 2, root / name
        else:
            raise LabError(
                f"there is no cpu cgroup controller below {root}; "
                "mount cgroup2 there (mount -t cgroup2 none /sys/fs/cgroup) and try again",
                EX_UNAVAILABLE,
            )
        self._weights: dict[str, int] = {}
        try:
            if self.version == 2 and "cpu" not in _words(root / "cgroup.subtree_control"):
                _write(root / "cgroup.subtree_control", "+cpu")
            self.parent.mkdir(exist_ok=True)
        except OSError as why:
            raise LabError(
                f"cannot create {self.parent}: {why.strerror}; run the lab as root on the host",
                EX_UNAVAILABLE,
            ) from None

    def adopt(self, pid: int) -> None:
        """Prepare process `pid`, so that its threads may be put in groups (v2 asks for it)."""
        if self.version == 2:
            # The first threaded member turns the parent into the root of a threaded subtree.
            self._create("adopted")
            _write(self.parent / "cgroup.subtree_control", "+cpu")
            _write(self.parent / "cgroup.procs", pid)

    def put(self, group: str, tid: int, weight: int = NORMAL_WEIGHT) -> None:
        """Put thread `tid` in `group`, with `weight` in cgroup v2 units and no quota.

        Create the group if needed.
        """
        path = self._create(group)
        self._weights[group] = weight
        if self.version == 1:
            _write(path / "cpu.shares", round(weight * V1_SHARES_PER_WEIGHT))
            _write(path / "cpu.cfs_quota_us", -1)
            _write(path / "tasks", tid)
        else:
            _write(path / "cpu.weight", weight)
            _write(path / "cpu.max", "max")
            _write(path / "cgroup.threads", tid)
        self._weigh_parent()

    def limit(self, group: str, run_us: int, period_us: int) -> None:
        """Let `group` run at most `run_us` in each `period_us`."""
        path = self.parent / group
        if self.version == 1:
            _write(path / "cpu.cfs_period_us", period_us)
            _write(path / "cpu.cfs_quota_us", run_us)
        else:
            _write(path / "cpu.max", f"{run_us} {period_us}")

    def drop(self, group: str, patience_s: float = 5.0) -> None:
        """Remove `group` once its threads are gone."""
        self._weights.pop(group, None)
        deadline = time.monotonic() + patience_s
        while True:
            try:
                (self.parent / group).rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        self._weigh_parent()

    def _create(self, group: str) -> Path:
        path = self.parent / group
        if not path.is_dir():
            path.mkdir()
            if self.version == 2:
                _write(path / "cgroup.type", "threaded")
        return path

    def _weigh_parent(self) -> None:
        total = sum(self._weights.values()) or NORMAL_WEIGHT
        if self.version == 1:
            _write(self.parent / "cpu.shares", round(total * V1_SHARES_PER_WEIGHT))
        else:
            _write(self.parent / "cpu.weight", min(total, V2_WEIGHT_MAX))


def _words(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def _write(path: Path, value: object) -> None:
    path.write_text(str(value))
