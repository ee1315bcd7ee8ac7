# SPDX-License-Identifier: GPL-2.0-only
"""The demo on a fake VM: it succeeds only if the scheduler was enabled and left cleanly."""

import threading
from types import SimpleNamespace

import demo
import pytest
from fake_vm import FakeScheduler, FakeVm
from lab import Result
from paired import arms

BANNER = b"scx_vaware: enabled\nbusy  30 %  stolen  60 %\n"


class FakeShow(FakeScheduler):
    """A scheduler that prints its banner and runs until it is ended."""

    def __init__(self, vm: FakeVm, cmd: str, behaviour: str):
        self.gone = threading.Event()
        super().__init__(vm, cmd, behaviour)

    def end(self, rc: int) -> None:
        if not self.gone.is_set():
            super().end(rc)
            self.gone.set()

    def wait(self, timeout_s, on_output) -> Result:
        if self.behaviour != "no start":
            on_output(BANNER)
        if self.behaviour == "ejected":
            self.end(86)
        if self.rc is None:
            self.gone.wait()
        return Result(self.rc, "")


class FakeDemoVm(FakeVm):
    """Has the scheduler and its loads."""

    vcpus = 4
    kernel = SimpleNamespace(release="7.2")
    accel = "tcg"

    def spawn(self, cmd: str):
        if "scx_vaware" in cmd:
            return FakeShow(self, cmd, self.behaviour(cmd))
        return SimpleNamespace(kill=lambda signal: None)


@pytest.mark.parametrize(
    "behaviour, rc, words",
    [
        ("", 0, "its own scheduler is back"),
        ("no start", 1, "never said that it was enabled"),
        ("ejected", 1, "ended by itself with code 86"),
        ("stubborn", 1, "did not end on SIGINT"),
    ],
)
def test_demo(monkeypatch, capfd, behaviour, rc, words):
    monkeypatch.setattr(arms, "DISABLE_TIMEOUT_S", 0.2)
    vm = FakeDemoVm(lambda vm: Result(0, ""), lambda cmd: behaviour)
    assert demo.run(vm, "/bin/scx_vaware", 0.2) == rc
    told = capfd.readouterr().out.replace("the kernel's own", "its own")
    assert words in told
    assert vm.state == "disabled"
