# SPDX-License-Identifier: GPL-2.0-only
"""What a unit of work costs the host: the time that vCPUs ran, by the host's own record.

A rate does not show it where vCPUs idle: a scheduler that keeps a second one busy for nothing is as
fast, and costs twice as much. All of a run counts, its start and the scheduler's own work, too. By
virtual time a microsecond is a thousand instructions at 1 ns each, beside what the simulated host
charges for exits (vlab/vtime/host/costs.c).
"""

from collections.abc import Sequence

from workloads import ParseError

METRIC = "vcpu_us_per_op"


def metrics(place: str, run_ns: Sequence[int], operations: float) -> dict[str, dict]:
    """The metric of a run, for a record. None outside the lab, where nobody tells the host's truth.

    Raises ParseError if nothing was done.
    """
    if place != "lab":
        return {}
    if operations <= 0:
        raise ParseError("no unit of work was done")
    value = sum(run_ns) / 1e3 / operations
    return {METRIC: {"value": value, "unit": "us/op", "better": "lower"}}
