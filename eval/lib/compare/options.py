# SPDX-License-Identifier: GPL-2.0-only
"""The options of eval/compare, and what --help says of them."""

import argparse
import re

from vlab import virtual_time
from vlab.clock import CLOCKS
from vlab.tool import positive, positive_seconds, seconds
from workloads import SUITES

from . import stats
from .plan import SETTLE_S

DESCRIPTION = """\
Compares schedulers on workloads: on this machine, or with --lab in lab VMs with shaped vCPUs.

Each block is one seed: every arm runs each workload once, in random order. The first arm is the
baseline. It runs twice in each block, and both count; their difference is the noise (A/A). An arm
stops on a workload when its verdict is certain, or after all blocks. Arms:
  eevdf                        the kernel's own scheduler (also: kernel)
  cfs                          that of Linux 6.1, in a VM of its own (with --lab)
  scx_NAME                     a sched_ext scheduler: this repository's, or one in PATH
  off                          scx_vaware with every policy switched off
  peers                        scx_lavd, scx_bpfland and scx_cosmos, as far as they are installed
  ablations                    scx_vaware with each policy alone
  all                          eevdf, cfs (if its kernel is there), scx_vaware, off, peers;
                               by virtual time eevdf+haltpoll, too
  scx_NAME:--flag value        with arguments
  NAME=scx_NAME:--flag value   under a name of its own
  ...@KERNEL                   in a VM of its own with this kernel (with --lab)
  ...+haltpoll                 in a VM of its own whose idle vCPUs poll first (with --lab)
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
  compare scale          what schedulers cost by the number of vCPUs

exit codes: 0 done, 1 done and a run has failed, 3 worse (OLD NEW), 4 undecided (OLD NEW),
64 usage, 69 something needed is missing, 75 another scheduler is loaded, or the VM did not come up
or went away, 77 root is needed, 130 interrupted
"""
DEFAULT_ARMS = "eevdf,scx_vaware"
DEFAULT_SHAPE = "floating:2"
MOST_SEEDS = 1000
HELP_SETTLE = f"time of each arm before its first workload; default {SETTLE_S:.0f}"


def add_vm_options(parser: argparse.ArgumentParser) -> None:
    """Those of the lab VM; giving one of them implies --lab."""
    lab = parser.add_argument_group("the lab VM")
    lab.add_argument("--kernel", help="see vlab kernels")
    lab.add_argument("--vcpus", type=positive, help="default: the preset's, else 4")
    lab.add_argument("--memory", type=positive, default=3072, metavar="MIB")
    lab.add_argument(
        "--shape",
        action="append",
        help=f"see vlab shapes; default {DEFAULT_SHAPE}; given again: one page for several",
    )


def add_arm_options(parser: argparse.ArgumentParser, default_arms: str) -> None:
    """Which schedulers."""
    parser.add_argument(
        "--arms", default=default_arms, metavar="A,B,...", help=f"default {default_arms}"
    )
    parser.add_argument(
        "--arm",
        action="append",
        default=[],
        help="one more arm, which may have commas in it; may be given again",
    )


def add_margin_option(parser, default: float = stats.MARGIN_RATIO) -> None:
    """What counts as level."""
    parser.add_argument(
        "--margin",
        type=ratio,
        default=default,
        metavar="R",
        help=f"a difference within this ratio is none; default {default:g}",
    )


def ratio(text: str) -> float:
    """A number between 0 and 1, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number between 0 and 1, such as 0.02")
    return value


def seeds(text: str) -> list[int]:
    """Seeds as "1-10" or "3,5,8-12", each once, for argparse."""
    found: dict[int, None] = {}
    for part in text.split(","):
        if not (match := re.fullmatch(r"(\d+)(?:-(\d+))?", part)):
            raise argparse.ArgumentTypeError(f"'{text}' is no list of seeds such as 1-10 or 3,5")
        first, last = int(match[1]), int(match[2] or match[1])
        if not 0 <= last - first < MOST_SEEDS:
            raise argparse.ArgumentTypeError(f"'{part}' is none or too many seeds; write 1-10")
        found |= dict.fromkeys(range(first, last + 1))
    return list(found)


def sizes(text: str) -> list[int]:
    """Numbers of vCPUs as "4,16,64", for argparse."""
    if not re.fullmatch(r"[1-9]\d{0,3}(,[1-9]\d{0,3})*", text):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of numbers such as 4,16,64")
    return [int(number) for number in text.split(",")]


def add_run_options(
    parser: argparse.ArgumentParser, margin_ratio: float = stats.MARGIN_RATIO
) -> None:
    """Where, what and how long, and what becomes of the results."""
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
    what.add_argument("--timeout", type=positive, default=120, metavar="S", help="of a command")
    what.add_argument(
        "--seconds",
        type=positive_seconds,
        default=4.0,
        metavar="S",
        help="that a named workload lasts",
    )
    how = parser.add_argument_group("how long")
    blocks = how.add_mutually_exclusive_group()
    blocks.add_argument(
        "--blocks",
        type=positive,
        metavar="N",
        help=f"at most, seeds 1 to N; default {stats.DEFAULT_BLOCKS}; no verdict below "
        f"{stats.MIN_BLOCKS}",
    )
    blocks.add_argument("--seeds", type=seeds, metavar="S", help="a block each, as 1-10 or 3,5")
    add_margin_option(how, margin_ratio)
    how.add_argument(
        "--clock",
        choices=CLOCKS,
        help="of the lab: virtual time of a simulated host, wall time, or counted instructions; "
        "default: wall where KVM works, else virtual",
    )
    how.add_argument(
        "--ns-per-instruction",
        type=positive_seconds,
        default=1.0,
        metavar="NS",
        help="speed of a vCPU under a clock other than wall; default 1",
    )
    how.add_argument(
        "--paravirt",
        type=lambda text: tuple(word for word in text.split(",") if word),
        metavar="LIST",
        help=f"what a virtual host offers its guest, of {','.join(virtual_time.PARAVIRT)}; "
        "default: all",
    )
    how.add_argument(
        "--jobs",
        type=positive,
        metavar="N",
        help="blocks at once; default: by virtual time as many as there are cores, else 1",
    )
    how.add_argument("--dry-run", action="store_true", help="print the plan, and run nothing")
    how.add_argument("--settle", type=seconds, default=SETTLE_S, metavar="S", help=HELP_SETTLE)
    how.add_argument(
        "--rehearse",
        action="store_true",
        help="begin each turn of a scheduler with an unrecorded run of its first workload: "
        "one that learns from work has had some by then",
    )
    how.add_argument("--no-warm-up", action="store_true", help="without the runs before the first")
    out = parser.add_argument_group("results")
    out.add_argument("--out", metavar="FILE", help="JSON lines, one per run; default: by the date")
    out.add_argument("--resume", action="store_true", help="go on with the file of --out")
    out.add_argument("--html", metavar="FILE", help="write a report, too")
    out.add_argument("--markdown", action="store_true", help="the table as markdown")
    add_vm_options(parser)
