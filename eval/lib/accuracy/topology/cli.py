# SPDX-License-Identifier: GPL-2.0-only
"""The command line of `eval/accuracy topology`."""

import argparse
import collections
import json
import statistics
from pathlib import Path

import vlab
from vlab import tool
from vlab.errors import EX_UNAVAILABLE, EX_USAGE
from workloads.workload import percentile

from .trials import Prober, Trial

BINARY = tool.built("release/examples/vtop")
IN_TIME_S = 5.0
# By the number of vCPUs: those that stack, those that float, those with a core each.
SHAPES = {
    2: {"apart": ["honest"], "stacked": ["packed:2"]},
    4: {
        "stacked": ["packed:2", "stacked:0,1", "stacked:1,3", "stacked:0,2"],
        "floating": ["floating:2"],
    },
    8: {"stacked": ["packed:4"], "floating": ["floating:2"]},
}


def main(argv: list[str]) -> int:
    parser = tool.make_parser(
        "accuracy topology", "Holds the stacks that a guest finds against the host's; needs root."
    )
    parser.add_argument("--vcpus", type=int, choices=SHAPES, default=4)
    parser.add_argument("--kernel", default=None, help="see vlab kernels")
    parser.add_argument("--binary", type=Path, default=BINARY, help="the prober to run")
    parser.add_argument("--load", choices=["idle", "busy"], default="idle")
    parser.add_argument("--json", type=Path, help="append a line for each trial to this file")
    commands = parser.add_subparsers(dest="command", required=True)
    trials = commands.add_parser("trials", help="fresh probers in one shape, right or wrong")
    trials.add_argument("case", choices=["stacked", "floating", "apart"])
    trials.add_argument("--count", type=int, default=100)
    trials.add_argument("--seconds", type=float, default=12, help="time for each; default 12")
    cost = commands.add_parser("cost", help="time, probes and rounds of full and validating passes")
    cost.add_argument("--shape", help="default: apart if the vCPUs can be, else floating")
    cost.add_argument("--seconds", type=float, default=20)
    changes = commands.add_parser(
        "changes", help="seconds from a change of shape to the new groups"
    )
    changes.add_argument("--count", type=int, default=40)
    changes.add_argument("--pause", type=float, default=2.0, help="seconds between validations")
    args = parser.parse_args(argv)
    return tool.run("accuracy topology", lambda: _run(args))


def _run(args: argparse.Namespace) -> None:
    if not args.binary.exists():
        raise vlab.LabError(
            f"{args.binary} is missing; cargo build --release -p probers --example vtop",
            EX_UNAVAILABLE,
        )
    if args.command == "trials" and args.case not in SHAPES[args.vcpus]:
        cases = ", ".join(SHAPES[args.vcpus])
        raise vlab.LabError(f"{args.vcpus} vCPUs have no case {args.case}; try {cases}", EX_USAGE)
    with vlab.Vm(kernel=args.kernel, vcpus=args.vcpus) as vm:
        prober = Prober(vm, args.binary)
        with prober.load(args.load):
            {"trials": _trials, "cost": _cost, "changes": _changes}[args.command](prober, args)


def _trials(prober: Prober, args: argparse.Namespace) -> None:
    shapes = SHAPES[args.vcpus][args.case]
    done: list[Trial] = []
    for number in range(args.count):
        trial = prober.trial(shapes[number % len(shapes)], args.load, args.seconds)
        done.append(trial)
        _note(args, {"case": args.case, **vars(trial), "verdict": vars(trial.verdict)})
    outcomes = collections.Counter(trial.verdict.outcome for trial in done)
    by_chance = sum(trial.verdict.by_chance for trial in done)
    decided_s = sorted(trial.decided_s for trial in done if trial.decided_s is not None)
    in_time = sum(seconds <= IN_TIME_S for seconds in decided_s)
    print(
        f"{args.vcpus} vCPUs {args.case} {args.load}: {outcomes['right']} right, "
        f"{outcomes['wrong']} wrong (in {by_chance} the host had them on one core throughout), "
        f"{outcomes['undecided']} undecided within {args.seconds:g} s"
    )
    if decided_s:
        print(
            f"  decided within {IN_TIME_S:g} s: {in_time} of {len(done)}; "
            f"p50 {statistics.median(decided_s):.1f} s, max {decided_s[-1]:.1f} s"
        )


def _cost(prober: Prober, args: argparse.Namespace) -> None:
    shapes = SHAPES[args.vcpus]
    shape = args.shape or shapes.get("apart", shapes.get("floating"))[0]
    prober.vm.shape(shape)
    full, *validations = prober.passes(args.seconds, 0.5)
    took_ms = [found["took_ms"] for found in validations]
    print(
        f"{args.vcpus} vCPUs {shape} {args.load}: full {full['took_ms']:.1f} ms, "
        f"{full['probes']} probes in {full['rounds']} rounds; "
        f"validation p50 {statistics.median(took_ms):.1f}, max {max(took_ms):.1f} ms, "
        f"{validations[-1]['probes']} probes in {validations[-1]['rounds']} rounds"
    )


def _changes(prober: Prober, args: argparse.Namespace) -> None:
    apart, stacked = {2: ("honest", "packed:2"), 4: ("packed:2", "stacked:0,2")}.get(
        args.vcpus, ("floating:2", "packed:4")
    )
    took_s: dict[str, list[float]] = {}
    for shape, seconds in prober.changes([stacked, apart], args.pause, args.count):
        took_s.setdefault(shape, []).append(seconds)
        _note(args, {"shape": shape, "load": args.load, "seconds": seconds})
    for shape, all_s in took_s.items():
        p95 = percentile(collections.Counter(all_s), 95)
        print(
            f"{args.vcpus} vCPUs {args.load}, to {shape}: p50 {statistics.median(all_s):.2f} s, "
            f"p95 {p95:.2f} s, max {max(all_s):.2f} s of {len(all_s)}"
        )


def _note(args: argparse.Namespace, line: dict) -> None:
    if args.json:
        with args.json.open("a") as file:
            file.write(json.dumps(line) + "\n")
