# SPDX-License-Identifier: GPL-2.0-only
"""What the command lines of eval have in common: how they read arguments, and how they end."""

import argparse
import json
import math
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from .errors import EX_INTERRUPTED, EX_USAGE, LabError

_REPO = Path(__file__).resolve().parents[3]


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, and exits with 64."""

    def error(self, message: str) -> None:
        self.exit(EX_USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def make_parser(prog: str, description: str, epilog: str = "") -> Parser:
    """A parser that shows its texts as they are."""
    return Parser(
        prog=prog,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def positive(text: str) -> int:
    """A whole number above 0, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number above 0")
    return int(text)


def seconds(text: str) -> float:
    """A time in seconds from 0 on, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of seconds from 0 on")
    return value


def positive_seconds(text: str) -> float:
    """A time in seconds above 0, for argparse."""
    if not (value := seconds(text)):
        raise argparse.ArgumentTypeError("0 s are too short; give more")
    return value


def built(file: str) -> Path:
    """Where cargo puts a file such as release/scx_vaware: $CARGO_TARGET_DIR, or target/ here."""
    return Path(os.environ.get("CARGO_TARGET_DIR") or _REPO / "target").absolute() / file


def run(name: str, act: Callable[[], int | None]) -> int:
    """Do `act` as the command `name`; returns its exit code, 0 for None.

    That of a LabError, which is told on stderr; 130 if interrupted, be it by Ctrl-C, SIGTERM or
    SIGHUP, each of which lets `act` end what it has begun. A second one does not.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _interrupt)
    try:
        return act() or 0
    except LabError as why:
        print(f"{name}: {why.message}", file=sys.stderr)
        return why.exit_code
    except KeyboardInterrupt:
        return EX_INTERRUPTED


def _interrupt(number: int, _: object) -> None:
    # To end things may hang. The next signal ends the process at once; guards clean up (runs.py).
    signal.signal(number, signal.SIG_DFL)
    raise KeyboardInterrupt


def read_lines(path: Path) -> list[dict]:
    """The JSON lines that --out has written. Raises LabError (64)."""
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError) as why:
        raise LabError(f"{path} cannot be read ({why}); name a file of --out", EX_USAGE) from None
