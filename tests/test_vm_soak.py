# SPDX-License-Identifier: GPL-2.0-only
"""Mixed load and random faults for long: no stall, no ejection, and nothing is left in the end.

VAWARE_SOAK_SECONDS is for how long on each kernel, by the VM's clock; VAWARE_SOAK_SEED chooses the
faults.
"""

import json
import os
import random
from collections import Counter
from signal import SIGCONT, SIGHUP, SIGINT, SIGSTOP

import pytest

from conftest import TOLD
from guest_scheduler import (
    ALL_KERNELS,
    BINARY,
    CONFIG,
    ENABLED,
    LIMIT_S,
    GuestScheduler,
    boot,
    configure,
    kernel_complaints,
    on_kernels,
    sched_ext,
    tool,
    wait_until,
)
from vlab import Vm

pytestmark = [pytest.mark.vm, pytest.mark.long, on_kernels(*ALL_KERNELS)]
SECONDS = float(os.environ.get("VAWARE_SOAK_SECONDS", "60"))
SEED = int(os.environ.get("VAWARE_SOAK_SEED", "1"))
NS_PER_INSTRUCTION = 8  # a slower VM, of which this machine emulates more time
CALM_S = 30  # at most from fault to fault
BACK_S = 2.0  # from the end of the daemon to the kernel's own scheduler, on such a slow VM
WATCHDOG_S = 30  # the kernel's: a longer pause ends the scheduler
DISK = "/run/soak"  # a disk with room for a few lines
SWITCH = "/run/disable"
OVER = "/tmp/over"
KILL_SWITCH = f'kill_switch = "{SWITCH}"\n'
CONFIGURATIONS = [
    "",
    "policies = []\n",
    'policies = "all"\nwait_bound_ms = 300\n',
    "probe_light_ms = 200\n",
    'listen = "off"\n',
    "policies = [\n",  # broken
    "polices = []\n",
]
# What the daemon could leave: files, mounts, processes, settings.
LISTED = (
    "find /run /sys/fs/bpf /sys/fs/cgroup -xdev | sort; mount; pgrep -l scx_vaware;"
    " grep -H '' /proc/sys/kernel/sched* /proc/sys/net/core/bpf* /proc/sys/kernel/*bpf*"
    " /sys/devices/virtual/workqueue/cpumask /sys/devices/system/cpu/online"
)


class Soak:
    """A scheduler beside a load, and what is done to it."""

    def __init__(self, vm: Vm, chance: random.Random):
        self.vm = vm
        self._chance = chance
        self.longest_s = 0.0
        self.loads = 0
        self.start()

    def start(self) -> None:
        """Have a daemon that has loaded the scheduler."""
        configure(self.vm, KILL_SWITCH)
        log = ("--activity-log", f"{DISK}/log")
        self.scheduler = GuestScheduler(self.vm, "--config", CONFIG, *log).__enter__()
        self.loads += 1

    def kill(self) -> None:
        killed = self.vm.run(tool("end_by_kill.py", self.scheduler.pid), LIMIT_S)
        assert killed.rc == 0, killed.output
        back_s = float(killed.output)
        assert back_s < BACK_S
        self.longest_s = max(self.longest_s, back_s)
        assert self.scheduler.wait().rc == 128 + 9
        self.start()

    def stop(self) -> None:
        self.scheduler.signal(SIGSTOP)
        self.vm.sleep(self._chance.uniform(1, 40))
        self.scheduler.signal(SIGCONT)

    def replug(self) -> None:
        storm = tool("replug.py", self._chance.randrange(10**6), self._chance.randrange(2, 20))
        done = self.vm.run(storm, LIMIT_S)
        assert done.rc == 0, done.output

    def reload(self) -> None:
        configure(self.vm, KILL_SWITCH + self._chance.choice(CONFIGURATIONS))
        self.scheduler.signal(SIGHUP)

    def another_daemon(self) -> None:
        refused = self.vm.run(f"{BINARY} --listen off", LIMIT_S)
        assert refused.rc == 75, refused.output

    def step_clock(self) -> None:
        step_s = self._chance.choice([-86_400, -60, 60, 86_400])
        assert self.vm.run(f"date -s @$(($(date +%s) + {step_s}))", LIMIT_S).rc == 0

    def fill_disk(self) -> None:
        self.vm.run(f"dd if=/dev/zero of={DISK}/fill bs=4k 2>/dev/null; sleep 2; rm {DISK}/fill")
        assert self.vm.run(f": >{DISK}/log", LIMIT_S).rc == 0

    def pause(self) -> None:
        pause_s = self._chance.choice([1, 10, 45, 200])
        loads = self.scheduler.output.count(ENABLED)
        self.vm.pause(pause_s)
        if pause_s > WATCHDOG_S:
            self._wait_for_load(loads)
            kernel_complaints(self.vm)  # of what it took for a stall

    def switch_off(self) -> None:
        loads = self.scheduler.output.count(ENABLED)
        assert self.vm.run(f"touch {SWITCH}", LIMIT_S).rc == 0
        wait_until(self.vm, lambda: sched_ext(self.vm).state == "disabled", "the end")
        assert self.vm.run(f"rm {SWITCH}", LIMIT_S).rc == 0
        self._wait_for_load(loads)

    def hog(self) -> None:
        """A real-time task that leaves a tenth of a vCPU to others."""
        task = tool("real_time.py", self._chance.randrange(4), 90, 10)
        assert self.vm.run(f"timeout {self._chance.uniform(2, 15)} {task}", LIMIT_S).rc == 124

    def _wait_for_load(self, loads: int) -> None:
        said = self.scheduler
        wait_until(self.vm, lambda: said.output.count(ENABLED) > loads, "the next load")
        said.expect_loaded_again()
        self.loads += 1


