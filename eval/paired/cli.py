# SPDX-License-Identifier: GPL-2.0-only
"""The command line of eval/compare."""

import argparse
import contextlib
import datetime
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from lab import LabError, Vm, tool
from lab.errors import EX_UNAVAILABLE, EX_USAGE
from lab.tool import make_parser, positive
from workloads import SUITES, Size, Workload, catalogue, from_command, suite

from . import arms, bpfcost, html, page, records, regress, report
from .arms import Arm
from .options import (
    DEFAULT_ARMS,
    DEFAULT_PAIRS,
    DEFAULT_SHAPE,
    DESCRIPTION,
    EPILOG,
    add_arm_options,
    add_run_options,
    add_vm_options,
)
from .progress import Progress
from .records import Journal
from .runner import Plan, Runner
from .stage import LabStage, LocalStage, Stage

EXIT_RUN_FAILED = 1
FREE_BYTES_WANTED = 64 << 20


def main(argv: list[str]) -> int:
    """Run the command line; returns the exit code."""
    return tool.run("compare", lambda: _do(argv))


def _do(argv: list[str]) -> int:
    commands = {"report": _report, "bpfcost": _bpfcost}
    if argv and argv[0] in commands:
        return commands[argv[0]](argv[1:])
    if len(argv) >= 2 and not argv[0].startswith("-"):
        return _old_new(argv)
    return _compare(argv)


def _compare(argv: list[str]) -> int:
    listed = EPILOG.format(
        workloads=", ".join(catalogue(Size())), suites=", ".join([*SUITES, "full"])
    )
    parser = make_parser("compare", DESCRIPTION, listed)
    add_arm_options(parser, DEFAULT_ARMS)
    add_run_options(parser)
    options = parser.parse_args(argv)
    journal = _run(options, _arms(options))
    return EXIT_RUN_FAILED if report.failed(journal.records) else 0


def _run(options: argparse.Namespace, compared: list[Arm]) -> Journal:
    """The comparison that the options ask for; tables are printed also if it ends early."""
    if options.until_aa_ratio and options.pairs:
        raise LabError("--pairs and --until-aa-ratio exclude each other; give one", EX_USAGE)
    if options.resume and not options.out:
        raise LabError("--resume needs --out; name the file to go on with", EX_USAGE)
    _workloads(options, Size())  # speak up before a VM is booted
    stage = _stage(options, compared)
    for workload in _workloads(options, stage.size(options.seconds)):
        if workload.prepare:
            workload.prepare()
    out = Path(options.out or f"vaware-results/{datetime.datetime.now():%Y%m%d-%H%M%S}.jsonl")
    journal = Journal(out, options.resume)
    if shutil.disk_usage(out.parent).free < FREE_BYTES_WANTED:
        raise LabError(f"the disk of {out} is nearly full; make room, or give another --out")
    progress = Progress()
    with _tables_at_the_end(journal, options), stage:
        # Under KVM they do more than the lab's guess before it has booted.
        plan = Plan(
            compared,
            _workloads(options, stage.size(options.seconds)),
            options.max_pairs if options.until_aa_ratio else options.pairs or DEFAULT_PAIRS,
            options.until_aa_ratio,
            options.settle,
            not options.no_warm_up,
            options.rehearse,
        )
        try:
            Runner(stage, plan, journal, _seed(journal, stage.facts, compared), progress).compare()
        except KeyboardInterrupt:
            progress.say(f"interrupted; go on with --out {out} --resume and the same options")
            raise
        finally:
            progress.end()
    return journal


@contextlib.contextmanager
def _tables_at_the_end(journal: Journal, options: argparse.Namespace) -> Iterator[None]:
    """Print what there is, also when the comparison ends early."""
    try:
        yield
    finally:
        if journal.records:
            print(report.render(journal.records, options.markdown), flush=True)
            print(f"compare: the runs are in {journal.path}", file=sys.stderr)
            if options.html:
                _write(options.html, html.render(journal.records))


def _stage(options: argparse.Namespace, compared: list[Arm]) -> Stage:
    in_lab = (options.lab, options.kernel, options.vcpus, options.shape, options.steal_clock)
    if not any(in_lab):
        return LocalStage(compared)
    return LabStage(
        compared,
        options.shape or DEFAULT_SHAPE,
        options.kernel,
        options.vcpus,
        options.memory,
        options.steal_clock,
    )


def _arms(options: argparse.Namespace) -> list[Arm]:
    return arms.parse_list([text for text in options.arms.split(",") if text] + options.arm)


def _workloads(options: argparse.Namespace, size: Size) -> list[Workload]:
    """The chosen workloads, hackbench if none is. Raises LabError: 64, or 69 for missing tools."""
    every = catalogue(size)
    chosen = []
    for text in options.workload or ([] if options.suite else ["hackbench"]):
        names = text.split(",")
        if all(name in every for name in names):
            chosen += [every[name] for name in names]
        else:
            chosen.append(_command(text, options, every))
    for workload in chosen:
        if missing := workload.missing():
            raise LabError(
                f"{workload.name} needs {', '.join(missing)}; run deploy/setup.sh eval",
                EX_UNAVAILABLE,
            )
    if options.suite:
        chosen += _of_suite(options.suite, size)
    return list({workload.name: workload for workload in chosen}.values())


