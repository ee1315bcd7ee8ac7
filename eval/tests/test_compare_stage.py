# SPDX-License-Identifier: GPL-2.0-only
"""Where arms run: phases of a shape, neighbours, and what a machine of one kernel cannot do."""

import threading
from types import SimpleNamespace

import pytest

from compare import arms, cli, plan, stage
from compare.plan import Plan
from test_compare_records import some_runs, write
from vlab import LabError
from vlab.presets import Phase


class ShapedVm:
    """A VM that keeps what it was shaped to, and what was started in it."""

    def __init__(self, enough: int = 0, refuses: str = ""):
        self.shapes: list[str] = []
        self.commands: list[str] = []
        self.killed = 0
        self.seen_enough = threading.Event()
        self._enough = enough
        self.refuses = refuses

    def shape(self, text: str) -> None:
        if text == self.refuses:
            self.seen_enough.set()
            raise OSError("no such thread")
        self.shapes.append(text)
        if len(self.shapes) >= self._enough:
            self.seen_enough.set()

    def spawn(self, command: str) -> "ShapedVm":
        self.commands.append(command)
        return self

    def kill(self, signal: int) -> None:
        self.killed += 1

    def wait(self, timeout_s: float) -> None:
        pass


def test_the_phases_follow_each_other_over_and_over_and_stop_with_the_run():
    vm = ShapedVm(enough=5)
    with stage._phases(vm, (Phase("a", 0.01), Phase("b", 0.01))):
        assert vm.seen_enough.wait(60)
    seen = list(vm.shapes)
    assert seen[:5] == ["a", "b", "a", "b", "a"]
    assert vm.shapes == seen


def test_a_run_whose_shape_could_not_be_changed_does_not_count():
    vm = ShapedVm(enough=2, refuses="b")
    with (
        pytest.raises(LabError, match="no such thread"),
        stage._phases(vm, (Phase("a", 0.01), Phase("b", 60))),
    ):
        assert vm.seen_enough.wait(60)


def test_each_run_begins_with_the_first_phase():
    vm = ShapedVm()
    for _ in range(2):
        with stage._phases(vm, (Phase("a", 60), Phase("b", 60))):
            pass
    assert vm.shapes == ["a", "a"]


def test_a_shape_that_does_not_change_is_left_alone():
    vm = ShapedVm()
    with stage._phases(vm, (Phase("a"),)):
        pass
    assert vm.shapes == []


def test_neighbours_work_while_the_workload_runs_and_no_longer():
    vms = [ShapedVm(), ShapedVm()]
    with pytest.raises(RuntimeError), stage._work(vms, ("one", "two")):
        assert [vm.killed for vm in vms] == [0, 0]
        assert "one" in vms[0].commands[0] and "two" in vms[1].commands[0]
        raise RuntimeError
    assert [vm.killed for vm in vms] == [1, 1]


@pytest.mark.parametrize("text", ["cfs", "eevdf+haltpoll"])
def test_a_boot_of_its_own_takes_the_lab(text):
    with pytest.raises(LabError, match="--lab") as refused:
        stage.LocalStage([arms.Arm("eevdf"), arms.parse(text)])
    assert refused.value.exit_code == 64


class BootedVm:
    """A VM that is not there, and what it was booted with."""

    booted: list["BootedVm"] = []

    def __init__(self, kernel: str | None, **options):
        self.kernel, self.options, self.is_up = kernel, options, False

    def __enter__(self):
        self.is_up = True
        self.booted.append(self)
        return self

    def __exit__(self, *_):
        self.is_up = False


@pytest.fixture
def booted(monkeypatch, tmp_path) -> list[BootedVm]:
    """The VMs that a stage boots in a lab with a kernel 6.12 with a config."""
    (tmp_path / "7.2").write_text("# CONFIG_PARAVIRT_TIME_ACCOUNTING is not set\n")
    (tmp_path / "6.12").write_text("CONFIG_PARAVIRT_TIME_ACCOUNTING=y\n")

    def find(name):
        return SimpleNamespace(release=name or "7.2", config=tmp_path / (name or "7.2"))

    monkeypatch.setattr(BootedVm, "booted", [])
    monkeypatch.setattr(stage, "Vm", BootedVm)
    monkeypatch.setattr(stage.host, "qemu", lambda: SimpleNamespace(version="10"))
    monkeypatch.setattr(stage.accel, "choose", lambda kernel, clock: "tcg")
    monkeypatch.setattr(stage.accel, "best_clock", lambda kernel: "virtual")
    monkeypatch.setattr(stage, "find_kernel", find)
    return BootedVm.booted


EEVDF, POLL = arms.Arm("eevdf"), arms.parse("eevdf+haltpoll")


def test_by_virtual_time_each_block_boots_anew_with_its_seed_one_vm_at_a_time(booted):
    with stage.LabStage([EEVDF, POLL], "honest", clock="virtual", ns_per_instruction=2.0) as lab:
        for seed in (5, 6):
            for arm in (EEVDF, EEVDF.twin(), POLL):
                new = lab.ready(arm, seed)
                assert (new is None) == (arm.name == "eevdf'")
                assert [vm.is_up for vm in booted] == [False] * (len(booted) - 1) + [True]
    assert not any(vm.is_up for vm in booted)
    told = [(vm.options["virtual"].seed, vm.options["append"]) for vm in booted]
    assert told == [(seed, append) for seed in (5, 6) for append in ("", arms.HALTPOLL_APPEND)]
    for vm in booted:
        assert vm.options["clock"] == "virtual"
        assert vm.options["virtual"].ns_per_instruction == 2.0
    assert (lab.facts["clock"], lab.facts["ns_per_instruction"]) == ("virtual", 2.0)
    assert lab.facts["stolen_source"] == "the simulated host"


