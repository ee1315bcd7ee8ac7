# SPDX-License-Identifier: GPL-2.0-only
"""The command line of eval/timeline."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import manifest
from accuracy.activity import finders, loads
from vlab import LabError, Vm, host, tool
from vlab.errors import EX_USAGE

from . import model, picture, record, render

DESCRIPTION = """\
Draws vCPUs over time: when each was on a core of the host, which task it ran, and what the
scheduler found. Records in a lab VM, or draws what was recorded (or made) before. As HTML, or,
with --out FILE.svg, where the task that ran longest was, of several recordings below each other.
"""
EPILOG = """\
examples:
  timeline --shape floating:2 --load 'hackbench -g 2 -l 1000' --out picture.html
  timeline --draw recorded.json --from-ms 40 --to-ms 80 --out part.html
  timeline --draw eevdf.json --draw vaware.json --to-ms 100 --out both.svg

exit codes: 0 done, 64 usage, 69 something needed is missing, 75 the VM did not come up or went
away, 130 interrupted
"""
DEFAULT_LOAD = "for i in 1 2 3; do sh -c 'while :; do :; done' & done; cyclictest -q -D 60"


def _parser() -> tool.Parser:
    parser = tool.make_parser("timeline", DESCRIPTION, EPILOG)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.html|svg")
    parser.add_argument(
        "--draw",
        type=Path,
        action="append",
        metavar="FILE.json",
        help="draw this; run nothing; may be given again for a picture",
    )
    parser.add_argument("--json", type=Path, metavar="FILE.json", help="keep what was recorded")
    parser.add_argument("--from-ms", type=float, default=0, help="draw from here; default 0")
    parser.add_argument("--to-ms", type=float, default=200, help="to here; default 200")
    parser.add_argument("--shape", default="floating:2", help="see vlab shapes; default floating:2")
    parser.add_argument("--vcpus", type=int, default=4, help="default 4")
    parser.add_argument("--kernel", help="kernel of the VM (see vlab kernels)")
    parser.add_argument(
        "--scheduler",
        choices=["none", "beats", "steal"],
        default="beats",
        help="none: the kernel's own; beats, steal: scx_vaware without and with a steal clock",
    )
    parser.add_argument("--load", default=DEFAULT_LOAD, metavar="CMD", help="what the guest runs")
    parser.add_argument(
        "--settle", type=tool.seconds, default=3.0, metavar="S", help="before recording"
    )
    parser.add_argument("--title", help="default: shape and scheduler")
    parser.add_argument("--binary", type=Path, help="default target/release/scx_vaware")
    return parser


def main(argv: list[str]) -> int:
    """Run the command line; returns the exit code."""
    args = _parser().parse_args(argv)
    return tool.run("timeline", lambda: _draw(args))


def _draw(args: argparse.Namespace) -> None:
    try:
        timelines = [_read(path) for path in args.draw] if args.draw else [_record(args)]
        if args.json:
            args.json.write_text(timelines[0].to_json())
        parts = [_part(timeline, args.from_ms, args.to_ms) for timeline in timelines]
        if args.out.suffix == ".svg":
            facts = _facts(parts)
            manifest.write(args.out, picture.render(parts, _conditions(facts)), facts)
        elif len(parts) > 1:
            raise LabError("a page has one timeline; give one --draw, or --out FILE.svg", EX_USAGE)
        else:
            args.out.write_text(render.html(parts[0]))
    except (model.BadTimeline, OSError) as why:
        raise LabError(str(why), EX_USAGE) from None


def _part(timeline: model.Timeline, from_ms: float, to_ms: float) -> model.Timeline:
    begin_ns = timeline.begin_ns + round(from_ms * 1e6)
    return timeline.between(begin_ns, timeline.begin_ns + round(to_ms * 1e6))


def _facts(timelines: Sequence[model.Timeline]) -> dict:
    """The entry of their picture in a manifest. Raises LabError (64) if their builds differ."""
    if len({timeline.facts.get("build") for timeline in timelines}) > 1:
        raise LabError("the timelines are of different builds; record them anew", EX_USAGE)
    found = {"command": "make timeline", "build": "", "version": ""}
    for timeline in timelines:
        found |= {name: value for name, value in timeline.facts.items() if value}
    return found


def _conditions(facts: dict) -> str:
    """What a picture was recorded with, for people."""
    if not facts["build"]:
        return ""
    told = [f"scx_vaware {facts['version']}"] if facts["version"] else []
    told += [
        f"repository {facts['build']}",
        facts["date"],
        f"kernel {' and '.join(facts['kernels'])}",
    ]
    told += [f"{facts['clock']} time, {facts['ns_per_instruction']} ns an instruction"]
    return ", ".join(told)


def _read(path: Path) -> model.Timeline:
    return model.from_json(path.read_text())


def _record(args: argparse.Namespace) -> model.Timeline:
    host.require_root()
    finder = None if args.scheduler == "none" else args.scheduler
    clock = finders.clock(finder or "")
    version = ""
    with Vm(args.kernel, args.vcpus, shape=args.shape, **clock) as vm:
        loads.install(vm)
        if finder:
            finders.install(vm, args.binary or tool.built("release/scx_vaware"))
            version = vm.run(f"{finders.BINARY} --version").output.strip().split()[-1]
        timeline = record.record(vm, args.load, finder, args.to_ms / 1000, args.settle)
    name = "the kernel's own scheduler" if not finder else "scx_vaware"
    virtual = clock["virtual"]
    timeline.facts = manifest.of_vm(
        version, vm.kernel.release, virtual.seed, virtual.ns_per_instruction
    )
    timeline.title = args.title or f"{args.vcpus} vCPUs, {args.shape}, {name}"
    return timeline
