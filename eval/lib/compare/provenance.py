# SPDX-License-Identifier: GPL-2.0-only
"""Where runs come from: their entry in a manifest (manifest.py), and how to repeat them."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from vlab import vtime_presets
from workloads.workload import as_given

from .arms import OURS
from .stage import LOCAL_SHAPE

RUNS = "runs.jsonl"


def of_versions(versions: Mapping[str, str]) -> dict:
    """What an entry has of the versions that took part."""
    ours = (told.split()[1] for told in versions.values() if told.startswith(f"{OURS} "))
    return {
        "build": versions["repository"],
        "version": next(ours, ""),
        "emulator": f"qemu {versions['qemu']}" if "qemu" in versions else "",
    }


def of_runs(runs: Sequence[dict]) -> dict:
    """What an entry has of runs, which are not empty."""
    first = runs[0]
    vms = [run.get("arm_vm", run) for run in runs]
    return of_versions(first["versions"]) | {
        "date": max(run["date"] for run in runs)[:10],
        "runs": len(runs),
        "seeds": spans({run["seed"] for run in runs}),
        "kernels": sorted({vm["kernel"] for vm in vms}),
        "clock": first["clock"],
        "ns_per_instruction": first["ns_per_instruction"],
    }


def command(runs: Sequence[dict], written: Sequence[str] = ()) -> str:
    """The commands that make such runs and what is `written` of them, by options of the report.

    Paths of the machine are not in it.
    """
    first = runs[0]
    plain, named = [], []
    for name in first["arms"]:
        arm = _arm(name, next((run for run in runs if run["arm"] == name), {}))
        (named if "," in arm else plain).append(arm)
    words = ["eval/compare"]
    if first["shape"] != LOCAL_SHAPE:
        words += ["--clock", first["clock"], "--kernel", first["kernel"]]
        for shape in dict.fromkeys(run["shape"] for run in runs):
            words += ["--shape", shape]
        # A named VM has its own number of vCPUs.
        sizes = {run["vcpus"] for run in runs if run["shape"] not in vtime_presets.PRESETS}
        words += [word for size in sizes for word in ("--vcpus", f"{size}")]
    given = given_commands(runs)
    if suite := sorted({run["workload"] for run in runs} - given.keys()):
        words += ["--workload", ",".join(suite)]
    words += [word for told in given.values() for word in ("--workload", told)]
    words += ["--arms", ",".join(plain), *(word for arm in named for word in ("--arm", arm))]
    words += ["--seeds", spans({run["seed"] for run in runs}), "--settle", f"{first['settle_s']:g}"]
    if "seconds" in first:
        words += ["--seconds", f"{first['seconds']:g}"]
    if speed := first["ns_per_instruction"]:
        words += ["--ns-per-instruction", f"{speed:g}"]
    if "paravirt" in first:
        words += ["--paravirt", ",".join(first["paravirt"])]
    words += ["--rehearse"] * first["rehearsed"]
    report = ["eval/compare", "report", RUNS, *written]
    return f"{shlex.join([*words, '--out', RUNS])} && {shlex.join(report)}"


def given_commands(runs: Iterable[dict]) -> dict[str, str]:
    """The workloads that were given as commands, by their names, which are cut."""
    told = {run["workload"]: as_given(run["workload"], run["command"]) for run in runs}
    return {name: command for name, command in told.items() if command}


def _arm(name: str, run: dict) -> str:
    """How the arm was asked for: a name of its own comes with the command behind it."""
    given = run.get("arm_command") or []
    if not given or name in ("off", Path(given[0]).name):
        return name
    return f"{name}={Path(given[0]).name}:{shlex.join(given[1:])}"


def spans(numbers: Iterable[int]) -> str:
    """Numbers as options.seeds() reads them: "1-5,8"."""
    found = sorted(numbers)
    breaks = [i + 1 for i, (one, other) in enumerate(pairwise(found)) if other != one + 1]
    parts = [found[i:j] for i, j in pairwise([0, *breaks, len(found)])]
    return ",".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else f"{p[0]}" for p in parts)
