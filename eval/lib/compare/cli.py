# SPDX-License-Identifier: GPL-2.0-only
"""The command line of eval/compare."""

import argparse
import contextlib
import copy
import datetime
import functools
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import manifest
from vlab import LabError, accel, find_kernel, host, tool
from vlab.clock import VIRTUAL, WALL
from vlab.errors import EX_UNAVAILABLE, EX_USAGE
from vlab.presets import DEFAULT_VCPUS
from vlab.tool import make_parser, positive, positive_seconds
from workloads import SUITES, Size, Workload, catalogue, from_command, suite

from . import arms, bpfcost, html, page, picture, provenance, records, regress, report, scale, stats
from .arms import Arm
from .jobs import do_at_once
from .jobs import most as most_jobs
from .options import (
    DEFAULT_ARMS,
    DEFAULT_SHAPE,
    DESCRIPTION,
    EPILOG,
    add_arm_options,
    add_margin_option,
    add_run_options,
    add_vm_options,
    sizes,
)
from .plan import Plan, describe
from .progress import Progress
from .records import Journal
from .runner import run_on
from .stage import LabStage, LocalStage, Stage, versions

EXIT_RUN_FAILED = 1
FREE_BYTES_WANTED = 64 << 20


def main(argv: list[str]) -> int:
    """Run the command line; returns the exit code."""
    return tool.run("compare", lambda: _do(argv))


def _do(argv: list[str]) -> int:
    commands = {"report": _report, "bpfcost": _bpfcost, "scale": _scale}
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
    has_haltpoll = _is_in_lab(options) and _clock(options) == VIRTUAL
    journal = _run(options, _arms(options, has_haltpoll))
    return EXIT_RUN_FAILED if report.failed(journal.records) else 0


def _run(options: argparse.Namespace, compared: list[Arm]) -> Journal:
    """The comparison that the options ask for; tables are printed also if it ends early."""
    if options.resume and not options.out:
        raise LabError("--resume needs --out; name the file to go on with", EX_USAGE)
    _workloads(options, Size())  # speak up before a VM is booted
    stages = _stages(options, compared)
    for stage in stages:
        stage.facts["seconds"] = options.seconds
    plans = [_plan(options, compared, stage, len(stages)) for stage in stages]
    jobs = options.jobs or most_jobs(stages[0].facts["clock"], options.memory)
    estimate_s = sum(
        plan.wall_s(options.seconds, stage.facts) for plan, stage in zip(plans, stages, strict=True)
    )
    print(f"compare: {describe(plans, estimate_s / jobs)}, jobs: {jobs}", file=sys.stderr)
    if options.dry_run:
        return Journal(None)
    plans[0].prepare()
    out = Path(options.out or f"vaware-results/{datetime.datetime.now():%Y%m%d-%H%M%S}.jsonl")
    journal = Journal(out, options.resume)
    if shutil.disk_usage(out.parent).free < FREE_BYTES_WANTED:
        raise LabError(f"the disk of {out} is nearly full; make room, or give another --out")
    records.require_one_page(
        [*journal.records, stages[0].facts | plans[0].facts()],
        "go on with the build and the options of the file, or give another --out",
    )
    progress = Progress()
    progress.begin(sum(plan.runs for plan in plans), done=len(journal.records))

    def run(stage: Stage, plan: Plan) -> None:
        def sized() -> list[Workload]:
            return _workloads(options, stage.size(options.seconds))

        run_on(stage, plan, sized, journal, progress)

    try:
        with _tables_at_the_end(journal, options):
            do_at_once([functools.partial(run, *part) for part in _parts(stages, plans)], jobs)
    except KeyboardInterrupt:
        progress.say(f"interrupted; go on with --out {out} --resume and the same options")
        raise
    finally:
        progress.end()
    return journal


