# SPDX-License-Identifier: GPL-2.0-only
"""The lab's errors, notices and exit codes."""

import sys

EX_FAILED = 1  # what ran in the guest failed
EX_USAGE = 64  # a bad argument, shape or name
EX_UNAVAILABLE = 69  # something needed is missing on this machine
EX_NOT_UP = 75  # the VM did not come up, or went away
EX_TIMEOUT = 124  # a command in the guest ran past its time, as timeout(1) says it
EX_INTERRUPTED = 130  # Ctrl-C or SIGTERM


class LabError(Exception):
    """One sentence that ends with what to do next, and the exit code that goes with it."""

    def __init__(self, message: str, exit_code: int = EX_UNAVAILABLE):
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


class CommandTimeout(LabError):
    """A command in the guest ran past its time and was killed; `output` is what it had said."""

    def __init__(self, message: str, output: str):
        super().__init__(message, EX_TIMEOUT)
        self.output = output


_told: set[str] = set()


def notice(message: str) -> None:
    """Say something the user should know on stderr, once per process."""
    if message not in _told:
        _told.add(message)
        print(f"vlab: {message}", file=sys.stderr, flush=True)
