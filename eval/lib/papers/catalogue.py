# SPDX-License-Identifier: GPL-2.0-only
"""All papers, and scenarios by name."""

from vlab import LabError
from vlab.errors import EX_USAGE

from . import coordinated, demand, gleaner, irs, vsched
from .model import Paper, Scenario

PAPERS: tuple[Paper, ...] = (
    vsched.PAPER,
    irs.PAPER,
    gleaner.PAPER,
    demand.PAPER,
    coordinated.PAPER,
)


def scenarios() -> dict[str, Scenario]:
    """Every scenario by its name."""
    return {scenario.name: scenario for paper in PAPERS for scenario in paper.scenarios}


def chosen(names: str) -> list[Scenario]:
    """Those of "A,B": names, or beginnings of names; all for "". In the order that was asked for.

    Raises LabError (64) for one that there is not.
    """
    every = scenarios()
    if not names:
        return list(every.values())
    found: dict[str, Scenario] = {}
    for name in names.split(","):
        some = [name] if name in every else [each for each in every if each.startswith(name)]
        if not name or not some:
            raise LabError(
                f"there is no scenario '{name}'; eval/papers list has their names", EX_USAGE
            )
        found |= {each: every[each] for each in some}
    return list(found.values())
