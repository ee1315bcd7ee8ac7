# SPDX-License-Identifier: GPL-2.0-only
"""Bundles as a page of markdown: a line for each VM, with what its vCPUs get of the host."""

import statistics
from collections.abc import Callable, Iterable
from pathlib import Path

from vlab import LabError
from vlab.errors import EX_USAGE

from . import bundle_check
from .report import markdown_table

# As the daemon does (probers/src/snapshot.rs).
TRUSTED_CONFIDENCE = 0.5
EXAMPLES = "examples"
HEAD = """\
# What vCPUs of instance types get

Written by `make instances` from the bundles in [bundles/](bundles). Each line is one VM at one
time: another host, hour or load gives other numbers. To add a line, run `make bundle INSTANCE=...`
on the VM, and propose the file ([how](../evaluation.md#bundles)).

- **share**: part of the wanted time in which a vCPU runs: median, and worst vCPU.
- **preempted**: length of the periods for which the host stops a vCPU that has work: median over
  the vCPUs of their medians and of their 95th percentiles.
- **wake-up**: time from the wake-up of a halted vCPU until it runs: median, and worst vCPU.
- **topology**: groups of vCPUs that were found to share a hardware thread (stack), core,
  last-level cache, socket.
- **steal**: whether the hypervisor tells steal time.

"-" is not known, or not sure enough to act on.
"""
HEADER = (
    *("instance", "CPU", "hypervisor", "kernel", "vCPUs", "worth", "share", "preempted"),
    *("wake-up", "topology", "steal", "date"),
)


def render(folder: Path) -> str:
    """The page of the bundles in `folder`. Raises LabError (64) if one of them is wrong."""
    parts = [HEAD, "## Contributed\n", _table(_bundles(folder))]
    parts += ["## Examples\n", "From lab VMs, whose hosts are simulated: no instance type.\n"]
    return "\n".join([*parts, _table(_bundles(folder / EXAMPLES))])


def facts(folder: Path) -> dict:
    """The entry of the page in a manifest."""
    found = _bundles(folder) + _bundles(folder / EXAMPLES)
    return {
        "command": "make instances",
        "date": max((bundle["date"][:10] for bundle in found), default=""),
        "bundles": len(found),
        "kernels": sorted({bundle["facts"]["kernel"] for bundle in found}),
    }


def _bundles(folder: Path) -> list[dict]:
    found = [_checked(path) for path in sorted(folder.glob("*.json*"))]
    return sorted(found, key=lambda bundle: (_instance(bundle["facts"]), bundle["date"]))


def _checked(path: Path) -> dict:
    bundle = bundle_check.read(path)
    if wrong := bundle_check.problems(bundle):
        raise LabError(f"{path.name}: {wrong[0]}; see eval/bundle --check", EX_USAGE)
    return bundle


def _table(bundles: list[dict]) -> str:
    if not bundles:
        return "None yet.\n"
    return markdown_table(HEADER, [_cells(bundle) for bundle in bundles])


def _cells(bundle: dict) -> tuple[str, ...]:
    facts, snapshot = bundle["facts"], bundle["probe"].get("said")
    about = (
        _instance(facts),
        facts["machine"]["cpu"],
        facts["hypervisor"],
        facts["kernel"],
        str(facts["machine"]["cores"]),
    )
    steal = {True: "yes", False: "no"}.get(facts.get("tells_steal"), "-")
    found = _found(snapshot) if snapshot else ("-",) * 5
    return tuple(map(_plain, (*about, *found, steal, bundle["date"][:10])))


def _plain(cell: str) -> str:
    """Text that came from elsewhere, as text in a cell."""
    return (
        "".join(" " if c in "|\n\r" else f"\\{c}" if c in "\\`*_<>[]" else c for c in cell) or "-"
    )


def _instance(facts: dict) -> str:
    named = [facts.get("provider"), facts.get("instance")]
    if any(named):
        return " ".join(filter(None, named))
    return " ".join(filter(None, (facts.get("vendor"), facts.get("product")))) or "-"


def _found(snapshot: dict) -> tuple[str, ...]:
    vcpus = [vcpu for vcpu in snapshot["vcpus"] if vcpu["online"]]

    def values(name: str) -> list[float]:
        estimates = [vcpu.get(name) for vcpu in vcpus]
        return [e["value"] for e in estimates if e and e["confidence"] >= TRUSTED_CONFIDENCE]

    effective = snapshot["effective_vcpus"]
    preempted = [values("inactive_p50_ns"), values("inactive_p95_ns")]
    return (
        f"{effective['value']:.1f}" if effective else "-",
        _middle_and(min, values("share_ratio"), "{:.2f}".format),
        " / ".join(_time(statistics.median(v)) if v else "-" for v in preempted)
        if any(preempted)
        else "-",
        _middle_and(max, values("wakeup_latency_ns"), _time),
        _topology(snapshot["topology"]),
    )


def _middle_and(
    worst: Callable[[list[float]], float], values: list[float], text: Callable[[float], str]
) -> str:
    return f"{text(statistics.median(values))} ({text(worst(values))})" if values else "-"


def _time(ns: float) -> str:
    return f"{ns / 1e6:.1f} ms" if ns >= 1e6 else f"{ns / 1e3:.0f} us"


def _topology(topology: dict) -> str:
    if topology["age_s"] is None:
        return "-"
    levels = [("stack", "stacks"), ("core", "cores"), ("llc", "llcs"), ("socket", "sockets")]
    told = [_level(name, topology[key]) for name, key in levels]
    return ", ".join(filter(None, told)) or "no groups"


def _level(name: str, groups: Iterable[dict]) -> str:
    sizes = [len(g["members"]) for g in groups if g["confidence"] >= TRUSTED_CONFIDENCE]
    if not sizes:
        return ""
    same = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    return f"{len(sizes)} {name} of {same}"
