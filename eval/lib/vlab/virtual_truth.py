# SPDX-License-Identifier: GPL-2.0-only
"""What the simulated host did to each vCPU, in virtual time."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from .clock import VirtualClock
from .tracing import OffCore
from .truth import InactivePeriods, VcpuTruth


def read(clock: VirtualClock) -> list[VcpuTruth]:
    """The truth of each vCPU since the VM started."""
    _, *lines = clock.ask("truth\n", lambda answer: int(answer.split()[1]))
    return [
        VcpuTruth(vcpu, 0, *(int(word) for word in line.split()[:3]))
        for vcpu, line in enumerate(lines)
    ]


@contextlib.contextmanager
def recorded(
    clock: VirtualClock, folder: Path, vcpus: int, result: InactivePeriods
) -> Iterator[None]:
    """Record the host's scheduling while the context lasts; `result` is filled at its end."""
    log = folder / "schedule.log"
    clock.ask(f"record {log}\n")
    try:
        yield
    finally:
        clock.ask("record\n")
    result.source = "simulated host"
    result.off_core = off_core(log.read_text(), vcpus)
    result.periods = {vcpu: off.inactive for vcpu, off in result.off_core.items()}


def off_core(log: str, vcpus: int) -> dict[int, OffCore]:
    """Each vCPU's periods off its pCPU, by the emulator's record of them.

    A line is: time in ns, pCPU, entity, what happened; entities from `vcpus` on are competitors.
    What began before the record, or ends after it, is left out.
    """
    found = {vcpu: OffCore() for vcpu in range(vcpus)}
    since: dict[int, tuple[int, str]] = {}  # when it got off, and how
    for line in log.splitlines():
        now_ns, _, entity, why = line.split()
        vcpu, at_ns = int(entity), int(now_ns)
        if vcpu >= vcpus:
            continue
        if why == "in":
            begun_ns, kind = since.pop(vcpu, (at_ns, ""))
            if kind:
                getattr(found[vcpu], kind).append((begun_ns, at_ns))
        elif why in ("preempted", "throttled"):
            since[vcpu] = (at_ns, "preempted")
        elif why == "halted":
            since[vcpu] = (at_ns, "asleep")
        elif why == "woken":
            begun_ns, kind = since.pop(vcpu, (at_ns, ""))
            if kind == "asleep":
                found[vcpu].asleep.append((begun_ns, at_ns))
            since[vcpu] = (at_ns, "woken")
    return found
