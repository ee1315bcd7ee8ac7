# SPDX-License-Identifier: GPL-2.0-only
"""The command line of `eval/accuracy capacity`."""

import argparse
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from vlab import tool

from . import report, trials
from .trials import CASES, Case

DESCRIPTION = """\
Checks what `scx_vaware probe` finds in lab VMs against what the host did.

  shares     their error: busy guest after 2 s, idle guest after 10 s (--budgets 0.5,1,2,5)
  duty       what probing uses of a vCPU
  slowdown   of a fully busy honest guest, with the noise (A/A) beside it
  reaction   time from a change of shape to a snapshot that shows it
  report     print the table again from files of --out
"""
CHANGES = [("honest", "honest+hog"), ("honest+hog", "honest")]


def main(argv: list[str]) -> int:
    """Run the command line; returns the exit code."""
    options = _parse(argv)
    return tool.run("accuracy capacity", lambda: _tell(options))


def _tell(options: argparse.Namespace) -> None:
    if options.command == "report":
        done = [trial for path in options.files for trial in tool.read_lines(path)]
    else:
        done = _run(options)
    print(report.table(done))
    if options.plot:
        options.plot.write_text(report.plot(done))


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = tool.make_parser("accuracy capacity", DESCRIPTION)
    parser.add_argument("command", choices=["shares", "duty", "slowdown", "reaction", "report"])
    parser.add_argument("files", nargs="*", type=Path, help="for report")
    parser.add_argument("--runs", type=int, default=3, help="of each trial; default 3")
    parser.add_argument("--budgets", default="1", help="in percent; default 1")
    parser.add_argument("--cases", default="", help="shapes by name, joined by commas; default all")
    parser.add_argument("--guest", choices=["busy", "idle", "both"], default="both")
    parser.add_argument("--kernel", help="see vlab kernels")
    parser.add_argument("--out", type=Path, help="append each trial to this file, as JSON")
    parser.add_argument("--plot", type=Path, help="write error against budget as SVG")
    options = parser.parse_args(argv)
    known = [case.name for case in CASES]
    wanted = [name for name in options.cases.split(",") if name]
    for name in wanted:
        if name not in known:
            parser.error(f"there is no shape {name!r}; choose of {', '.join(known)}")
    options.cases = [case for case in CASES if case.name in wanted or not wanted]
    options.loads = {"busy": [True], "idle": [False], "both": [True, False]}[options.guest]
    return options


def _run(options: argparse.Namespace) -> list[dict]:
    done = []
    for trial in _trials(options):
        done.append(trial)
        if options.out:
            with options.out.open("a") as out:
                print(json.dumps(trial), file=out)
        print(json.dumps(trial), file=sys.stderr)
    return done


def _trials(options: argparse.Namespace) -> Iterator[dict]:
    if options.command == "shares":
        yield from _shares(options)
        return
    with trials.booted(2, options.kernel) as vm:
        for _ in range(options.runs):
            if options.command == "duty":
                yield from (trials.duty(vm, is_busy) for is_busy in options.loads)
            elif options.command == "slowdown":
                yield from (trials.work(vm, probing) for probing in (False, True, False))
            else:
                for (before, after), is_busy in itertools.product(CHANGES, options.loads):
                    yield trials.reaction(vm, before, after, is_busy)


def _shares(options: argparse.Namespace) -> Iterator[dict]:
    """A boot per number of vCPUs, then all shapes of that size in turn."""
    by_size: dict[int, list[Case]] = {}
    for case in options.cases:
        by_size.setdefault(case.vcpus, []).append(case)
    budgets = [float(budget) for budget in options.budgets.split(",")]
    for vcpus, cases in by_size.items():
        with trials.booted(vcpus, options.kernel) as vm:
            for _, case, is_busy, budget in itertools.product(
                range(options.runs), cases, options.loads, budgets
            ):
                yield trials.accuracy(vm, case, is_busy, budget)
