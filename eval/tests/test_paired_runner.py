# SPDX-License-Identifier: GPL-2.0-only
"""The runner on a fake VM: what it runs, what it keeps, and how failures are told."""

import io
import itertools
import json

import pytest
from fake_vm import FakeStage, FakeVm, hang, vm_gone
from lab import LabError, Result
from paired import arms, report, runner
from paired.arms import Arm
from paired.progress import Progress
from paired.records import Journal
from paired.runner import Plan, Runner
from workloads import from_command

EEVDF, SCX = Arm("eevdf"), Arm("scx_fake", ("/bin/scx_fake",))
FACTS = {"kernel": "7.2", "shape": "floating:2", "vcpus": 4, "accel": "tcg", "versions": {}}
WORKLOAD = from_command("work", r"took ([\d.]+)", "lower", 60)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(arms, "DISABLE_TIMEOUT_S", 0.0)
    monkeypatch.setattr(arms, "POLL_S", 0.0)


def half_as_long(vm: FakeVm) -> Result:
    """The fake scheduler makes the workload twice as fast."""
    return Result(0, f"took {1.0 if vm.in_charge else 2.0}\n")


def noting(calls: list[bool]):
    """The same, and takes down for each run whether the fake scheduler was in charge."""

    def run(vm: FakeVm) -> Result:
        calls.append(vm.in_charge)
        return half_as_long(vm)

    return run


def compare(vm: FakeVm, journal: Journal, **plan) -> FakeStage:
    defaults = {"arms": [EEVDF, SCX], "workloads": [WORKLOAD], "pairs": 4, "settle_s": 0}
    plan = Plan(**defaults | {"warm_up": False} | plan)
    stage = FakeStage(vm, FACTS)
    Runner(stage, plan, journal, "seed", Progress(io.StringIO())).compare()
    return stage


def of_arm(journal: Journal, arm: str) -> list[dict]:
    return [record for record in journal.records if record["arm"] == arm]


def test_a_faster_scheduler_is_found_better():
    journal = Journal(None)
    vm = FakeVm(half_as_long)
    compare(vm, journal, pairs=10)
    assert [len(of_arm(journal, name)) for name in ("eevdf", "eevdf'", "scx_fake")] == [10] * 3
    (row,) = report.rows(journal.records)
    assert row.ratio.ratio == pytest.approx(2.0)
    assert row.noise.ratio == pytest.approx(1.0)
    assert (row.verdict, row.pairs, row.failures) == ("better", 10, 0)
    assert row.delta == 1
    assert vm.state == "disabled"


def test_no_verdict_without_pairs_enough_for_the_test():
    journal = Journal(None)
    compare(FakeVm(half_as_long), journal, pairs=4)
    (row,) = report.rows(journal.records)
    assert row.ratio.ratio == pytest.approx(2.0)
    assert row.verdict == "undecided"


def test_an_arm_is_put_in_charge_once_for_all_workloads():
    journal, other = Journal(None), from_command("more work", r"took ([\d.]+)", "lower", 60)
    stage = compare(FakeVm(half_as_long), journal, workloads=[WORKLOAD, other], pairs=4)
    assert len(stage.taken) == 3 * 4
    places = [(r["pair"], r["arm"], r["workload"]) for r in journal.records]
    assert len(set(places)) == len(places) == 3 * 4 * 2
    for first, second in zip(places[::2], places[1::2], strict=True):
        assert first[:2] == second[:2]


def test_the_warm_up_runs_each_workload_once_and_records_nothing():
    calls = []
    journal = Journal(None)
    compare(FakeVm(noting(calls)), journal, pairs=2, warm_up=True)
    assert len(calls) == len(journal.records) + 1
    assert calls[0] is False


def test_a_rehearsal_is_run_under_each_arm_and_records_nothing():
    calls = []
    journal = Journal(None)
    workloads = [WORKLOAD, from_command("second", r"took ([\d.]+)", "lower", 60)]
    stage = compare(FakeVm(noting(calls)), journal, workloads=workloads, pairs=2, rehearse=True)
    turns = len(stage.taken)
    assert len(journal.records) == 2 * turns and len(calls) == 3 * turns
    assert calls[::3] == calls[1::3]  # under the arm whose runs follow


