# SPDX-License-Identifier: GPL-2.0-only
"""Who finds gaps in the guest, and writes them down as lines of JSON."""

import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT

from vlab import LabError, Vm, virtual_time
from vlab.errors import EX_UNAVAILABLE
from vlab.tracing import Period

from . import loads

BINARY = "/tmp/scx_vaware"
LOG = "/tmp/gaps.jsonl"
START_S = 60  # slow hosts included
END_S = 60
WITNESS_THRESHOLD_US = 300


@dataclass(frozen=True)
class Finder:
    """A command in the guest that says `ready`, ends on SIGINT, and has then written LOG."""

    command: str
    ready: str
    meaning: str
    is_load: bool = False  # it keeps all vCPUs busy itself, and takes no load besides


FINDERS = {
    "beats": Finder(
        f"{BINARY} --activity-log {LOG}", "Ctrl-C", "scx_vaware, without a steal clock"
    ),
    "steal": Finder(
        f"{BINARY} --activity-log {LOG}",
        "Ctrl-C",
        "scx_vaware, with KVM's steal clock",
    ),
    "witness": Finder(
        f"echo Ctrl-C; exec {loads.program('witness')} {WITNESS_THRESHOLD_US} >{LOG}",
        "Ctrl-C",
        "a spinner on each vCPU that watches the clock: no scheduler, no other load",
        is_load=True,
    ),
}


def clock(finder: str) -> dict:
    """How a VM is booted for a finder: by virtual time, in which it has a steal clock or none."""
    left_out = () if finder == "steal" else ("steal",)
    paravirt = tuple(word for word in virtual_time.PARAVIRT if word not in left_out)
    return {"clock": "virtual", "virtual": virtual_time.Options(paravirt=paravirt)}


def install(vm: Vm, binary: Path) -> None:
    """Bring the scheduler into a VM. Raises LabError (69) if it is not built."""
    if not binary.is_file():
        raise LabError(f"there is no {binary}; run make build, or name one with --binary")
    vm.put(binary, BINARY)


class Search:
    """A finder that runs in the guest from `start` to `end`."""

    def __init__(self, vm: Vm, finder: Finder):
        self._vm = vm
        self._finder = finder

    def start(self) -> None:
        """Returns when it is ready. Raises LabError (69)."""
        self._vm.run(f"rm -f {LOG}")
        self._handle = self._vm.spawn(self._finder.command)
        clock = self._vm.clock
        deadline_ns = clock.now_ns() + START_S * 10**9
        while self._finder.ready not in self._handle.output:
            if self._handle.rc is not None or clock.now_ns() > deadline_ns:
                self._handle.kill(SIGINT)
                raise LabError(
                    f"'{self._finder.command}' did not start in the guest: "
                    f"{self._handle.output.strip()}; try it there with vlab",
                    EX_UNAVAILABLE,
                )
            clock.sleep(0.05)

    def end(self) -> dict[int, list[Period]]:
        """End it; returns the gaps it found per vCPU, on the guest's clock."""
        if self._handle.rc is not None:
            raise LabError(
                f"'{self._finder.command}' ended by itself: {self._handle.output.strip()}; "
                "try it in the guest with vlab",
                EX_UNAVAILABLE,
            )
        self._handle.kill(SIGINT)
        ended = self._handle.wait(END_S)
        if ended.rc:
            raise LabError(f"'{self._finder.command}' failed: {ended.output.strip()}; mend it")
        here = self._vm.folder / "gaps.jsonl"
        self._vm.get(shlex.quote(LOG), here)
        return read_gaps(here.read_text().splitlines())


def read_gaps(lines: Iterable[str]) -> dict[int, list[Period]]:
    """Gaps per vCPU from a log."""
    gaps: dict[int, list[Period]] = {}
    for gap in map(json.loads, lines):
        gaps.setdefault(gap["vcpu"], []).append((gap["start_ns"], gap["end_ns"]))
    return gaps
