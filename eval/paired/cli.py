# SPDX-License-Identifier: GPL-2.0-only
"""The command line of eval/pairs."""

import argparse
import contextlib
import random
import signal
import subprocess
import sys
from collections.abc import Iterator

from lab import LabError, Vm, host
from lab.errors import EX_INTERRUPTED, EX_UNAVAILABLE, EX_USAGE

from . import arms, bpfcost, records, report, workloads
from .arms import REPO, Arm
from .records import Journal
from .runner import Plan, Runner
from .workloads import Workload

DESCRIPTION = """\
Compares schedulers on workloads, in one lab VM with shaped vCPUs, by interleaved pairs of runs.

The first arm is the baseline. It runs twice in each block, so that the noise (A/A) is measured
under the conditions of the comparison (A/B). Arms:
  eevdf                        the kernel's own scheduler (also: cfs, kernel)
  scx_NAME                     a sched_ext scheduler: this repository's, or one in PATH
  scx_NAME:--flag value        with arguments
  NAME=scx_NAME:--flag value   under a name of its own
"""
EPILOG = f"""\
workloads: {", ".join(workloads.base_suite("tcg"))}

other commands:
  pairs report FILE...   print the table of finished or interrupted comparisons again
  pairs bpfcost          what the callbacks of schedulers cost in BPF

exit codes: 0 done, 1 done and a run has failed, 64 usage, 69 something needed is missing,
75 the VM did not come up or went away, 130 interrupted
"""
EXIT_RUN_FAILED = 1
HELP_SETTLE = "wait between a scheduler's start and the workload's; default 2"


