# SPDX-License-Identifier: GPL-2.0-only
"""One finder at work in a VM of one shape, under several loads, beside the host's record."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from signal import SIGKILL

from vlab import Alignment, LabError, Vm
from vlab.errors import notice
from vlab.tracing import OffCore, Period
from vlab.truth import difference

from . import loads, matching
from .finders import FINDERS, Search

SETTLE_S = 1.0
KILL_S = 60
SUMS_S = 60
# The two truths of the host, its events and its schedstat, may differ by so much.
TRUTH_ERROR_RATIO = 0.05
SLACK_NS = 20_000_000


@dataclass(frozen=True)
class Window:
    """What the host recorded during one load."""

    load: str
    span: Period
    truth: dict[int, OffCore]
    run_delay_ns: int  # of all vCPUs, by their schedstat
    run_ns: int
    sums: tuple[dict, dict] | None  # what the scheduler had counted, at two times of the guest's


def measure(
    vm: Vm, shape: str, finder: str, load_names: list[str], seconds: float
) -> Iterator[dict]:
    """Records, one per load: see `_record`. Raises LabError."""
    vm.shape(shape)
    before = vm.clocks()
    search = Search(vm, FINDERS[finder])
    search.start()
    has_sums = not FINDERS[finder].is_load
    windows = [_watch(vm, load, seconds, has_sums) for load in load_names]
    gaps = search.end()
    alignment = Alignment(before, vm.clocks())
    gaps = {
        vcpu: [(alignment.to_host(begin), alignment.to_host(end)) for begin, end in found]
        for vcpu, found in gaps.items()
    }
    for window in windows:
        yield _record(vm, shape, finder, window, gaps, alignment)


def _watch(vm: Vm, load: str, seconds: float, has_sums: bool) -> Window:
    handle = vm.spawn(loads.LOADS[load].command(vm.vcpus)) if load else None
    vm.sleep(SETTLE_S)
    with vm.inactive_periods() as recorded:
        counted_before = sums(vm) if has_sums else None
        before, begin_ns = vm.truth(), vm.clock.now_ns()
        vm.sleep(seconds)
        end_ns, after = vm.clock.now_ns(), vm.truth()
        counted = (counted_before, sums(vm)) if has_sums else None
    if handle:
        if handle.rc is not None:
            raise LabError(f"the load {load} ended in the guest: {handle.output.strip()}; mend it")
        handle.kill(SIGKILL)
        handle.wait(KILL_S)
    if not recorded.off_core:
        raise LabError("single inactive periods need tracefs on the host; use a kernel that has it")
    if recorded.lost:
        raise LabError(
            f"the host's record lost {recorded.lost} events; measure for fewer seconds at a time"
        )
    taken = difference(before, after)
    return Window(
        load or "itself",
        (begin_ns, end_ns),
        recorded.off_core,
        sum(t.delay_ns for t in taken),
        sum(t.run_ns for t in taken),
        counted,
    )


def sums(vm: Vm) -> dict:
    """What the scheduler has counted as stolen per vCPU, and when (guest/stolen.c)."""
    told = vm.run(loads.program("stolen"), SUMS_S)
    if told.rc:
        raise LabError(f"the scheduler's sums cannot be read: {told.output.strip()}")
    return json.loads(told.output)


def _record(
    vm: Vm,
    shape: str,
    finder: str,
    window: Window,
    gaps: dict[int, list[Period]],
    alignment: Alignment,
) -> dict:
    """One line of the results: the conditions, and the sums of all vCPUs (see matching.Score)."""
    total = sum(
        (
            matching.score(truth, gaps.get(vcpu, []), window.span)
            for vcpu, truth in window.truth.items()
        ),
        matching.Score(),
    )
    if (
        abs(total.stolen_ns - window.run_delay_ns)
        > TRUTH_ERROR_RATIO * window.run_delay_ns + SLACK_NS
    ):
        notice(
            f"the host's record of {shape}, {window.load} has {total.stolen_ns / 1e6:.0f} ms of "
            f"inactive time, but its threads waited for {window.run_delay_ns / 1e6:.0f} ms; "
            "do not trust this run."
        )
    if window.sums:
        counted_ns, true_ns = _counted(window, alignment)
    else:
        counted_ns, true_ns = 0, 0
    return {
        "shape": shape,
        "vcpus": vm.vcpus,
        "load": window.load,
        "finder": finder,
        "seconds": (window.span[1] - window.span[0]) / 1e9,
        "kernel": vm.kernel.release,
        "accel": vm.accel,
        "clock_error_us": alignment.error_ns / 1e3,
        "clock_drift_ppm": alignment.drift_ratio * 1e6,
        "run_ns": window.run_ns,
        "run_delay_ns": window.run_delay_ns,
        "counted_ns": counted_ns,
        "counted_true_ns": true_ns,
        **asdict(total),
    }


def _counted(window: Window, alignment: Alignment) -> tuple[int, int]:
    """What the scheduler counted as stolen between its two sums, and what the host then took."""
    first, last = window.sums
    span = alignment.to_host(first["at_ns"]), alignment.to_host(last["at_ns"])
    taken = (
        matching.total_ns(matching.clip(matching.merge(truth.inactive), span))
        for truth in window.truth.values()
    )
    return sum(last["stolen_ns"]) - sum(first["stolen_ns"]), sum(taken)
