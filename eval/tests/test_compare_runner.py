# SPDX-License-Identifier: GPL-2.0-only
"""The runner on a fake VM: what it runs, what it keeps, and how failures are told."""

import io
import itertools
import json
import random
from collections import Counter

import pytest

from compare import arms, report, runner, stats
from compare.arms import Arm
from compare.plan import Plan
from compare.progress import Progress
from compare.records import Journal
from compare.runner import Runner
from fake_vm import FakeStage, FakeVm, hang, vm_gone
from vlab import LabError, Result
from workloads import from_command

EEVDF, SCX = Arm("eevdf"), Arm("scx_fake", ("/bin/scx_fake",))
FACTS = {
    "kernel": "7.2",
    "paravirt_time": False,
    "shape": "floating:2",
    "vcpus": 4,
    "accel": "tcg",
    "clock": "wall",
    "ns_per_instruction": None,
    "versions": {},
}
WORKLOAD = from_command("work", r"took ([\d.]+)", "lower", 60)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(arms, "DISABLE_TIMEOUT_S", 0.0)
    monkeypatch.setattr(arms, "POLL_S", 0.1)


def half_as_long(vm: FakeVm) -> Result:
    """The fake scheduler makes the workload twice as fast."""
    return Result(0, f"took {1.0 if vm.in_charge else 2.0}\n")


def noting(calls: list[bool]):
    """The same, and takes down for each run whether the fake scheduler was in charge."""

    def run(vm: FakeVm) -> Result:
        calls.append(vm.in_charge)
        return half_as_long(vm)

    return run


def compare(vm: FakeVm, journal: Journal, blocks: int = 4, **plan) -> FakeStage:
    defaults = {"arms": [EEVDF, SCX], "workloads": [WORKLOAD], "settle_s": 0, "warm_up": False}
    plan = Plan(**defaults | {"seeds": range(1, blocks + 1)} | plan)
    stage = FakeStage(vm, FACTS)
    Runner(stage, plan, journal, Progress(io.StringIO())).compare()
    return stage


def rows(journal: Journal) -> list[report.Row]:
    return [row for table in report.tables(journal.records) for row in table.rows]


def of_arm(journal: Journal, arm: str) -> list[dict]:
    return [record for record in journal.records if record["arm"] == arm]


def noisy(ratio: float, spread: float):
    """A workload that the fake scheduler makes `ratio` times as fast, with noise."""
    draw = random.Random(1)

    def run(vm: FakeVm) -> Result:
        seconds = (1 / ratio if vm.in_charge else 1.0) * draw.lognormvariate(0, spread)
        return Result(0, f"took {seconds}\n")

    return run


def test_a_faster_scheduler_is_found_better_and_then_left_alone():
    journal = Journal(None)
    vm = FakeVm(half_as_long)
    compare(vm, journal, blocks=10)
    (row,) = rows(journal)
    assert row.ratio.ratio == pytest.approx(2.0)
    assert row.noise.ratio == pytest.approx(1.0)
    assert (row.verdict, row.blocks, row.failures) == ("better", stats.MIN_BLOCKS, 0)
    names = ("eevdf", "eevdf'", "scx_fake")
    assert [len(of_arm(journal, name)) for name in names] == [stats.MIN_BLOCKS] * 3
    assert vm.state == "disabled"


@pytest.mark.parametrize("ratio, verdict", [(1.03, "better"), (1 / 1.03, "worse"), (1.0, "level")])
def test_the_default_plan_ends_with_a_verdict(ratio, verdict):
    journal = Journal(None)
    compare(FakeVm(noisy(ratio, 0.003)), journal, blocks=stats.DEFAULT_BLOCKS)
    assert [row.verdict for row in rows(journal)] == [verdict]


def test_what_is_not_certain_gets_all_blocks():
    journal = Journal(None)
    compare(FakeVm(noisy(1.02, 0.2)), journal, blocks=8)
    assert [(row.verdict, row.blocks) for row in rows(journal)] == [("undecided", 8)]


