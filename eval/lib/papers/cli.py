# SPDX-License-Identifier: GPL-2.0-only
"""The command line of eval/papers."""

import argparse
from collections.abc import Mapping
from pathlib import Path

import manifest
from compare.jobs import most
from compare.options import seeds
from vlab import LabError, tool, virtual_time
from vlab.clock import VIRTUAL
from vlab.errors import EX_UNAVAILABLE
from vlab.tool import positive

from . import catalogue, page
from .run import How, run_all

DESCRIPTION = """\
Runs the papers' experiments in lab VMs by virtual time: the kernel's scheduler, scx_vaware, and
scx_vaware without the policies that have the place of the paper's mechanism.

  papers [--quick]       run what has not run yet; --only vsched-fig15,irs for some of it
  papers list            the names of the scenarios, and what they stand for
  papers page FILE       write the page of what has run (docs/results/papers.md)
"""
NOTES = Path(__file__).with_name("notes.toml")
MEMORY_MIB = 3072  # of a VM
RESULTS = "vaware-results/papers"
# Seeds, ns of an instruction, seconds of a run.
WHOLE, QUICK = ("1-10", 1, 4.0), ("1-3", 4, 1.0)


def main(argv: list[str]) -> int:
    """Run the command line; returns the exit code."""
    return tool.run("papers", lambda: _do(argv))


def _do(argv: list[str]) -> None:
    parser = tool.make_parser("papers", DESCRIPTION)
    parser.add_argument("command", nargs="?", choices=["run", "list", "page"], default="run")
    parser.add_argument("file", nargs="?", type=Path, help="of page")
    parser.add_argument("--only", default="", metavar="A,B", help="names, or how they begin")
    parser.add_argument("--quick", action="store_true", help=_lengths(QUICK))
    parser.add_argument("--seeds", type=seeds, metavar="S", help=f"default {WHOLE[0]}")
    parser.add_argument(
        "--ns-per-instruction", type=int, choices=[1, 2, 4, 8], help=f"default {WHOLE[1]}"
    )
    parser.add_argument(
        "--jobs",
        type=positive,
        metavar="N",
        help="VMs at once; default: as many as there are cores",
    )
    parser.add_argument(
        "--out", metavar="FOLDER", help=f"default {RESULTS}, with --quick {RESULTS}-quick"
    )
    options = parser.parse_args(argv)
    if (options.command == "page") != bool(options.file):
        parser.error("page takes the name of a file, and nothing else does")
    {"run": _run, "list": _list, "page": _page}[options.command](options)


def _lengths(lengths: tuple[str, float, float]) -> str:
    return "seeds {}, {} ns an instruction, runs of {:g} s".format(*lengths)


def _folder(options: argparse.Namespace) -> Path:
    return Path(options.out or RESULTS + ("-quick" if options.quick else ""))


def _run(options: argparse.Namespace) -> None:
    scenarios = catalogue.chosen(options.only)
    if not virtual_time.is_there():
        raise LabError(
            "the emulator with virtual time is not built; run deploy/setup.sh lab", EX_UNAVAILABLE
        )
    lengths = QUICK if options.quick else WHOLE
    how = How(
        options.seeds or seeds(lengths[0]),
        options.ns_per_instruction or lengths[1],
        lengths[2],
        _folder(options),
    )
    run_all(scenarios, how, options.jobs or most(VIRTUAL, MEMORY_MIB))


def _list(options: argparse.Namespace) -> None:
    for scenario in catalogue.chosen(options.only):
        print(f"{scenario.name}: {scenario.shape}")
        for row in scenario.rows:
            print(f"  {row.figure}, {row.what}")


def _command(quick: bool, some: Mapping) -> str:
    """What runs the same again, if it is not interrupted; before there are runs, what begins."""
    if not some:
        return "make papers" + " PAPERS_QUICK=1" * quick
    words = ["eval/papers", *["--quick"] * quick, "--seeds", some["seeds"]]
    return " ".join([*words, "--ns-per-instruction", f"{some['ns_per_instruction']:g}"])


def _page(options: argparse.Namespace) -> None:
    figures_file = options.file.with_suffix(".json")
    anew = page.read(_folder(options), catalogue.scenarios().values())
    found = page.kept(figures_file) | anew
    text = page.render(catalogue.PAPERS, found, page.notes(NOTES))
    if anew:
        page.keep(figures_file, found)
    manifest.write(options.file, text, _facts(options.quick, found))


def _facts(quick: bool, found: page.Kept) -> dict:
    """What the manifest says of the page: it is as old as its oldest scenario."""
    if not found:
        return {"command": _command(quick, {})}
    oldest = min(found.values(), key=lambda some: some["date"])
    known = ("build", "version", "emulator", "date", "seeds", "kernels", "clock")
    return {name: oldest[name] for name in (*known, "ns_per_instruction")} | {
        "command": _command(quick, oldest),
        "builds": sorted({some["build"] for some in found.values()}),
        "runs": sum(some["runs"] for some in found.values()),
    }
