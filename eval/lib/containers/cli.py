# SPDX-License-Identifier: GPL-2.0-only
"""The command line of eval/containers."""

import argparse
import datetime
import json
import sys
from pathlib import Path

import manifest
from compare import provenance
from compare.arms import OURS, Arm
from compare.options import seeds
from compare.stage import versions
from vlab import LabError, host, tool
from vlab.clock import VIRTUAL
from vlab.errors import EX_USAGE

from . import page, run

PARTS = ("shares", "limits", "costs")
DESCRIPTION = """\
Do cgroups get what their weights and limits say, and what does it cost? In lab VMs, by virtual
time, under EEVDF and under scx_vaware.

  shares   what groups get of the VM by cpu.weight, side by side and nested
  limits   what cpu.max leaves, for busy tasks, short bursts, and a thousand tasks
  costs    what depth costs: hackbench, and two tasks on a pipe
"""


def main(argv: list[str]) -> int:
    """Run the command line; returns the exit code."""
    return tool.run("containers", lambda: _tell(_parse(argv)))


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = tool.make_parser("containers", DESCRIPTION)
    parser.add_argument("--only", default=",".join(PARTS), metavar="A,B", help="default: all")
    parser.add_argument("--seeds", type=seeds, default=[1], metavar="S", help="as 1-5; default 1")
    parser.add_argument("--ns-per-instruction", type=int, default=8, metavar="NS", help="default 8")
    parser.add_argument("--kernel", help="see vlab kernels")
    parser.add_argument("--out", type=Path, help="append each record to this file, as JSON")
    parser.add_argument("--read", type=Path, help="measure nothing: tell of a file of --out")
    parser.add_argument("--page", metavar="FILE", help=f"write the page {page.FILE}, too")
    options = parser.parse_args(argv)
    options.only = options.only.split(",")
    if unknown := set(options.only) - set(PARTS):
        parser.error(f"there is no part {unknown.pop()!r}; choose from {', '.join(PARTS)}")
    return options


def _tell(options: argparse.Namespace) -> None:
    records = tool.read_lines(options.read) if options.read else _measured(options)
    if not records:
        raise LabError("there are no records to tell of; measure some", EX_USAGE)
    if options.page:
        facts = _facts(records)
        manifest.write(options.page, page.page(records, facts), facts)
    print(page.table(records))


def _measured(options: argparse.Namespace) -> list[dict]:
    setting = run.Setting(options.kernel, options.seeds, options.ns_per_instruction)
    told = {"qemu": host.qemu().version} | versions([Arm(OURS, (str(run.BUILT),))])
    common = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": told,
        "ns_per_instruction": options.ns_per_instruction,
    }
    found = []
    for record in run.measure(setting, options.only, _announce):
        found.append(record | common)
        if options.out:
            with options.out.open("a") as out:
                print(json.dumps(found[-1]), file=out)
    return found


def _facts(records: list[dict]) -> dict:
    """The entry of the page in a manifest."""
    first = records[0]
    spans = provenance.spans({record["seed"] for record in records})
    speed = first["ns_per_instruction"]
    asked = f"--seeds {spans} --ns-per-instruction {speed}"
    return {
        "command": f"eval/containers {asked} --page {page.FILE}",
        **provenance.of_versions(first["versions"]),
        "builds": page.builds(records),
        "date": first["date"],
        "seeds": spans,
        "kernels": sorted({record["kernel"] for record in records}),
        "clock": VIRTUAL,
        "ns_per_instruction": speed,
    }


def _announce(text: str) -> None:
    print(f"containers: {text}", file=sys.stderr, flush=True)