def _of_suite(name: str, size: Size) -> list[Workload]:
    """The workloads of a suite whose tools are there; the others are named."""
    found = []
    for workload in suite(name, size):
        if missing := workload.missing():
            _say_once(
                f"{workload.name} is left out, for it needs {', '.join(missing)}; "
                "deploy/setup.sh eval installs it"
            )
        else:
            found.append(workload)
    return found


_said: set[str] = set()


def _say_once(line: str) -> None:
    if line not in _said:
        _said.add(line)
        print(f"compare: {line}", file=sys.stderr)


def _command(text: str, options: argparse.Namespace, every: dict[str, Workload]) -> Workload:
    if " " not in text and not shutil.which(text):
        raise LabError(
            f"there is no workload {text}, and no such command; choose from {', '.join(every)}",
            EX_USAGE,
        )
    try:
        return from_command(text, options.metric, options.better, options.timeout)
    except ValueError as why:
        raise LabError(str(why), EX_USAGE) from None


def _seed(journal: Journal, facts: dict, compared: list[Arm]) -> str:
    """A fresh seed, or that of the file to go on with. Raises LabError (64) if it does not fit."""
    if not journal.records:
        return f"{random.randrange(1 << 32):08x}"
    before = journal.records[-1]
    ours = facts | {"arms": [arm.name for arm in compared]}
    for name in (*records.CONDITIONS, "arms", "versions"):
        if before.get(name) != ours[name]:
            raise LabError(
                f"the file was made with {name} {before.get(name)}, and this is {ours[name]}; "
                "give the same options, or another --out",
                EX_USAGE,
            )
    return before["seed"]


def _old_new(argv: list[str]) -> int:
    parser = make_parser("compare OLD NEW", regress.__doc__)
    parser.add_argument("old", help="a result file, or a build of scx_vaware")
    parser.add_argument("new", help="the same of the version in question")
    parser.add_argument(
        "--margin",
        type=float,
        default=regress.MARGIN,
        help=f"a loss up to this is none; default {regress.MARGIN}",
    )
    parser.add_argument("--only", metavar="ARM", default=arms.OURS, help="of result files")
    add_run_options(parser)
    options = parser.parse_args(argv)
    if regress.is_binary(options.old) != regress.is_binary(options.new):
        raise LabError("one of them is a program and the other is not; give two alike", EX_USAGE)
    if regress.is_binary(options.old):
        compared = [
            Arm(name, (str(Path(path).absolute()),))
            for name, path in (("old", options.old), ("new", options.new))
        ]
        rows = regress.of_pairs(_run(options, compared).records, options.margin)
    else:
        old, new = (records.read(path) for path in (options.old, options.new))
        rows = regress.of_files(old, new, options.only, options.margin)
    print(regress.table(rows))
    return regress.exit_code(rows)


def _report(argv: list[str]) -> int:
    parser = make_parser("compare report", "Prints the tables of comparisons again.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="what --out wrote")
    parser.add_argument("--markdown", action="store_true", help="as markdown")
    parser.add_argument(
        "--page",
        metavar="FILE",
        help="renew the sections of these conditions in a page of markdown",
    )
    parser.add_argument("--html", metavar="FILE", help="write a page that needs nothing else")
    parser.add_argument(
        "--timelines",
        action="append",
        default=[],
        metavar="FILE",
        help="a picture of eval/timeline (SVG or HTML) to put into the page; may be given again",
    )
    options = parser.parse_args(argv)
    found = [record for path in options.files for record in records.read(path)]
    if not found:
        raise LabError("no run is in there yet; run compare with --out first", EX_UNAVAILABLE)
    if options.html:
        _write(options.html, html.render(found, [_read(path) for path in options.timelines]))
    elif options.page:
        path = Path(options.page)
        _write(options.page, page.update(_read(options.page) if path.exists() else "", found))
    else:
        print(report.render(found, options.markdown))
    return 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as why:
        raise LabError(f"{path} cannot be read ({why}); check the path", EX_UNAVAILABLE) from None


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text)
    except OSError as why:
        raise LabError(
            f"{path} cannot be written ({why.strerror}); check it", EX_UNAVAILABLE
        ) from None


def _bpfcost(argv: list[str]) -> int:
    parser = make_parser("compare bpfcost", bpfcost.__doc__)
    add_arm_options(parser, "scx_vaware,scx_bpfland")
    parser.add_argument("--rounds", type=positive, default=3, help="runs per arm; default 3")
    add_vm_options(parser)
    options = parser.parse_args(argv)
    compared = _arms(options)
    for arm in compared:
        if not arm.command:
            raise LabError(f"{arm.name} has no BPF; give sched_ext schedulers", EX_USAGE)
    with Vm(
        options.kernel,
        options.vcpus or 4,
        options.memory,
        options.shape or DEFAULT_SHAPE,
        steal_clock=options.steal_clock,
    ) as vm:
        workload = catalogue(Size(vm.accel))["hackbench"]
        print(bpfcost.table(bpfcost.measure(vm, compared, workload, options.rounds)))
    return 0
