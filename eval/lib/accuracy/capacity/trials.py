# SPDX-License-Identifier: GPL-2.0-only
"""One VM, one shape, one question; each trial gives a dict for a line of JSON."""

import contextlib
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

from vlab import Vm, tool, truth
from workloads import spinners

BINARY = tool.built("release/scx_vaware")
IN_GUEST = "/tmp/scx_vaware"
LIMIT_S = 120
SETTLE_S = 0.5  # from a change of shape or load to the first look at it
REFERENCE_S = 3


@dataclass(frozen=True)
class Case:
    """A shape with its number of vCPUs."""

    name: str
    vcpus: int
    shape: str


CASES = [
    Case("quota 30/100", 2, "honest+quota:30/100"),
    Case("quota 10/20", 2, "honest+quota:10/20"),
    Case("duty 5/5", 2, "honest+duty:5/5"),
    Case("hog", 2, "honest+hog"),
    Case("weight 1024:256", 2, "floating:1+weight:1024,256"),
    Case("floating 4 on 2", 4, "floating:2"),
    Case("packed 8 on 2", 8, "packed:4"),
    Case("honest", 2, "honest"),
]


@contextlib.contextmanager
def booted(vcpus: int, kernel: str | None = None) -> Iterator[Vm]:
    """A VM with the built binary in it."""
    with Vm(kernel=kernel, vcpus=vcpus) as vm:
        vm.put(BINARY, IN_GUEST)
        yield vm


@contextlib.contextmanager
def busy(vm: Vm, is_busy: bool = True) -> Iterator[None]:
    """A spinner on each vCPU, or nothing."""
    if not is_busy:
        time.sleep(SETTLE_S)
        yield
        return
    tasks = [f"vcpu={vcpu}" for vcpu in range(vm.vcpus)]
    work = vm.spawn(spinners.command(LIMIT_S, *tasks))
    try:
        time.sleep(2 * SETTLE_S)
        yield
    finally:
        work.kill()
        work.wait(LIMIT_S)


def shares(vm: Vm, seconds: float) -> list[float]:
    """What the host gives each vCPU of the time it wants, over so many seconds from now."""
    before = vm.truth()
    time.sleep(seconds)
    return _shares(before, vm.truth())


def _shares(before: list, after: list) -> list[float]:
    return [t.run_ns / max(1, t.run_ns + t.delay_ns) for t in truth.difference(before, after)]


def probe(vm: Vm, seconds: float, budget: float) -> dict:
    """What `scx_vaware probe --json` says after so many seconds, with a budget in percent."""
    done = vm.run(f"{IN_GUEST} probe --json --duration {seconds} --budget {budget}", LIMIT_S)
    if done.rc:
        raise RuntimeError(f"the probe failed: {done.output}")
    return json.loads(done.output)


def accuracy(vm: Vm, case: Case, is_busy: bool, budget: float) -> dict:
    """The error of the shares found: busy after 2 s, idle after 10 s.

    The truth of a busy guest is what the host did meanwhile; that of an idle one is what it does
    right afterwards, when all vCPUs are busy.
    """
    vm.shape(case.shape)
    with busy(vm, is_busy):
        before = vm.truth()
        found = probe(vm, 2 if is_busy else 10, budget)
        true = _shares(before, vm.truth())
    if not is_busy:
        with busy(vm):
            true = shares(vm, REFERENCE_S)
    values = [vcpu["share_ratio"]["value"] for vcpu in found["vcpus"]]
    errors = [abs(value - share) for value, share in zip(values, true, strict=True)]
    return {
        "trial": "accuracy",
        "case": case.name,
        "guest": "busy" if is_busy else "idle",
        "budget_percent": budget,
        "found": values,
        "true": true,
        "mean_error": statistics.mean(errors),
        "worst_error": max(errors),
        "confidence": min(vcpu["share_ratio"]["confidence"] for vcpu in found["vcpus"]),
        "probe_ratio": max(vcpu["probe_ratio"] for vcpu in found["vcpus"]),
    }


def duty(vm: Vm, is_busy: bool, seconds: float = 30) -> dict:
    """What probing uses of a vCPU: by its own account, and on an idle guest by the host's."""
    vm.shape("honest")
    with busy(vm, is_busy):
        run_ratios = {}
        for budget in (0, 1):
            before = vm.truth()
            found = probe(vm, seconds, budget)
            passed = truth.difference(before, vm.truth())
            run_ratios[budget] = statistics.mean(t.run_ns for t in passed) / seconds / 1e9
    return {
        "trial": "duty",
        "guest": "busy" if is_busy else "idle",
        "own_account": max(vcpu["probe_ratio"] for vcpu in found["vcpus"]),
        "host_account": None if is_busy else run_ratios[1] - run_ratios[0],
    }


def work(vm: Vm, probing: bool, seconds: float = 8) -> dict:
    """Turns of equal work that a fully busy honest guest does, with and without probing."""
    vm.shape("honest")
    probe = vm.spawn(f"exec {IN_GUEST} probe --watch --json >/dev/null") if probing else None
    time.sleep(SETTLE_S)
    tasks = [f"vcpu={vcpu}" for vcpu in range(vm.vcpus)]
    done = vm.run(spinners.command(seconds, *tasks), LIMIT_S)
    if probe:
        probe.kill()
        probe.wait(LIMIT_S)
    turns = sum(task["turns"] for task in spinners.parse(done.output))
    return {"trial": "work", "probing": probing, "turns": turns}


def reaction(vm: Vm, before: str, after: str, is_busy: bool, limit_s: float = 40) -> dict:
    """Time from a change of shape to the first snapshot within 10 points of the new shares.

    The new shares of a busy guest are what the host gives it in the first seconds after the change;
    those of an idle one have to be measured with a busy one, before.
    """
    wanted = None
    if not is_busy:
        vm.shape(after)
        with busy(vm):
            wanted = shares(vm, REFERENCE_S)
    vm.shape(before)
    with busy(vm, is_busy):
        probing = vm.spawn(f"exec {IN_GUEST} probe --watch --json")
        time.sleep(6)
        read = len(probing.output)
        vm.shape(after)
        begin, truth_before = time.monotonic(), vm.truth()
        seen: list[tuple[float, dict]] = []
        took_s = None
        while took_s is None and (passed_s := time.monotonic() - begin) < limit_s:
            lines = probing.output[read:].rpartition("\n")[0]
            read += len(lines)
            snapshots = (line for line in lines.splitlines() if line.startswith("{"))
            seen += [(passed_s, json.loads(line)) for line in snapshots]
            if wanted is None and passed_s >= REFERENCE_S:
                wanted = _shares(truth_before, vm.truth())
            if wanted:
                took_s = next((at_s for at_s, found in seen if _near(found, wanted)), None)
            time.sleep(0.02)
        probing.kill()
        probing.wait(LIMIT_S)
    return {
        "trial": "reaction",
        "change": f"{before} -> {after}",
        "guest": "busy" if is_busy else "idle",
        "seconds": took_s,
    }


def _near(snapshot: dict, wanted: list[float]) -> bool:
    found = [vcpu["share_ratio"] for vcpu in snapshot["vcpus"]]
    return all(
        share and abs(share["value"] - true) <= 0.1
        for share, true in zip(found, wanted, strict=True)
    )