def test_blocks_can_be_added_until_there_is_a_verdict():
    journal = Journal(None)
    for blocks, verdict in ((5, "undecided"), (60, "better")):
        compare(FakeVm(noisy(1.2, 0.1)), journal, blocks=blocks)
        assert [row.verdict for row in rows(journal)] == [verdict]
    assert 5 < len(of_arm(journal, "scx_fake")) < 60


def test_a_page_with_many_cells_takes_more_blocks():
    few, many = Journal(None), Journal(None)
    compare(FakeVm(noisy(1.05, 0.01)), few, blocks=20)
    compare(FakeVm(noisy(1.05, 0.01)), many, blocks=20, page_cells=1000)
    (one,), (other,) = rows(few), rows(many)
    assert one.verdict == other.verdict == "better"
    assert one.blocks < other.blocks


def test_an_arm_stops_alone_and_the_baselines_go_on_for_the_other():
    def run(vm: FakeVm) -> Result:
        if vm.in_charge and "slow" not in vm.scheduler.output:
            return Result(0, "took 0.05\n")
        return noise(vm)

    noise, journal = noisy(1.0, 0.3), Journal(None)
    slow = Arm("slow", ("/bin/scx_slow",))
    compare(FakeVm(run), journal, blocks=8, arms=[EEVDF, SCX, slow])
    ran = Counter(record["arm"] for record in journal.records)
    assert ran["eevdf"] == ran["eevdf'"] == ran["slow"] == 8
    assert ran["scx_fake"] < 8


def test_no_verdict_without_blocks_enough():
    journal = Journal(None)
    compare(FakeVm(half_as_long), journal, blocks=stats.MIN_BLOCKS - 1)
    (row,) = rows(journal)
    assert row.ratio.ratio == pytest.approx(2.0)
    assert row.verdict == "undecided"


def test_every_arm_settles_as_long_as_any():
    journal, vm = Journal(None), FakeVm(half_as_long)
    stage = compare(vm, journal, blocks=2, settle_s=7)
    assert vm.slept_s.count(7) == len(stage.taken) == 2 * 3


def test_a_block_has_each_arm_once_in_an_order_of_its_seed():
    order = {}
    for _ in range(2):
        journal = Journal(None)
        compare(FakeVm(half_as_long), journal, blocks=4, seeds=[3, 9, 4, 8])
        for record in journal.records:
            order.setdefault(record["seed"], []).append(record["arm"])
    assert list(order) == [3, 9, 4, 8]
    for arms_of_block in order.values():
        assert arms_of_block[:3] == arms_of_block[3:]
        assert sorted(arms_of_block[:3]) == ["eevdf", "eevdf'", "scx_fake"]


def test_orders_are_random_and_the_same_for_all_arms_of_a_block():
    names = ("a", "b", "c")
    workloads = [from_command(name, r"took ([\d.]+)", "lower", 60) for name in names]
    plan = Plan([EEVDF, SCX], workloads)
    assert len({tuple(arm.name for arm in plan.turns(seed)) for seed in range(50)}) == 6
    assert len({tuple(w.name for w in plan.workloads_of(seed)) for seed in range(50)}) == 6
    journal = Journal(None)
    compare(FakeVm(half_as_long), journal, blocks=4, workloads=workloads)
    for seed in range(1, 5):
        block = [run for run in journal.records if run["seed"] == seed]
        orders = {
            tuple(run["workload"] for run in block if run["arm"] == arm)
            for arm in ("eevdf", "eevdf'", "scx_fake")
        }
        assert orders == {tuple(w.name for w in plan.workloads_of(seed))}


def test_arms_of_one_vm_follow_each_other():
    poll = Arm("poll", append="x")
    for seed in range(20):
        turns = [arm.boot for arm in Plan([EEVDF, SCX, poll], [WORKLOAD]).turns(seed)]
        assert len(turns) == 4 and len([*itertools.groupby(turns)]) == 2