FAULTS = [
    Soak.kill,
    Soak.stop,
    Soak.replug,
    Soak.replug,
    Soak.reload,
    Soak.another_daemon,
    Soak.step_clock,
    Soak.fill_disk,
    Soak.pause,
    Soak.switch_off,
    Soak.hog,
]


def left(vm: Vm) -> list[str]:
    """All that could be left, a line each."""
    counted = vm.run(f"rm -f {CONFIG}; {tool('bpf_left.py')}", LIMIT_S)
    return [counted.output, *vm.run(LISTED, LIMIT_S).output.splitlines()]


def test_load_and_faults_for_long(binary, kernel, record_property):
    vm = boot(kernel, binary, ns_per_instruction=NS_PER_INSTRUCTION)
    try:
        disk = f"mkdir {DISK} && mount -t tmpfs -o size=64k none {DISK}"
        assert vm.run(f"mkdir -p /run/scx_vaware; {disk}; touch {DISK}/log", LIMIT_S).rc == 0
        before, chance, faults = left(vm), random.Random(SEED), Counter()
        soak = Soak(vm, chance)
        load, began_ns = vm.spawn(tool("soak.sh", OVER)), vm.clock.now_ns()
        while (vm.clock.now_ns() - began_ns) / 1e9 < SECONDS:
            fault = chance.choice(FAULTS)
            print(f"{(vm.clock.now_ns() - began_ns) / 1e9:.0f} s: {fault.__name__}", flush=True)
            fault(soak)
            faults[fault.__name__] += 1
            vm.sleep(chance.uniform(0, CALM_S))
            soak.scheduler.expect_health()
            assert load.rc is None, load.output
        soaked_s = (vm.clock.now_ns() - began_ns) / 1e9
        assert vm.run(f"touch {OVER}", LIMIT_S).rc == 0
        assert load.wait(LIMIT_S).rc == 0, load.output
        assert soak.scheduler.end(SIGINT).rc == 0
        soak.scheduler.__exit__(None)
        vm.run(f"rm {OVER}; sleep 2")  # the kernel frees maps after grace periods
        assert left(vm) == before
        churned = sum((Counter(json.loads(line)) for line in load.output.splitlines()), Counter())
        told = {
            "kernel": vm.kernel.release,
            "minutes": round(soaked_s / 60, 1),
            "loads": soak.loads,
            "longest_fallback_s": round(soak.longest_s, 3),
            "cgroups": churned,
            "faults": faults,
        }
        record_property(TOLD, json.dumps(told))
    finally:
        vm.down()


def test_races_of_cgroups_for_long(binary, kernel, record_property):
    """Move, delete, and change of limits and weights, without a rest."""
    vm = boot(kernel, binary, ns_per_instruction=NS_PER_INSTRUCTION)
    try:
        with GuestScheduler(vm, "--listen", "off"):
            done = vm.run(tool("cgroup_churn.py", SECONDS), SECONDS + LIMIT_S)
            assert done.rc == 0, done.output
            told = {"kernel": vm.kernel.release, "minutes": SECONDS / 60, **json.loads(done.output)}
        record_property(TOLD, json.dumps(told))
    finally:
        vm.down()
