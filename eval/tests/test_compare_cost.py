# SPDX-License-Identifier: GPL-2.0-only
"""What a unit of work costs in vCPU time: the arithmetic, and where the metric is."""

import io

import pytest

from compare import cost
from compare.arms import Arm
from compare.plan import Plan
from compare.progress import Progress
from compare.records import Journal
from compare.runner import Runner
from fake_vm import FakeStage, FakeVm
from test_compare_runner import FACTS
from vlab import Result
from workloads import Metric, ParseError, Workload
from workloads.workload import number


def test_the_time_of_all_vcpus_is_shared_by_the_units_of_work():
    told = cost.metrics("lab", [3_000_000, 0, 1_000_000], 2000)
    assert told == {"vcpu_us_per_op": {"value": 2.0, "unit": "us/op", "better": "lower"}}


def test_outside_the_lab_nobody_tells():
    assert cost.metrics("local", [1_000_000], 10) == {}


def test_no_work_has_no_cost():
    with pytest.raises(ParseError, match="no unit"):
        cost.metrics("lab", [1_000_000], 0)


def of_a_run(place: str, operations, output: str = "did 500\nrate 1000\n") -> dict:
    """The record of a run in a fake VM, whose one vCPU runs 5 ns between two looks at it."""
    workload = Workload(
        "work",
        "work",
        (Metric("rate", "1/s", "higher"),),
        lambda told: {"rate": number(r"rate (\d+)", told)},
        operations=operations,
    )
    journal = Journal(None)
    plan = Plan([Arm("eevdf")], [workload], seeds=[1], settle_s=0, warm_up=False)
    stage = FakeStage(FakeVm(lambda vm: Result(0, output)), FACTS | {"place": place})
    Runner(stage, plan, journal, Progress(io.StringIO())).compare()
    return journal.records[0]


def test_a_run_in_the_lab_tells_it_after_its_own_metrics():
    run = of_a_run("lab", lambda told: number(r"did (\d+)", told))
    assert list(run["metrics"]) == ["rate", cost.METRIC]
    assert run["metrics"][cost.METRIC]["value"] == pytest.approx(5e-3 / 500)


def test_no_run_tells_it_without_units_of_work_or_a_host():
    assert list(of_a_run("lab", None)["metrics"]) == ["rate"]
    assert list(of_a_run("local", lambda told: 500)["metrics"]) == ["rate"]


def test_a_run_that_does_not_tell_its_work_has_failed():
    run = of_a_run("lab", lambda told: number(r"did (\d+)", told), "rate 1000\n")
    assert not run["ok"] and "did" in run["failure"]
