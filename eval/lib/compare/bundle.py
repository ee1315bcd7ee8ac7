# SPDX-License-Identifier: GPL-2.0-only
"""Writes one file about this VM: what doctor and probe say, and a short comparison with EEVDF.

It is made to be sent to the authors: no host name, user, address, path or command line is in it.
Look into it first: zcat FILE. Nothing leaves this machine by itself, and nothing is changed on it.
What cannot be had (no root, no sched_ext, an older scx_vaware) is said in the file and left out.

--check says whether files are bundles that can be published; --page makes a table of those in the
folder `bundles` beside the page. docs/evaluation.md tells how to contribute one.
"""

import argparse
import datetime
import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import manifest
from vlab import LabError, tool
from vlab.errors import EX_UNAVAILABLE
from workloads import SUITES, Size, catalogue

from . import arms, bundle_check, bundle_page, local, private, report, stage, stats
from .plan import Plan
from .progress import Progress
from .records import Journal
from .runner import Runner
from .stage import LocalStage

FORMAT = 1
NAME = bundle_check.SCHEMA["$defs"]["name"]["pattern"]
ARMS = ("eevdf", "off", "scx_vaware")
TOOL_TIMEOUT_S = 180
# What is kept of a run: numbers and names that are the project's own.
RUN_FIELDS = (
    *("date", "workload", "arm", "seed", "order", "ok", "failure", "metrics"),
    *("latencies", "duration_s", "run_ns", "run_delay_ns", "baseline", "arms", "page_cells"),
    *("settle_s", "rehearsed", "clock", "ns_per_instruction"),
    *("kernel", "paravirt_time", "shape", "vcpus", "accel", "stolen_source", "place"),
)
FACTS = {
    "clocksource": "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "clocksources": "/sys/devices/system/clocksource/clocksource0/available_clocksource",
    "cpuidle_driver": "/sys/devices/system/cpu/cpuidle/current_driver",
    "cpuidle_governor": "/sys/devices/system/cpu/cpuidle/current_governor",
    "smt": "/sys/devices/system/cpu/smt/control",
    "online": "/sys/devices/system/cpu/online",
    "sched_ext_state": "/sys/kernel/sched_ext/state",
    "haltpoll_ns": "/sys/module/haltpoll/parameters/guest_halt_poll_ns",
    "vendor": "/sys/class/dmi/id/sys_vendor",
    "product": "/sys/class/dmi/id/product_name",
}


def main(argv: list[str]) -> int:
    """Run the command line; returns the exit code."""
    parser = tool.make_parser("bundle", __doc__)
    parser.add_argument("--out", default="vaware-bundle.json.gz", metavar="FILE")
    parser.add_argument(
        "--workloads",
        default=",".join(SUITES["quick"]),
        metavar="A,B",
        help="of the comparison; default %(default)s",
    )
    parser.add_argument(
        "--blocks",
        type=tool.positive,
        default=stats.DEFAULT_BLOCKS,
        help="of the comparison; default %(default)s",
    )
    parser.add_argument(
        "--seconds", type=tool.positive_seconds, default=4.0, help="per run; default 4"
    )
    parser.add_argument("--no-comparison", action="store_true", help="doctor and probe only")
    parser.add_argument("--provider", type=_name, metavar="NAME", help="whose VM, such as aws")
    parser.add_argument("--instance", type=_name, metavar="TYPE", help="such as m7i.large")
    parser.add_argument("--check", nargs="+", type=Path, metavar="FILE", help="are these bundles?")
    parser.add_argument("--page", type=Path, metavar="OUT", help="write the table of all bundles")
    options = parser.parse_args(argv)
    if options.check:
        return tool.run("bundle", lambda: check(options.check))
    if options.page:
        return tool.run("bundle", lambda: write_page(options.page))
    if unknown := set(options.workloads.split(",")) - set(catalogue(Size())):
        parser.error(f"there is no workload {unknown.pop()}; see eval/compare --help")

    def act() -> int:
        try:
            return write(Path(options.out), options)
        except KeyboardInterrupt:
            say("interrupted; the same command goes on where it was")
            raise

    return tool.run("bundle", act)