def test_haltpoll_that_is_not_in_charge_fails_its_arm_alone():
    journal, vm = Journal(None), FakeVm(half_as_long)
    poll = arms.parse("eevdf+haltpoll")
    compare(vm, journal, blocks=2, arms=[EEVDF, poll])
    for record in of_arm(journal, poll.name):
        assert "are none and menu, not haltpoll" in record["failure"]
    assert all(record["ok"] for record in of_arm(journal, "eevdf"))
    journal, vm.idle = Journal(None), "haltpoll\nhaltpoll\n"
    compare(vm, journal, blocks=2, arms=[EEVDF, poll])
    assert all(record["ok"] for record in journal.records)


def test_an_arm_is_put_in_charge_once_for_all_workloads():
    journal, other = Journal(None), from_command("more work", r"took ([\d.]+)", "lower", 60)
    stage = compare(FakeVm(half_as_long), journal, workloads=[WORKLOAD, other], blocks=4)
    assert len(stage.taken) == 3 * 4
    places = [(r["seed"], r["arm"], r["workload"]) for r in journal.records]
    assert len(set(places)) == len(places) == 3 * 4 * 2
    for first, second in zip(places[::2], places[1::2], strict=True):
        assert first[:2] == second[:2]


def test_the_warm_up_runs_each_workload_once_and_records_nothing():
    calls = []
    journal = Journal(None)
    compare(FakeVm(noting(calls)), journal, blocks=2, warm_up=True)
    assert len(calls) == len(journal.records) + 1
    assert calls[0] is False


def test_a_rehearsal_is_run_under_each_arm_and_records_nothing():
    calls = []
    journal = Journal(None)
    workloads = [WORKLOAD, from_command("second", r"took ([\d.]+)", "lower", 60)]
    stage = compare(FakeVm(noting(calls)), journal, workloads=workloads, blocks=2, rehearse=True)
    turns = len(stage.taken)
    assert len(journal.records) == 2 * turns and len(calls) == 3 * turns
    assert calls[::3] == calls[1::3]  # under the arm whose runs follow


def test_an_ejection_leaves_the_other_workloads_of_the_turn_their_run():
    first = from_command("first", r"took ([\d.]+)", "lower", 60)
    turns = itertools.count()

    def eject_in_every_other_run(vm: FakeVm) -> Result:
        return eject(vm) if vm.in_charge and next(turns) % 2 == 0 else half_as_long(vm)

    journal = Journal(None)
    compare(FakeVm(eject_in_every_other_run), journal, workloads=[first, WORKLOAD], blocks=2)
    outcomes = {r["workload"]: r["ok"] for r in of_arm(journal, "scx_fake")}
    assert outcomes == {"first": False, "work": True}


def test_somebody_elses_scheduler_fails_the_run_of_the_kernels_own():
    def load(vm: FakeVm) -> Result:
        if vm.scheduler is None:
            vm.spawn("other")
        return Result(0, "took 1.0\n")

    journal = Journal(None)
    compare(FakeVm(load), journal, arms=[EEVDF], blocks=2)
    assert "somebody else" in journal.records[0]["failure"]


def test_each_record_is_complete():
    journal = Journal(None)
    compare(FakeVm(half_as_long), journal, blocks=2)
    for record in journal.records:
        assert record.items() >= FACTS.items()
        assert record["run_delay_ns"] == [10]
        assert record["metrics"]["value"]["value"] == (1.0 if record["arm"] == "scx_fake" else 2.0)
        json.dumps(record)


def eject(vm: FakeVm) -> Result:
    if vm.in_charge:
        vm.scheduler.end(1)
    return Result(0, "took 1.0\n")


def eject_and_come_back(vm: FakeVm) -> Result:
    if vm.in_charge:
        vm.sched_ext("enabled")
    return Result(0, "took 1.0\n")


@pytest.mark.parametrize(
    "workload, behaviour, words",
    [
        (eject, "", "was ejected"),
        (eject_and_come_back, "", "came back during the run"),
        (half_as_long, "no start", "ended with code 1 at start"),
        (half_as_long, "stubborn", "did not end on SIGINT"),
    ],
)
def test_a_scheduler_that_fails_fails_its_arm_alone(workload, behaviour, words):
    journal = Journal(None)
    vm = FakeVm(workload, lambda cmd: behaviour)
    compare(vm, journal, blocks=10)
    failures = of_arm(journal, "scx_fake")
    assert len(failures) == runner.MAX_FAILURES
    for record in failures:
        assert words in record["failure"]
        assert "output of exec /bin/scx_fake" in record["output"]
    assert all(record["ok"] for record in of_arm(journal, "eevdf"))
    (row,) = rows(journal)
    assert row.verdict == f"failed {runner.MAX_FAILURES}x"
    assert vm.state == "disabled"


