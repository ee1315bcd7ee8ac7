# SPDX-License-Identifier: GPL-2.0-only
"""The command line of eval/accuracy."""

from vlab import tool

from .activity import cli as activity
from .capacity import cli as capacity
from .topology import cli as topology

DESCRIPTION = """\
How right is what a guest knows of its vCPUs? Runs it in lab VMs, and compares it with the host's
own record.

  accuracy activity   preempted periods: found, missed, false
  accuracy capacity   what `scx_vaware probe` says of capacities: error, cost, reaction
  accuracy topology   stacks: right, wrong, undecided

Each has a --help of its own.
"""
COMMANDS = {"activity": activity.main, "capacity": capacity.main, "topology": topology.main}


def main(argv: list[str]) -> int:
    """Run the command line; returns the exit code."""
    parser = tool.make_parser("accuracy", DESCRIPTION)
    parser.add_argument("what", choices=COMMANDS)
    return COMMANDS[parser.parse_args(argv[:1]).what](argv[1:])
