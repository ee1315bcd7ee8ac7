# SPDX-License-Identifier: GPL-2.0-only
"""Where arms run: phases of a shape, neighbours, and what a machine of one kernel cannot do."""

import threading

import pytest
from lab import LabError
from lab.presets import Phase
from paired import arms, stage


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


def test_a_kernel_of_its_own_takes_the_lab():
    with pytest.raises(LabError, match="--lab") as refused:
        stage.LocalStage([arms.Arm("eevdf"), arms.Arm("cfs", (), "6.1")])
    assert refused.value.exit_code == 64