def test_an_ejection_leaves_the_other_workloads_of_the_turn_their_run():
    first = from_command("first", r"took ([\d.]+)", "lower", 60)
    turns = itertools.count()

    def eject_in_every_other_run(vm: FakeVm) -> Result:
        return eject(vm) if vm.in_charge and next(turns) % 2 == 0 else half_as_long(vm)

    journal = Journal(None)
    compare(FakeVm(eject_in_every_other_run), journal, workloads=[first, WORKLOAD], pairs=2)
    outcomes = {r["workload"]: r["ok"] for r in of_arm(journal, "scx_fake")}
    assert outcomes == {"first": False, "work": True}


def test_somebody_elses_scheduler_fails_the_run_of_the_kernels_own():
    def load(vm: FakeVm) -> Result:
        if vm.scheduler is None:
            vm.spawn("other")
        return Result(0, "took 1.0\n")

    journal = Journal(None)
    compare(FakeVm(load), journal, arms=[EEVDF], pairs=2)
    assert "somebody else" in journal.records[0]["failure"]


def test_each_record_is_complete():
    journal = Journal(None)
    compare(FakeVm(half_as_long), journal, pairs=2)
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
    compare(vm, journal, pairs=10)
    failures = of_arm(journal, "scx_fake")
    assert len(failures) == runner.MAX_FAILURES
    for record in failures:
        assert words in record["failure"]
        assert "output of exec /bin/scx_fake" in record["output"]
    assert all(record["ok"] for record in of_arm(journal, "eevdf"))
    assert len(of_arm(journal, "eevdf")) == 10
    (row,) = report.rows(journal.records)
    assert row.verdict == f"failed {runner.MAX_FAILURES}x"
    assert vm.state == "disabled"


def test_one_ejection_among_good_runs_is_no_missing_value():
    runs_in_charge = itertools.count()

    def eject_once(vm: FakeVm) -> Result:
        return eject(vm) if vm.in_charge and next(runs_in_charge) == 2 else half_as_long(vm)

    journal = Journal(None)
    compare(FakeVm(eject_once), journal, pairs=10)
    (row,) = report.rows(journal.records)
    assert (row.verdict, row.failures, row.pairs, row.ratio.pairs) == ("failed 1x", 1, 10, 9)


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
    compare(vm, journal, pairs=100)
    assert len(of_arm(journal, "eevdf")) == runner.MAX_FAILURES
    assert all(words in record["failure"] for record in journal.records)
    assert report.failed(journal.records)
    assert vm.state == "disabled"


def test_a_count_that_goes_up_after_the_state_is_no_second_start():
    journal = Journal(None)
    compare(FakeVm(half_as_long, late_reads=1), journal, pairs=4)
    assert [record["ok"] for record in of_arm(journal, "scx_fake")] == [True] * 4


def test_another_scheduler_is_not_taken_for_one_of_a_known_name(monkeypatch):
    monkeypatch.setattr(arms, "ENABLE_TIMEOUT_S", 0.1)
    journal, peer = Journal(None), Arm("scx_lavd", ("/bin/scx_lavd",))
    compare(FakeVm(half_as_long), journal, arms=[EEVDF, peer], pairs=2)
    assert all("was not enabled" in r["failure"] for r in of_arm(journal, "scx_lavd"))


def test_a_hang_under_an_ejected_scheduler_is_told_as_the_ejection():
    def eject_and_hang(vm: FakeVm) -> Result:
        if not vm.in_charge:
            return half_as_long(vm)
        vm.scheduler.end(1)
        return hang(vm)

    journal = Journal(None)
    compare(FakeVm(eject_and_hang), journal, pairs=2)
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
    places = [(record["block"], record["order"], record["arm"]) for record in resumed.records]
    assert places == [(r["block"], r["order"], r["arm"]) for r in whole.records]


def test_pairs_are_added_until_the_noise_is_low():
    calm, wild = Journal(None), Journal(None)
    compare(FakeVm(half_as_long), calm, pairs=40, aa_ratio=0.03)
    assert len(of_arm(calm, "eevdf")) == runner.MIN_PAIRS
    values = itertools.cycle([1.0, 5.0, 2.0, 9.0, 3.0])
    compare(FakeVm(lambda vm: Result(0, f"took {next(values)}\n")), wild, pairs=20, aa_ratio=0.03)
    assert len(of_arm(wild, "eevdf")) == 20
