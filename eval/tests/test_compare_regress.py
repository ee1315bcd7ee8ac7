# SPDX-License-Identifier: GPL-2.0-only
"""OLD and NEW: what counts as a loss, what does not, and what cannot be told."""

import json
import random

import pytest

from compare import cli, regress
from vlab import LabError


def runs(ratio: float, spread: float = 0.02, blocks: int = 12, seed: int = 1, **more) -> list[dict]:
    """A comparison in which scx_vaware is `ratio` times as good as eevdf."""
    draw = random.Random(seed)
    found = []
    for block in range(1, blocks + 1):
        for arm, value in (("eevdf", 1.0), ("eevdf'", 1.0), ("scx_vaware", ratio)):
            noisy = value * draw.lognormvariate(0, spread)
            metrics = {"rate": {"value": noisy, "unit": "1/s", "better": "higher"}}
            found.append(
                {
                    "kernel": "7.2",
                    "shape": "honest",
                    "vcpus": 2,
                    "accel": "tcg",
                    "paravirt_time": None,
                    "clock": "wall",
                    "ns_per_instruction": None,
                    "date": "2026-11-21T05:00:00",
                    "workload": "w",
                    "command": "w --loops 3",
                    "baseline": "eevdf",
                    "arms": ["eevdf", "scx_vaware"],
                    "arm": arm,
                    "seed": block,
                    "page_cells": 1,
                    "settle_s": 12.0,
                    "rehearsed": False,
                    "versions": {"repository": "abc"},
                    "ok": True,
                    "metrics": metrics,
                }
                | more
            )
    return found


@pytest.mark.parametrize(
    "old, new, spread, verdict, code",
    [
        (1.2, 1.0, 0.02, "worse", 3),
        (1.0, 1.2, 0.02, "better", 0),
        (1.1, 1.1, 0.01, "no loss", 0),
        (1.1, 1.1, 0.5, "undecided", 4),
    ],
)
def test_the_change_between_two_files(old, new, spread, verdict, code):
    rows = regress.of_files(
        runs(old, spread, seed=2), runs(new, spread, seed=3), "scx_vaware", 0.05
    )
    assert [row.verdict for row in rows] == [verdict]
    assert regress.exit_code(rows) == code


def test_a_loss_within_the_margin_is_none_for_who_says_so():
    old, new = runs(1.1, 0.005, seed=2), runs(1.05, 0.005, seed=3)
    assert regress.exit_code(regress.of_files(old, new, "scx_vaware", 0.02)) == 3
    assert regress.exit_code(regress.of_files(old, new, "scx_vaware", 0.10)) == 0


def test_a_new_version_that_fails_is_worse():
    new = runs(1.0)
    new[2] |= {"ok": False, "metrics": {}, "failure": "ejected"}
    rows = regress.of_files(runs(1.0), new, "scx_vaware", 0.05)
    assert regress.exit_code(rows) == 3


@pytest.mark.parametrize(
    "ratio, spread, code", [(0.7, 0.02, 3), (1.0, 0.5, 4), (1.3, 0.02, 0), (0.98, 0.005, 0)]
)
def test_two_builds_that_share_blocks(ratio, spread, code):
    rows = regress.of_blocks(runs(ratio, spread, blocks=20), 0.05)
    assert len(rows) == 1
    assert regress.exit_code(rows) == code


def test_where_the_baseline_fails_as_well_nothing_is_known():
    failed = [run | {"ok": False, "metrics": {}, "failure": "x"} for run in runs(1.0)]
    assert regress.exit_code(regress.of_blocks(failed, 0.05)) == 4


def test_what_is_certain_to_be_level_is_not_called_better():
    (row,) = regress.of_blocks(runs(1.01, 0.001), 0.05)
    assert row.verdict == "no loss"


def test_a_file_that_mixes_builds_is_refused():
    mixed = runs(1.0) + runs(1.0, versions={"repository": "def"}, shape="stacked")
    with pytest.raises(LabError, match="mix builds .repository abc and repository def."):
        regress.of_files(mixed, runs(1.0), "scx_vaware", 0.05)


def test_from_the_command_line(tmp_path, capsys):
    def write(name: str, some: list[dict]) -> str:
        path = tmp_path / name
        path.write_text("".join(json.dumps(run) + "\n" for run in some))
        return str(path)

    old, worse = write("old", runs(1.2, seed=2)), write("worse", runs(1.0, seed=3))
    assert cli.main([old, worse]) == 3
    assert "worse" in capsys.readouterr().out
    other = write("other", runs(1.0, shape="stacked"))
    assert cli.main([old, other]) == 64
    assert "share no workload" in capsys.readouterr().err
    assert cli.main([old, str(tmp_path / "none")]) == 64
    assert cli.main([old, "/bin/true"]) == 64
