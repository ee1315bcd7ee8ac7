# SPDX-License-Identifier: GPL-2.0-only
"""The command line of `eval/accuracy activity`."""

import argparse
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from vlab import LabError, Vm, host, tool
from vlab.errors import EX_USAGE
from vlab.vtime_shape import simulated_plan

from . import finders, loads, report, session
from .finders import FINDERS
from .loads import LOADS

DESCRIPTION = """\
How well does a guest know what the host takes from it? Runs loads in lab VMs while a finder writes
down the gaps it sees, and matches these with the host's scheduler events.
"""
# Shapes, and the vCPUs for which each is meant.
SHAPES = {
    "honest+duty:20/20": 2,
    "honest+duty:5/5": 2,
    "honest+quota:30/100": 2,
    "floating:2": 4,
    "honest": 2,
}
DEFAULT_VCPUS = 2


def _epilog() -> str:
    told = [f"  {name:<10} {load.meaning}" for name, load in LOADS.items()]
    found = [f"  {name:<10} {finder.meaning}" for name, finder in FINDERS.items()]
    return "\n".join(
        [
            "loads:",
            *told,
            "",
            "finders:",
            *found,
            "",
            "columns: a true period is found when gaps cover half of it; those from a preemption",
            "and those from a late wake-up of a halted vCPU are counted apart. A gap is false when",
            "its vCPU ran for half of it, the emulator's when it waited for one of QEMU's threads:",
            "no stolen time; emulator %: such waits in all gaps, in % of what the host took.",
            "",
            "exit codes: 0 done, 64 usage, 69 something needed is missing, 75 the VM did not come",
            "up or went away, 130 interrupted",
        ]
    )


def _parser() -> tool.Parser:
    parser = tool.make_parser("accuracy activity", DESCRIPTION, _epilog())
    parser.add_argument(
        "--shape",
        action="append",
        metavar="S",
        help=f"may be given again; default {', '.join(SHAPES)}",
    )
    parser.add_argument(
        "--vcpus", type=tool.positive, metavar="N", help="default 2, floating:2 has 4"
    )
    parser.add_argument("--load", metavar="L,L", default=",".join(LOADS), help="default: all")
    parser.add_argument("--finder", metavar="F,F", default="beats", help="default beats")
    parser.add_argument("--runs", type=tool.positive, default=3, metavar="N", help="default 3")
    parser.add_argument("--seconds", type=tool.positive, default=5, metavar="S", help="per load")
    parser.add_argument("--kernel", help="kernel of the VM (see vlab kernels)")
    parser.add_argument("--binary", type=Path, help="default target/release/scx_vaware")
    parser.add_argument("--out", type=Path, metavar="FILE", help="append each record (JSON lines)")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="print such a file; run nothing"
    )
    return parser


def main(argv: list[str]) -> int:
    """Run the command line; returns the exit code."""
    args = _parser().parse_args(argv)

    def act() -> None:
        print(report.table(tool.read_lines(args.report) if args.report else list(_run(args))))

    return tool.run("accuracy activity", act)


def _run(args: argparse.Namespace) -> Iterator[dict]:
    wanted = {
        shape: args.vcpus or SHAPES.get(shape, DEFAULT_VCPUS) for shape in args.shape or SHAPES
    }
    for shape, vcpus in wanted.items():
        simulated_plan(shape, vcpus)
    names = args.finder.split(",")
    for name in names:
        if name not in FINDERS:
            known = ", ".join(FINDERS)
            raise LabError(f"there is no finder '{name}'; choose from {known}", EX_USAGE)
    chosen = args.load.split(",")
    loads.check(chosen)
    host.require_root()
    binary = args.binary or tool.built("release/scx_vaware")
    for vcpus, name in itertools.product(dict.fromkeys(wanted.values()), names):
        with Vm(args.kernel, vcpus, shape="honest", **finders.clock(name)) as vm:
            loads.install(vm)
            finders.install(vm, binary)
            for run in range(1, args.runs + 1):
                for shape in (shape for shape, meant in wanted.items() if meant == vcpus):
                    these = [""] if FINDERS[name].is_load else chosen
                    for record in session.measure(vm, shape, name, these, args.seconds):
                        record["run"] = run
                        _keep(record, args.out)
                        yield record


def _keep(record: dict, out: Path | None) -> None:
    print(
        f"{record['shape']} {record['load']} {record['finder']}: "
        f"{record['preempted_2ms_found']} of {record['preempted_2ms']} found, "
        f"{record['false']} false",
        file=sys.stderr,
        flush=True,
    )
    if out:
        with out.open("a") as lines:
            lines.write(json.dumps(record) + "\n")
