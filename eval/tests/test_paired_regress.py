# SPDX-License-Identifier: GPL-2.0-only
"""OLD and NEW: what counts as a loss, what does not, and what cannot be told."""

import json
import random

import pytest
from paired import cli, regress


def runs(ratio: float, spread: float = 0.02, pairs: int = 12, seed: int = 1, **more) -> list[dict]:
    """A comparison in which scx_vaware is `ratio` times as good as eevdf."""
    draw = random.Random(seed)
    found = []
    for pair in range(pairs):
        for arm, value in (("eevdf", 1.0), ("eevdf'", 1.0), ("scx_vaware", ratio)):
            noisy = value * draw.lognormvariate(0, spread)
            metrics = {"rate": {"value": noisy, "unit": "1/s", "better": "higher"}}
            found.append(
                {
                    "kernel": "7.2",
                    "shape": "honest",
                    "vcpus": 2,
                    "accel": "tcg",
                    "workload": "w",
                    "baseline": "eevdf",
                    "arms": ["eevdf", "scx_vaware"],
                    "arm": arm,
                    "pair": pair,
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


@pytest.mark.parametrize("ratio, spread, code", [(0.7, 0.02, 3), (1.0, 0.5, 4), (1.3, 0.02, 0)])
def test_two_builds_that_ran_as_pairs(ratio, spread, code):
    pairs = runs(ratio, spread, pairs=20, arms=["eevdf", "scx_vaware"])
    rows = regress.of_pairs(pairs, 0.05)
    assert len(rows) == 1
    assert regress.exit_code(rows) == code


def test_where_the_baseline_fails_as_well_nothing_is_known():
    failed = [run | {"ok": False, "metrics": {}, "failure": "x"} for run in runs(1.0)]
    assert regress.exit_code(regress.of_pairs(failed, 0.05)) == 4


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
