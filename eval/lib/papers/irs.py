# SPDX-License-Identifier: GPL-2.0-only
"""IRS, Middleware 2017: the guest moves tasks off a vCPU that the hypervisor is about to stop."""

from .loads import named
from .model import Paper, Row, Scenario

FOR_EVER = "bursty:1000/0.001"  # as a hog, of which a shape has one for each core
PART = ("ivh", "rescue")  # a running task leaves; a waiting one is fetched
OF = "IRS against Xen and Linux"
NO_EXITS = "a vCPU that spins is not stopped early: no pause-loop exits on the simulated host"


def _interfered(count: int) -> Scenario:
    """Figure 10: so many of eight vCPUs share their core."""
    paper = (1.04,) if count == 8 else ()
    of = f"mean, {OF}" if paper else OF
    spread = f"{count} of 8 vCPUs interfered with"
    return Scenario(
        f"irs-fig10-{count}",
        f"honest+hog:0-{count - 1}",
        tuple(
            Row("Figure 10", f"{stands_for} as {what}, {spread}", named(what), paper, of)
            for stands_for, what in (
                ("blackscholes", "barrier-block"),
                ("x264", "mutex-block"),
                ("MG", "barrier-spin"),
            )
        ),
        vcpus=8,
        part=PART,
    )


def _degree(vcpus: int, vms: int) -> Scenario:
    """Figure 11: so many of four vCPUs share their core with so many VMs."""
    cores = f"0-{vcpus - 1}"
    return Scenario(
        f"irs-fig11-{vcpus}x{vms}",
        f"honest+hog:{cores}" + f"+{FOR_EVER}@{cores}" * (vms - 1),
        tuple(
            Row(
                "Figure 11",
                f"{stands_for} as {what}, {vcpus} of 4 vCPUs interfered with by {vms} VMs",
                named(what),
                (),
                OF,
            )
            for stands_for, what in (("blackscholes", "barrier-block"), ("x264", "mutex-block"))
        ),
        vcpus=4,
        part=PART,
    )


PAPER = Paper(
    "irs",
    "IRS (Middleware 2017)",
    (
        *(_interfered(count) for count in (1, 2, 4, 8)),
        *(_degree(*each) for each in ((1, 1), (1, 3), (4, 1), (4, 3))),
        Scenario(
            "irs-fig12",
            f"floating:4+{FOR_EVER}*4",
            tuple(
                Row("Figure 12", f"{what}, all float, 4 hogs", named(what), (), OF)
                for what in ("barrier-spin", "parallel-static-spin")
            ),
            vcpus=4,
            part=PART,
            limit=NO_EXITS,
        ),
        Scenario(
            "irs-fig13",
            f"floating:4+{FOR_EVER}*4",
            tuple(
                Row("Figure 13", f"{what}, all float, 4 hogs", named(what), (), OF)
                for what in ("barrier-block", "mutex-block", "stages")
            ),
            vcpus=4,
            part=PART,
        ),
    ),
)