def _parts(stages: list[Stage], plans: list[Plan]) -> Iterator[tuple[Stage, Plan]]:
    """What can run at once: by virtual time the blocks, each of which boots anew."""
    for stage, plan in zip(stages, plans, strict=True):
        if stage.facts["clock"] == VIRTUAL:
            yield from ((copy.copy(stage), replace(plan, seeds=(seed,))) for seed in plan.seeds)
        else:
            yield stage, plan


def _plan(options: argparse.Namespace, compared: list[Arm], stage: Stage, shapes: int) -> Plan:
    chosen = _workloads(options, stage.size(options.seconds))
    return Plan(
        compared,
        chosen,
        options.seeds or range(1, 1 + (options.blocks or stats.DEFAULT_BLOCKS)),
        page_cells=(len(compared) - 1) * len(chosen) * shapes,
        margin_ratio=options.margin,
        settle_s=options.settle,
        warm_up=not options.no_warm_up,
        rehearse=options.rehearse,
    )


@contextlib.contextmanager
def _tables_at_the_end(journal: Journal, options: argparse.Namespace) -> Iterator[None]:
    """Print what there is, also when the comparison ends early."""
    try:
        yield
    finally:
        if journal.records:
            text = report.render(journal.records, options.markdown, options.margin)
            print(text, flush=True)
            print(f"compare: the runs are in {journal.path}", file=sys.stderr)
            if options.html:
                _write(options.html, html.render(journal.records, options.margin))


def _stages(options: argparse.Namespace, compared: list[Arm]) -> list[Stage]:
    """A stage for each shape; this machine if nothing asks for the lab."""
    if not _is_in_lab(options):
        return [LocalStage(compared)]
    clock = _clock(options)
    return [
        LabStage(
            compared,
            shape,
            options.kernel,
            options.vcpus,
            options.memory,
            clock,
            options.ns_per_instruction,
            options.paravirt,
        )
        for shape in dict.fromkeys(options.shape or [DEFAULT_SHAPE])
    ]


def _is_in_lab(options: argparse.Namespace) -> bool:
    asked = (options.lab, options.kernel, options.vcpus, options.shape)
    return any(asked) or options.clock not in (None, WALL)


def _clock(options: argparse.Namespace) -> str:
    return options.clock or accel.best_clock(find_kernel(options.kernel))


def _arms(options: argparse.Namespace, has_haltpoll: bool = False) -> list[Arm]:
    texts = [text for text in options.arms.split(",") if text] + options.arm
    return arms.parse_list(texts, has_haltpoll)


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


def _old_new(argv: list[str]) -> int:
    parser = make_parser("compare OLD NEW", regress.__doc__)
    parser.add_argument("old", help="a result file, or a build of scx_vaware")
    parser.add_argument("new", help="the same of the version in question")
    parser.add_argument("--only", metavar="ARM", default=arms.OURS, help="of result files")
    add_run_options(parser, regress.MARGIN_RATIO)
    options = parser.parse_args(argv)
    if regress.is_binary(options.old) != regress.is_binary(options.new):
        raise LabError("one of them is a program and the other is not; give two alike", EX_USAGE)
    if regress.is_binary(options.old):
        compared = [
            Arm(name, (str(Path(path).absolute()),))
            for name, path in (("old", options.old), ("new", options.new))
        ]
        runs = _run(options, compared).records
        if options.dry_run:
            return 0
        rows = regress.of_blocks(runs, options.margin)
    else:
        old, new = (records.read(path) for path in (options.old, options.new))
        rows = regress.of_files(old, new, options.only, options.margin)
    print(regress.table(rows))
    return regress.exit_code(rows)


