# SPDX-License-Identifier: GPL-2.0-only
"""The command line of eval/compare."""

import argparse
import contextlib
import datetime
import random
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from lab import LabError, Vm
from lab.errors import EX_INTERRUPTED, EX_UNAVAILABLE, EX_USAGE
from workloads import SUITES, Size, Workload, catalogue, from_command, suite

from . import arms, bpfcost, html, records, regress, report
from .arms import Arm
from .progress import Progress
from .records import Journal
from .runner import Plan, Runner
from .stage import LabStage, LocalStage, Stage

DESCRIPTION = """\
Compares schedulers on workloads by interleaved pairs of runs: on this machine, or with --lab in a
lab VM with shaped vCPUs.

The first arm is the baseline. It runs twice in each block, so that the noise (A/A) is measured
under the conditions of the comparison (A/B). Arms:
  eevdf                        the kernel's own scheduler (also: kernel)
  cfs                          that of Linux 6.1, in a VM of its own (with --lab)
  scx_NAME                     a sched_ext scheduler: this repository's, or one in PATH
  off                          scx_vaware with every policy switched off
  peers                        scx_lavd, scx_bpfland and scx_cosmos, as far as they are installed
  ablations                    scx_vaware with each policy alone
  all                          eevdf, cfs (if its kernel is there), scx_vaware, off, peers
  scx_NAME:--flag value        with arguments
  NAME=scx_NAME:--flag value   under a name of its own
  ...@KERNEL                   in a VM of its own with this kernel (with --lab)
A workload is one of the list below, or any shell command; its metric is then its wall time, or the
number that --metric finds.
"""
EPILOG = """\
workloads: {workloads}
suites:    {suites}

other commands:
  compare OLD NEW        two result files, or two builds of scx_vaware: is the new one worse?
  compare report FILE... tables of what was found (text, --markdown, --html FILE)
  compare bpfcost        what the callbacks of schedulers cost in BPF

exit codes: 0 done, 1 done and a run has failed, 3 worse (OLD NEW), 4 undecided (OLD NEW),
64 usage, 69 something needed is missing, 75 another scheduler is loaded, or the VM did not come up
or went away, 77 root is needed, 130 interrupted
"""
EXIT_RUN_FAILED = 1
DEFAULT_PAIRS = 10
DEFAULT_ARMS = "eevdf,scx_vaware"
DEFAULT_SHAPE = "floating:2"
FREE_BYTES_WANTED = 64 << 20
HELP_SETTLE = "wait between a scheduler's start and the workload's; default 2"