def main(argv: list[str]) -> int:
    """Run the command line; returns the exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    commands = {"report": _report, "bpfcost": _bpfcost}
    try:
        if argv and argv[0] in commands:
            return commands[argv[0]](argv[1:])
        return _compare(argv)
    except LabError as why:
        print(f"pairs: {why}", file=sys.stderr)
        return why.exit_code
    except KeyboardInterrupt:
        print("pairs: interrupted; --resume goes on with a file of --out", file=sys.stderr)
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


def _add_vm_options(parser: argparse.ArgumentParser, default_arms: str) -> None:
    parser.add_argument("--kernel", help="kernel of the VM (see vlab kernels)")
    parser.add_argument("--vcpus", type=_positive, default=4, help="default 4")
    parser.add_argument("--memory", type=_positive, default=3072, metavar="MIB")
    parser.add_argument("--shape", default="floating:2", help="see vlab shapes; default floating:2")
    parser.add_argument(
        "--arms", default=default_arms, metavar="A,B,...", help=f"default {default_arms}"
    )
    parser.add_argument(
        "--arm",
        action="append",
        default=[],
        help="one more arm, which may have commas in it; may be given again",
    )


def _compare_parser() -> argparse.ArgumentParser:
    parser = _parser("pairs", DESCRIPTION, EPILOG)
    _add_vm_options(parser, "eevdf,scx_vaware")
    what = parser.add_argument_group("what runs")
    what.add_argument(
        "--workload", action="append", default=[], help="by name; may be given again, or A,B"
    )
    what.add_argument("--suite", choices=["base"], help="all workloads")
    what.add_argument("--workload-cmd", metavar="CMD", help="any shell command, run in the guest")
    what.add_argument(
        "--metric", metavar="REGEX", help="finds its number, in parentheses, in its output"
    )
    what.add_argument("--better", choices=["lower", "higher"], help="which number is better")
    what.add_argument("--timeout", type=_positive, default=120, metavar="S", help="of the command")
    how = parser.add_argument_group("how long")
    how.add_argument("--pairs", type=_positive, help="pairs per workload; default 10")
    how.add_argument(
        "--until-aa-ratio",
        type=float,
        metavar="R",
        help="add pairs until the A/A interval is within plus or minus R, such as 0.03",
    )
    how.add_argument("--max-pairs", type=_positive, default=60, help="with --until-aa-ratio")
    how.add_argument("--settle", type=float, default=2.0, metavar="S", help=HELP_SETTLE)
    out = parser.add_argument_group("results")
    out.add_argument("--out", metavar="FILE", help="JSON lines, one per run")
    out.add_argument("--resume", action="store_true", help="go on with the file of --out")
    out.add_argument("--markdown", action="store_true", help="the table as markdown")
    return parser


def _compare(argv: list[str]) -> int:
    options = _compare_parser().parse_args(argv)
    plan = Plan(
        _arms(options),
        options.max_pairs if options.until_aa_ratio else options.pairs or 10,
        options.until_aa_ratio,
        options.settle,
    )
    if options.until_aa_ratio and options.pairs:
        raise LabError("--pairs and --until-aa-ratio exclude each other; give one", EX_USAGE)
    if options.resume and not options.out:
        raise LabError("--resume needs --out; name the file to go on with", EX_USAGE)
    _workloads(options, "tcg")  # speak up before a VM is booted
    journal = Journal(options.out, options.resume)
    vm = Vm(options.kernel, options.vcpus, options.memory, options.shape)
    with _tables_at_the_end(journal, options.markdown), vm:
        facts = _facts(vm, options, plan.arms)
        seed = _seed(journal, facts, plan.arms)
        runner = Runner(vm, plan, journal, seed, facts)
        for workload in _workloads(options, vm.accel):
            runner.compare(workload)
    return EXIT_RUN_FAILED if report.failed(journal.records) else 0


@contextlib.contextmanager
def _tables_at_the_end(journal: Journal, markdown: bool) -> Iterator[None]:
    """Print what there is, also when the comparison ends early."""
    try:
        yield
    finally:
        if journal.records:
            print(report.render(journal.records, markdown), flush=True)


def _arms(options: argparse.Namespace) -> list[Arm]:
    return arms.parse_list([text for text in options.arms.split(",") if text] + options.arm)


def _workloads(options: argparse.Namespace, accel: str) -> list[Workload]:
    """The chosen workloads, hackbench if none is. Raises LabError (64)."""
    suite = workloads.base_suite(accel)
    names = [name for text in options.workload for name in text.split(",")]
    if options.suite:
        names = list(suite)
    for name in names:
        if name not in suite:
            raise LabError(f"there is no workload {name}; choose from {', '.join(suite)}", EX_USAGE)
    chosen = [suite[name] for name in dict.fromkeys(names)]
    if options.workload_cmd:
        if not (options.metric and options.better):
            raise LabError("--workload-cmd needs --metric and --better; give both", EX_USAGE)
        try:
            chosen.append(
                workloads.from_command(
                    options.workload_cmd, options.metric, options.better, options.timeout
                )
            )
        except ValueError as why:
            raise LabError(str(why), EX_USAGE) from None
    return chosen or [suite["hackbench"]]


def _facts(vm: Vm, options: argparse.Namespace, compared: list[Arm]) -> dict:
    """What goes into every record: the conditions, and the versions of what took part."""
    versions = {"qemu": host.qemu().version, "repository": _commit()}
    versions |= {arm.name: arms.version(arm) for arm in compared if arm.command}
    return {
        "kernel": vm.kernel.release,
        "shape": options.shape,
        "vcpus": options.vcpus,
        "accel": vm.accel,
        "memory_mib": options.memory,
        "versions": versions,
    }


def _commit() -> str:
    told = subprocess.run(
        ["git", "-C", REPO, "describe", "--always", "--dirty"], capture_output=True, text=True
    )
    return told.stdout.strip()


def _seed(journal: Journal, facts: dict, compared: list[Arm]) -> str:
    """A fresh seed, or that of the file to go on with. Raises LabError (64) if it does not fit."""
    if not journal.records:
        return f"{random.randrange(1 << 32):08x}"
    before = journal.records[-1]
    ours = facts | {"arms": [arm.name for arm in compared]}
    for name in (*records.CONDITIONS, "memory_mib", "arms"):
        if before.get(name) != ours[name]:
            raise LabError(
                f"the file was made with {name} {before.get(name)}, and this is {ours[name]}; "
                "give the same options, or another --out",
                EX_USAGE,
            )
    return before["seed"]


def _report(argv: list[str]) -> int:
    parser = _parser("pairs report", "Prints the table of comparisons again.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="what --out wrote")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args(argv)
    found = [record for path in options.files for record in records.read(path)]
    if not found:
        raise LabError("no run is in there yet; run pairs with --out first", EX_UNAVAILABLE)
    print(report.render(found, options.markdown))
    return 0


def _bpfcost(argv: list[str]) -> int:
    parser = _parser("pairs bpfcost", bpfcost.__doc__)
    _add_vm_options(parser, "scx_vaware,scx_bpfland")
    parser.add_argument("--rounds", type=_positive, default=3, help="runs per arm; default 3")
    options = parser.parse_args(argv)
    compared = _arms(options)
    for arm in compared:
        if not arm.command:
            raise LabError(f"{arm.name} has no BPF; give sched_ext schedulers", EX_USAGE)
    with Vm(options.kernel, options.vcpus, options.memory, options.shape) as vm:
        workload = workloads.base_suite(vm.accel)["hackbench"]
        print(bpfcost.table(bpfcost.measure(vm, compared, workload, options.rounds)))
    return 0


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number above 0")
    return int(text)