def _report(argv: list[str]) -> int:
    parser = make_parser("compare report", "Prints the tables of comparisons again.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="what --out wrote")
    parser.add_argument("--markdown", action="store_true", help="as markdown")
    parser.add_argument("--page", metavar="FILE", help="write a page of markdown")
    parser.add_argument("--title", default=page.TITLE, help="of that page; default %(default)s")
    parser.add_argument("--picture", metavar="FILE", help="write the page as one picture (SVG)")
    parser.add_argument("--html", metavar="FILE", help="write a page that needs nothing else")
    add_margin_option(parser)
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
        timelines = [_read(path) for path in options.timelines]
        _write(options.html, html.render(found, options.margin, timelines))
    if options.page:
        _publish(options.page, page.render(found, options.margin, options.title), found, options)
    if options.picture:
        _publish(options.picture, picture.render(found, options.margin), found, options)
    if not (options.html or options.page or options.picture):
        print(report.render(found, options.markdown, options.margin))
    return 0


def _publish(path: str, text: str, runs: list[dict], options: argparse.Namespace) -> None:
    command = provenance.command(runs, _written(options))
    manifest.write(path, text, {"command": command} | provenance.of_runs(runs))


def _written(options: argparse.Namespace) -> list[str]:
    """The options of a report that writes to docs/results."""
    words = []
    for option, path in (("--page", options.page), ("--picture", options.picture)):
        words += [option, f"docs/results/{Path(path).name}"] if path else []
    return words + (["--title", options.title] if options.title != page.TITLE else [])


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
    parser.add_argument("--workload", default="perf-pipe,hackbench", metavar="A,B")
    parser.add_argument("--seconds", type=positive_seconds, default=0.5, metavar="S")
    parser.add_argument("--rounds", type=positive, default=1, help="runs per arm; default 1")
    add_vm_options(parser)
    options = parser.parse_args(argv)
    compared = _with_bpf(_arms(options))
    vcpus = options.vcpus
    if not options.shape:  # a pCPU for each; "honest" is a VM of its own size
        vcpus = vcpus or DEFAULT_VCPUS
        options.shape = ["pin:" + "/".join(map(str, range(vcpus)))]
    place = LabStage(compared, options.shape[0], options.kernel, vcpus, options.memory, VIRTUAL, 1)
    with place:
        known = catalogue(place.size(options.seconds))
        for name in options.workload.split(","):
            if name not in known:
                raise LabError(f"there is no workload {name}; see compare --help", EX_USAGE)
            print(name)
            print(bpfcost.table(bpfcost.measure(place, compared, known[name], options.rounds)))
    return 0


def _scale(argv: list[str]) -> int:
    parser = make_parser("compare scale", scale.__doc__)
    add_arm_options(parser, arms.OURS)
    parser.add_argument("--vcpus", type=sizes, default=[4, 16, 64], metavar="N,N,...")
    parser.add_argument("--workload", default=",".join(scale.WORKLOADS), metavar="A,B")
    parser.add_argument("--kernel", help="see vlab kernels")
    parser.add_argument("--json", metavar="FILE", help="write the numbers, too")
    parser.add_argument("--page", metavar="FILE", help="write the page docs/results/scale.md, too")
    options = parser.parse_args(argv)
    compared, names = _with_bpf(_arms(options)), options.workload.split(",")
    if unknown := set(names) - set(scale.WORKLOADS):
        raise LabError(
            f"there is no workload {unknown.pop()}; choose from {', '.join(scale.WORKLOADS)}",
            EX_USAGE,
        )
    found = []
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    taking_part = {"qemu": host.qemu().version} | versions(compared)
    try:
        measured = scale.measure(compared, options.vcpus, options.kernel, names, scale.announce)
        for size in measured:
            found.append(size)
            if options.json:
                _write(options.json, scale.as_json(found))
            if options.page:
                text = scale.page(found, taking_part, date)
                manifest.write(options.page, text, scale.facts(found, taking_part, date))
    finally:
        if found:
            print(scale.table(found))
    return 0


def _with_bpf(compared: list[Arm]) -> list[Arm]:
    for arm in compared:
        if not arm.command:
            raise LabError(f"{arm.name} has no BPF; give sched_ext schedulers", EX_USAGE)
    return compared