def test_by_wall_time_vms_stay_up_and_know_of_no_seed(booted):
    with stage.LabStage([EEVDF, POLL], "honest") as lab:
        new = [lab.ready(arm, seed) for seed in (1, 2) for arm in (EEVDF, POLL)]
        assert [vm is None for vm in new] == [False, False, True, True]
        assert all(vm.is_up for vm in booted)
    assert booted[0].options["clock"] == "wall"
    assert "virtual" not in booted[0].options


def test_kernels_are_told_with_their_accounting_of_stolen_time(booted):
    other = arms.parse("eevdf@6.12")
    with stage.LabStage([EEVDF, other, POLL], "honest") as lab:
        assert lab.facts.items() >= {"kernel": "7.2", "paravirt_time": False}.items()
        assert lab.facts_of(EEVDF) == {}
        assert lab.facts_of(other) == {
            "arm_vm": {"kernel": "6.12", "paravirt_time": True, "append": ""}
        }
        assert lab.facts_of(POLL)["arm_vm"]["append"] == "cpuidle_haltpoll.force=1"


def test_a_plan_is_printed_with_its_cells_blocks_and_time_and_nothing_runs(booted, capsys):
    command = ["--arms", "eevdf,eevdf+haltpoll,old=eevdf@6.12", "--workload", "true"]
    shapes = ["--shape", "honest", "--shape", "stacked"]
    assert cli.main([*command, *shapes, "--workload", "false", "--dry-run"]) == 0
    told = capsys.readouterr().err
    assert "8 cells (shapes: 2, workloads: 2, arms: 3), blocks: 10, at least 5: " in told
    assert cli.main([*command, "--lab", "--dry-run", "--seeds", "4,7"]) == 0
    assert "2 cells (shapes: 1, workloads: 1, arms: 3), blocks: 2, " in capsys.readouterr().err
    assert booted == []


def test_a_file_of_another_build_is_not_gone_on_with(booted, tmp_path, capsys):
    path = write(tmp_path / "out", some_runs())
    command = ["--shape", "honest", "--workload", "true", "--out", str(path), "--resume"]
    assert cli.main(["--arms", "eevdf,a=kernel", *command]) == 64
    assert "mix arm sets (eevdf, scx_a and eevdf, a)" in capsys.readouterr().err
    assert cli.main(["--arms", "eevdf,scx_a=kernel", *command]) == 64
    assert "mix builds" in capsys.readouterr().err
    assert booted == []


def test_the_estimate_is_of_all_loads_and_runs_and_of_the_speed_of_the_clock():
    """Two arms, so three turns a block, of which one loads; two workloads of 4 s each."""
    facts = {"clock": "wall", "vcpus": 4, "ns_per_instruction": 1.0}
    scx = arms.Arm("scx", ("/bin/scx",), append="quiet")
    some = Plan([EEVDF, scx], ["a", "b"], range(5), settle_s=10.0, warm_up=False)
    turns_s = 5 * plan.LOAD_S + 15 * (10 + 2 * 4)
    assert some.wall_s(4, facts) == pytest.approx(turns_s + 2 * plan.BOOT_S)
    facts["clock"] = "virtual"
    slower = 4 / plan.VCPU_SPEED
    by_virtual_time_s = 5 * plan.LOAD_S + 15 * 2 * 4 * slower + 5 * 2 * plan.BOOT_S
    assert some.wall_s(4, facts) == pytest.approx(by_virtual_time_s)
    facts["ns_per_instruction"] = 4.0
    assert some.wall_s(4, facts) < by_virtual_time_s / 2


@pytest.mark.parametrize("shape", ["changing", "neighbours"])
def test_what_changes_is_refused_where_instructions_are_the_clock(booted, shape):
    with pytest.raises(LabError, match="--clock virtual"):
        stage.LabStage([EEVDF], shape, clock="instructions")


def test_a_simulated_host_has_the_papers_vms_at_their_size(booted):
    with stage.LabStage([EEVDF], "rcvm", clock="virtual") as lab:
        assert lab.facts["vcpus"] == 12


def test_a_simulated_host_offers_what_it_is_asked_to_and_runs_tell(booted):
    offered = ("steal", "poll-control")
    with stage.LabStage([EEVDF], "honest", clock="virtual", paravirt=offered) as lab:
        lab.ready(EEVDF, 1)
    assert booted[0].options["virtual"].paravirt == offered
    assert lab.facts["paravirt"] == list(offered)
    assert "paravirt" not in stage.LabStage([EEVDF], "honest", clock="virtual").facts


@pytest.mark.parametrize(
    "clock, offered, why", [("wall", (), "--clock virtual"), ("virtual", ("kvmclock",), "kvmclock")]
)
def test_what_a_host_cannot_offer_is_refused(booted, clock, offered, why):
    with pytest.raises(LabError, match=why):
        stage.LabStage([EEVDF], "honest", clock=clock, paravirt=offered)
