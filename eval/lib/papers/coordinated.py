# SPDX-License-Identifier: GPL-2.0-only
"""Coordinated task scheduling, International Journal on Advances in Software 2016."""

from .irs import FOR_EVER
from .loads import named, startup
from .model import Paper, Row, Scenario

OF = "the guest tells the host of an interactive task, against not"


def _beside(vcpus: int, part: tuple[str, ...], limit: str = "") -> Scenario:
    """Two cores, a hog of the host's for each, and a hog on each vCPU."""
    size = f"{vcpus} {'vCPU' if vcpus == 1 else 'vCPUs'} on 2 cores"
    late = named("cyclictest-one")
    return Scenario(
        f"coordinated-{vcpus}",
        f"floating:2+{FOR_EVER}*2",
        (
            Row("Figure 7", f"mean lateness, {size}", late, (1921 / 87.5,), OF, "avg"),
            Row("Figure 8", f"lateness, p99, {size}", late, (), OF, "p99"),
            Row("Figure 9", f"start of a program, {size}", startup, (), OF),
        ),
        vcpus=vcpus,
        part=part,
        limit=limit,
        seconds=8.0,  # one of them until the daemon asks for a reserve, some for its trial
    )


PAPER = Paper(
    "coordinated",
    "Coordinated task scheduling (2016)",
    (
        _beside(1, (), "with one vCPU a guest has no choice; the gain is the host's"),
        _beside(4, ("reserve",)),
    ),
)
