# SPDX-License-Identifier: GPL-2.0-only
"""The demo on a fake VM: it succeeds only if the scheduler was enabled and left cleanly."""

from types import SimpleNamespace

import pytest

import demo
from fake_vm import FakeScheduler, FakeVm
from vlab import Result

BANNER = "scx_vaware: enabled\nbusy  30 %  stolen  60 %\n"


class DemoVm(FakeVm):
    """Has the scheduler, its loads, and a clock that goes by its sleep."""

    vcpus = 4
    kernel = SimpleNamespace(release="7.2")
    accel = "virtual"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.clock = SimpleNamespace(now_ns=lambda: self.clock_ns)

    def spawn(self, cmd: str):
        if "scx_vaware" in cmd:
            self.scheduler = FakeScheduler(self, cmd, self.behaviour(cmd))
            self.scheduler.output = ""
            return self.scheduler
        return SimpleNamespace(kill=lambda signal: None)

    def sleep(self, seconds: float):
        self.clock_ns += round(seconds * 1e9)
        if self.scheduler.behaviour != "no start":
            self.scheduler.output = BANNER
        if self.scheduler.behaviour == "ejected":
            self.scheduler.end(86)


@pytest.mark.parametrize(
    "behaviour, rc, words",
    [
        ("", 0, "its own scheduler is back"),
        ("no start", 1, "never said that it was enabled"),
        ("ejected", 1, "ended by itself with code 86"),
        ("stubborn", 1, "did not end on SIGINT"),
    ],
)
def test_demo(capfd, behaviour, rc, words):
    vm = DemoVm(lambda vm: Result(0, ""), lambda cmd: behaviour)
    assert demo.run(vm, "/bin/scx_vaware", 2) == rc
    told = capfd.readouterr().out.replace("the kernel's own", "its own")
    assert words in told
    assert (BANNER in told) == (behaviour != "no start")
    assert vm.state == "disabled"
