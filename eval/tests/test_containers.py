# SPDX-License-Identifier: GPL-2.0-only
"""What containers get: what is due, how errors are told, and the page."""

import json

import pytest

from containers import cli, page
from containers.cases import ALL_HALF_STOLEN, HONEST, LIMITED, SHARES, Limit, flat, nested
from workloads import cgroups

FACTS = {
    "command": "eval/containers --seeds 1-2",
    "date": "2026-11-28",
    "kernels": ["7.2"],
    "ns_per_instruction": 2,
    "seeds": "1-2",
    "build": "abc",
    "builds": ["abc", "def"],
}
OTHER = {"kernel": "7.3", "versions": {"repository": "def"}}
ON = {"kernel": "7.2", "versions": {"repository": "abc"}}


def shares(name, seed, arm, **got):
    return {
        **ON,
        "part": "shares",
        "case": name,
        "seed": seed,
        "arm": arm,
        "got": got,
        "waited_s": 0.1,
    }


def limit(arm, vcpus, work, shape=HONEST, waited_s=0.1):
    case = {**ON, "part": "limits", "case": "busy", "shape": shape, "percent": 50}
    return {**case, "seed": 1, "arm": arm, "vcpus": vcpus, "work": work, "waited_s": waited_s}


def cost(seed, arm, depth, s):
    return {**ON, "part": "costs", "case": "pipe", "seed": seed, "arm": arm, "depth": depth, "s": s}


@pytest.mark.parametrize("case", SHARES, ids=lambda case: case.name)
def test_what_is_due_is_all_of_the_vm(case):
    assert sum(case.due.values()) == pytest.approx(1)
    described = {group.partition(":")[0] for group in case.groups}
    assert set(case.due) <= described


def test_weights_compound():
    case = nested("three", HONEST, "spin=1", 1, 3)
    assert case.due["t1/m0/l1"] == pytest.approx(3 / 4 * 1 / 4 * 3 / 4)
    assert case.groups[0] == "t0:weight=1"
    assert "t0/m1/l0:weight=1,spin=1,together=1" in case.groups


def test_a_limit_is_in_us_of_its_period():
    assert Limit("x", HONEST, 150, "spin=6").group == "a:max=150000/100000,spin=6,together=1"
    assert "later.max=1000/" in Limit("x", HONEST, 1, "spin=1000").group


def test_no_limit_is_more_than_there_is():
    assert all(each.percent < (400 if each.shape == HONEST else 200) for each in LIMITED)


def test_large_groups_are_judged_by_their_part_and_small_ones_by_the_vm(monkeypatch):
    case = flat("mixed", HONEST, "spin=1", 1, 499, 500)
    monkeypatch.setattr(page, "SHARES", [case])
    error, of_vm = page.errors(shares("mixed", 1, "eevdf", g0=0.013, g1=0.449, g2=0.538))
    assert error == pytest.approx(100 * 50 / 499)
    assert of_vm == pytest.approx(1.2)


def test_a_cell_has_all_seeds_and_both_arms_stand_side_by_side():
    name = "2 groups, 1:1"
    got = [
        shares(name, 1, "eevdf", g0=0.5, g1=0.5),
        shares(name, 1, "scx_vaware", g0=0.45, g1=0.55),
        shares(name, 2, "scx_vaware", g0=0.52, g1=0.48),
        shares(name, 3, "scx_vaware", g0=0.51, g1=0.49),
    ]
    row = f"| {name} | 0.0 | 4.0 (2.0, 10.0) | 0.00 | 0.00 (0.00, 0.00) |"
    assert row in page.table(got).splitlines()


@pytest.mark.parametrize(
    ("shape", "row"),
    [
        (HONEST, "| honest | busy | 50 | +0.0 | +8.0 | 0.10 | 0.25 |"),
        (ALL_HALF_STOLEN, "| half stolen | busy | 50 | -50.0 | +2.0 | 0.10 | 0.25 |"),
    ],
)
def test_a_limit_is_judged_by_time_or_where_that_is_stolen_by_work(shape, row):
    got = [limit("eevdf", 0.5, 0.25, shape), limit("scx_vaware", 0.54, 0.51, shape, waited_s=0.25)]
    assert row in page.table(got).splitlines()


def test_depth_is_a_ratio_to_none_of_the_same_seed():
    times = {(1, 0): 2.0, (1, 3): 2.02, (2, 0): 4.0, (2, 3): 4.12}
    told = page.table([cost(seed, "eevdf", depth, s) for (seed, depth), s in times.items()])
    assert "| pipe | EEVDF |  | 1.020 (1.010, 1.030) |  |" in told.splitlines()


def test_the_page_says_how_it_was_made():
    told = page.page([limit("eevdf", 0.5, 0.4)], FACTS)
    assert "Written by `eval/containers --seeds 1-2`." in told
    assert "- 2026-11-28, kernel 7.2, 2 ns an instruction, seeds 1-2, build abc, def\n" in told


def test_each_part_tells_its_kernel_and_build():
    told = page.table([limit("eevdf", 0.5, 0.4), cost(1, "eevdf", 0, 2.0) | OTHER])
    limits, depth = told.split("## Depth")
    assert "Kernel 7.2, build abc." in limits and "Kernel 7.3, build def." in depth


def test_what_the_guest_prints_is_read():
    groups = {"a": {"vcpus": 1.5, "turns_per_s": 10.0}, "b": {"vcpus": 0.5}}
    got = cgroups.parse("noise\n" + json.dumps({"groups": groups, "waited_s": 0.2}) + "\n")
    assert got == cgroups.Got({"a": 1.5, "b": 0.5}, {"a": 10.0}, 0.2)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["--only", "shares,taste"], "no part 'taste'"), (["--read", "/nowhere"], "cannot be read")],
)
def test_what_cannot_be_done_is_told(arguments, told, capsys):
    try:
        assert cli.main(arguments) == 64
    except SystemExit as ended:
        assert ended.code == 64
    assert told in capsys.readouterr().err


def test_records_are_told_again(tmp_path, capsys):
    file = tmp_path / "records.jsonl"
    file.write_text(json.dumps(limit("eevdf", 0.5, 0.4)) + "\n")
    assert cli.main(["--read", str(file)]) == 0
    assert "| honest | busy | 50 | +0.0 |  | 0.10 |  |" in capsys.readouterr().out
