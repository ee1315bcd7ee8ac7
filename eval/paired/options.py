# SPDX-License-Identifier: GPL-2.0-only
"""The options of eval/compare, and what --help says of them."""

import argparse

from lab.tool import positive, positive_seconds, seconds
from workloads import SUITES

from .runner import SETTLE_S

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
DEFAULT_PAIRS = 10
DEFAULT_ARMS = "eevdf,scx_vaware"
DEFAULT_SHAPE = "floating:2"
HELP_SETTLE = f"wait between a scheduler's start and the workload's; default {SETTLE_S:.0f}"


def add_vm_options(parser: argparse.ArgumentParser) -> None:
    """Those of the lab VM; giving one of them implies --lab."""
    lab = parser.add_argument_group("the lab VM")
    lab.add_argument("--kernel", help="see vlab kernels")
    lab.add_argument("--vcpus", type=positive, help="default: the preset's, else 4")
    lab.add_argument("--memory", type=positive, default=3072, metavar="MIB")
    lab.add_argument("--shape", help=f"see vlab shapes; default {DEFAULT_SHAPE}")
    lab.add_argument(
        "--steal-clock",
        action="store_true",
        help="imitate KVM's; for an arm scx_vaware:--trust-steal-clock",
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


def add_run_options(parser: argparse.ArgumentParser) -> None:
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
    how.add_argument("--pairs", type=positive, help=f"of each workload; default {DEFAULT_PAIRS}")
    how.add_argument(
        "--until-aa-ratio",
        type=float,
        metavar="R",
        help="add pairs until the A/A interval is within plus or minus R, such as 0.03",
    )
    how.add_argument("--max-pairs", type=positive, default=60, help="with --until-aa-ratio")
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