def test_one_ejection_among_good_runs_is_no_missing_value():
    runs_in_charge = itertools.count()

    def eject_once(vm: FakeVm) -> Result:
        return eject(vm) if vm.in_charge and next(runs_in_charge) == 2 else half_as_long(vm)

    journal = Journal(None)
    compare(FakeVm(eject_once), journal, blocks=10)
    (row,) = rows(journal)
    assert (row.verdict, row.failures, row.blocks, row.ratio.blocks) == ("failed 1x", 1, 10, 9)


@pytest.mark.parametrize(
    "workload, words",
    [
        (hang, "it hung for 60 s"),
        (lambda vm: Result(3, "oh no"), "ended with code 3"),
        (lambda vm: Result(0, "nothing"), "is not in the output"),
    ],
)
def test_a_workload_that_fails_everywhere_ends_after_a_few_runs(workload, words):
    journal = Journal(None)
    vm = FakeVm(workload)
    compare(vm, journal, blocks=100)
    assert len(of_arm(journal, "eevdf")) == runner.MAX_FAILURES
    assert all(words in record["failure"] for record in journal.records)
    assert report.failed(journal.records)
    assert vm.state == "disabled"


def test_a_count_that_goes_up_after_the_state_is_no_second_start():
    journal = Journal(None)
    compare(FakeVm(half_as_long, late_reads=1), journal, blocks=4)
    assert [record["ok"] for record in of_arm(journal, "scx_fake")] == [True] * 4


def test_another_scheduler_is_not_taken_for_one_of_a_known_name(monkeypatch):
    monkeypatch.setattr(arms, "ENABLE_TIMEOUT_S", 0.1)
    journal, peer = Journal(None), Arm("scx_lavd", ("/bin/scx_lavd",))
    compare(FakeVm(half_as_long), journal, arms=[EEVDF, peer], blocks=2)
    assert all("was not enabled" in r["failure"] for r in of_arm(journal, "scx_lavd"))


def test_a_hang_under_an_ejected_scheduler_is_told_as_the_ejection():
    def eject_and_hang(vm: FakeVm) -> Result:
        if not vm.in_charge:
            return half_as_long(vm)
        vm.scheduler.end(1)
        return hang(vm)

    journal = Journal(None)
    compare(FakeVm(eject_and_hang), journal, blocks=2)
    assert all("was ejected" in record["failure"] for record in of_arm(journal, "scx_fake"))


def test_the_run_that_loses_the_vm_is_kept_as_failed(tmp_path):
    journal = Journal(tmp_path / "out.jsonl")
    with pytest.raises(LabError) as gone:
        compare(FakeVm(vm_gone), journal)
    assert gone.value.exit_code == 75
    assert [record["ok"] for record in Journal(tmp_path / "out.jsonl", resume=True).records] == [
        False
    ]


def test_an_interrupted_comparison_goes_on_where_it_was(tmp_path):
    whole = Journal(None)
    compare(FakeVm(half_as_long), whole)

    counter = itertools.count()

    def interrupted(vm: FakeVm) -> Result:
        if next(counter) == 7:
            raise KeyboardInterrupt
        return half_as_long(vm)

    path = tmp_path / "out.jsonl"
    vm = FakeVm(interrupted)
    with pytest.raises(KeyboardInterrupt):
        compare(vm, Journal(path))
    assert vm.state == "disabled"
    resumed = Journal(path, resume=True)
    assert len(resumed.records) == 7
    compare(FakeVm(half_as_long), resumed)
    places = [(record["seed"], record["order"], record["arm"]) for record in resumed.records]
    assert places == [(r["seed"], r["order"], r["arm"]) for r in whole.records]