def write(out: Path, options: argparse.Namespace) -> int:
    """Collect and write. Raises LabError (69) if the file cannot be written."""
    found = {
        "format": FORMAT,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "facts": facts(),
    }
    named = {"provider": options.provider, "instance": options.instance}
    found["facts"] |= {name: value for name, value in named.items() if value}
    for name in ("doctor", "probe"):
        say(f"{name}...")
        found[name] = ask(name)
    runs_file = out.with_name(out.name + ".runs.jsonl")
    if not options.no_comparison:
        found["comparison"] = compare(runs_file, options)
    clean = private.scrub(found, private.secrets())
    try:
        with gzip.open(out, "wt") as file:
            json.dump(clean, file, indent=1)
    except OSError as why:
        raise LabError(
            f"{out} cannot be written ({why.strerror}); give another --out", EX_UNAVAILABLE
        ) from None
    runs_file.unlink(missing_ok=True)
    say(f"{out} is ready ({out.stat().st_size // 1024 + 1} KiB). Look into it: zcat {out}")
    return 0


def check(paths: list[Path]) -> int:
    """Say what is wrong with each bundle. Returns 1 if anything is."""
    failed = False
    for path in paths:
        wrong = bundle_check.problems(bundle_check.read(path))
        print("\n".join(f"{path}: {problem}" for problem in wrong) or f"{path}: correct")
        failed |= bool(wrong)
    return int(failed)


def write_page(out: Path) -> int:
    """Write the table of the bundles in the folder `bundles` beside `out`."""
    folder = out.parent / "bundles"
    manifest.write(out, bundle_page.render(folder), bundle_page.facts(folder))
    return 0


def _name(text: str) -> str:
    if not re.fullmatch(NAME, text):
        raise argparse.ArgumentTypeError("write up to 64 letters, digits, dots, dashes and spaces")
    return text


def facts() -> dict:
    """What this VM is, from files that name nobody."""
    told = {name: _read(path) for name, path in FACTS.items()}
    release = dict(
        line.split("=", 1) for line in _read("/etc/os-release").splitlines() if "=" in line
    )
    return {name: value for name, value in told.items() if value} | {
        "kernel": os.uname().release,
        "architecture": os.uname().machine,
        "distribution": f"{release.get('ID', '')} {release.get('VERSION_ID', '')}".replace('"', ""),
        "hypervisor": local.hypervisor(),
        "machine": stage.machine(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "tells_steal": local.tells_steal(),
        "steal_clock_flag": " steal" in _read("/proc/cpuinfo"),
    }


def ask(command: str) -> dict:
    """What `scx_vaware COMMAND --json` says; {"failure": why} if it says nothing."""
    try:
        binary = arms.find_binary(arms.OURS)
        done = subprocess.run(
            [binary, command, "--json"], capture_output=True, text=True, timeout=TOOL_TIMEOUT_S
        )
        return {"exit_code": done.returncode, "said": json.loads(done.stdout)}
    except ValueError:
        reason = done.stderr.strip().splitlines()[:1] or ["it said nothing"]
        return {"failure": reason[0], "exit_code": done.returncode}
    except (LabError, OSError, subprocess.TimeoutExpired) as why:
        return {"failure": str(why)}


def compare(runs_file: Path, options: argparse.Namespace) -> dict:
    """The short comparison: runs, and the table; {"failure": why} if it cannot be made."""
    try:
        compared = arms.parse_list(list(ARMS))
        place = LocalStage(compared)
        every = catalogue(place.size(options.seconds))
        chosen = [every[name] for name in options.workloads.split(",")]
        chosen = [workload for workload in chosen if not workload.missing()]
        if not chosen:
            raise LabError("no workload's tools are here; run deploy/setup.sh eval")
        for workload in chosen:
            if workload.prepare:
                workload.prepare()
        journal = Journal(runs_file, resume=True)
    except LabError as why:
        say(f"no comparison: {why}")
        return {"failure": str(why)}
    plan = Plan(
        compared,
        chosen,
        range(1, options.blocks + 1),
        page_cells=(len(compared) - 1) * len(chosen),
    )
    progress = Progress(name="bundle")
    progress.begin(plan.runs, done=len(journal.records))
    failure = {}
    try:
        Runner(place, plan, journal, progress).compare()
    except LabError as why:
        say(f"the comparison ended early: {why}")
        failure = {"failure": str(why)}
    finally:
        progress.end()
    print(report.render(journal.records))
    return failure | {
        "versions": place.facts["versions"],
        "runs": [
            {name: run[name] for name in RUN_FIELDS if name in run} for run in journal.records
        ],
        "table": report.render(journal.records).splitlines(),
    }


def say(line: str) -> None:
    """Tell the user."""
    print(f"bundle: {line}", file=sys.stderr, flush=True)


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