def main(argv: list[str]) -> int:
    """Run the command line; returns the exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _interrupt)
    commands = {"report": _report, "bpfcost": _bpfcost}
    try:
        if argv and argv[0] in commands:
            return commands[argv[0]](argv[1:])
        if len(argv) >= 2 and not argv[0].startswith("-"):
            return _old_new(argv)
        return _compare(argv)
    except LabError as why:
        print(f"compare: {why}", file=sys.stderr)
        return why.exit_code
    except KeyboardInterrupt:
        return EX_INTERRUPTED


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, and exits with 64."""

    def error(self, message: str) -> None:
        self.exit(EX_USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parser(prog: str, description: str, epilog: str = "") -> Parser:
    return Parser(
        prog=prog,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_vm_options(parser: argparse.ArgumentParser) -> None:
    lab = parser.add_argument_group("the lab VM")
    lab.add_argument("--kernel", help="see vlab kernels")
    lab.add_argument("--vcpus", type=_positive, help="default: the preset's, else 4")
    lab.add_argument("--memory", type=_positive, default=3072, metavar="MIB")
    lab.add_argument("--shape", help=f"see vlab shapes; default {DEFAULT_SHAPE}")


def _add_arm_options(parser: argparse.ArgumentParser, default_arms: str) -> None:
    parser.add_argument(
        "--arms", default=default_arms, metavar="A,B,...", help=f"default {default_arms}"
    )
    parser.add_argument(
        "--arm",
        action="append",
        default=[],
        help="one more arm, which may have commas in it; may be given again",
    )


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lab", action="store_true", help="in a lab VM; implied by the options of the VM"
    )
    what = parser.add_argument_group("what runs")
    what.add_argument(
        "--workload",
        action="append",
        default=[],
        metavar="W",
        help="by name (also A,B), or any shell command in quotes; may be given again",
    )
    what.add_argument("--suite", choices=[*SUITES, "full"], help="several workloads")
    what.add_argument(
        "--metric",
        metavar="REGEX",
        help="finds the number of a command, in parentheses, in its output; default: wall time",
    )
    what.add_argument(
        "--better", choices=["lower", "higher"], default="lower", help="default lower"
    )
    what.add_argument("--timeout", type=_positive, default=120, metavar="S", help="of a command")
    what.add_argument(
        "--seconds", type=float, default=4.0, metavar="S", help="that a named workload lasts"
    )
    how = parser.add_argument_group("how long")
    how.add_argument("--pairs", type=_positive, help=f"of each workload; default {DEFAULT_PAIRS}")
    how.add_argument(
        "--until-aa-ratio",
        type=float,
        metavar="R",
        help="add pairs until the A/A interval is within plus or minus R, such as 0.03",
    )
    how.add_argument("--max-pairs", type=_positive, default=60, help="with --until-aa-ratio")
    how.add_argument("--settle", type=float, default=2.0, metavar="S", help=HELP_SETTLE)
    how.add_argument("--no-warm-up", action="store_true", help="without the runs before the first")
    out = parser.add_argument_group("results")
    out.add_argument("--out", metavar="FILE", help="JSON lines, one per run; default: by the date")
    out.add_argument("--resume", action="store_true", help="go on with the file of --out")
    out.add_argument("--html", metavar="FILE", help="write a report, too")
    out.add_argument("--markdown", action="store_true", help="the table as markdown")
    _add_vm_options(parser)


def _compare(argv: list[str]) -> int:
    listed = EPILOG.format(
        workloads=", ".join(catalogue(Size())), suites=", ".join([*SUITES, "full"])
    )
    parser = _parser("compare", DESCRIPTION, listed)
    _add_arm_options(parser, DEFAULT_ARMS)
    _add_run_options(parser)
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
    if not (options.lab or options.kernel or options.vcpus or options.shape):
        return LocalStage(compared)
    return LabStage(
        compared, options.shape or DEFAULT_SHAPE, options.kernel, options.vcpus, options.memory
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
    parser = _parser("compare OLD NEW", regress.__doc__)
    parser.add_argument("old", help="a result file, or a build of scx_vaware")
    parser.add_argument("new", help="the same of the version in question")
    parser.add_argument(
        "--margin",
        type=float,
        default=regress.MARGIN,
        help=f"a loss up to this is none; default {regress.MARGIN}",
    )
    parser.add_argument("--only", metavar="ARM", default=arms.OURS, help="of result files")
    _add_run_options(parser)
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
    parser = _parser("compare report", "Prints the tables of comparisons again.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="what --out wrote")
    parser.add_argument("--markdown", action="store_true", help="as markdown")
    parser.add_argument("--page", action="store_true", help="markdown, with the conditions of all")
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
        print(report.page(found))
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
    parser = _parser("compare bpfcost", bpfcost.__doc__)
    _add_arm_options(parser, "scx_vaware,scx_bpfland")
    parser.add_argument("--rounds", type=_positive, default=3, help="runs per arm; default 3")
    _add_vm_options(parser)
    options = parser.parse_args(argv)
    compared = _arms(options)
    for arm in compared:
        if not arm.command:
            raise LabError(f"{arm.name} has no BPF; give sched_ext schedulers", EX_USAGE)
    vm = Vm(options.kernel, options.vcpus or 4, options.memory, options.shape or DEFAULT_SHAPE)
    with vm:
        workload = catalogue(Size(vm.accel))["hackbench"]
        print(bpfcost.table(bpfcost.measure(vm, compared, workload, options.rounds)))
    return 0


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number above 0")
    return int(text)
