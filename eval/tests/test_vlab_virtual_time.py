# SPDX-License-Identifier: GPL-2.0-only
"""A VM by virtual time: what it counts, and that the wall's clock does not show in it."""

import re
import time

import pytest

from guest_scheduler import DEFAULT_KERNEL, on_kernels
from vlab import CommandTimeout, Vm, truth

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]
SPIN = """
import time
end, turns = time.monotonic() + {}, 0
while time.monotonic() < end:
    turns += sum(range(100)) > 0
print(turns)
"""


@pytest.fixture
def vm(guest):
    guest.shape("honest")
    return guest


def spin(vm: Vm, threads: int, seconds: float = 0.5) -> list[int]:
    """Turns that each of several processes makes in the same time, each on its own vCPU.

    The kernel would place them as well, and at times puts two on one vCPU at first.
    """
    vm.run(f"cat >/tmp/spin.py <<'END'{SPIN.format(seconds)}END")
    spinners = [f"taskset -c {vcpu} python3 -S /tmp/spin.py" for vcpu in range(threads)]
    told = vm.run(" & ".join(spinners) + " & wait", 60)
    return [int(word) for word in told.output.split()]


def test_vcpus_with_a_pcpu_each_work_in_parallel(vm):
    alone = spin(vm, 1)[0]
    assert sum(spin(vm, 4)) == pytest.approx(4 * alone, rel=0.05)


def test_competitors_take_their_share_and_the_truth_says_so(vm):
    vm.shape("packed:2+hog")
    before = vm.truth()
    spin(vm, 4, 1.0)
    for vcpu in truth.difference(before, vm.truth()):
        wanted_ns = vcpu.run_ns + vcpu.delay_ns
        assert vcpu.run_ns == pytest.approx(wanted_ns / 3, rel=0.15)


def test_the_guest_sees_what_is_taken_by_kvms_steal_clock(vm):
    def stolen_s() -> float:
        return int(vm.run("head -1 /proc/stat").output.split()[8]) / 100

    vm.shape("packed:2")
    before, before_s = vm.truth(), stolen_s()
    spin(vm, 4, 1.0)
    taken_s = sum(v.delay_ns for v in truth.difference(before, vm.truth())) / 1e9
    assert stolen_s() - before_s == pytest.approx(taken_s, rel=0.1)


def test_time_stands_still_between_commands(vm):
    before_ns = vm.clock.now_ns()
    time.sleep(0.2)
    assert vm.clock.now_ns() == before_ns
    vm.sleep(1000)
    assert vm.clock.now_ns() == before_ns + 1000 * 10**9


def test_a_time_out_is_of_the_guests_time(vm):
    begin_ns = vm.clock.now_ns()
    with pytest.raises(CommandTimeout):
        vm.run("sleep 10000", timeout_s=500)
    assert 500e9 <= vm.clock.now_ns() - begin_ns < 506e9


def test_a_pause_of_the_vm_is_a_jump_of_its_clock(vm):
    def monotonic_s() -> float:
        return float(vm.run("cat /proc/uptime").output.split()[0])

    before_s = monotonic_s()
    vm.pause(300)
    assert monotonic_s() - before_s == pytest.approx(300, abs=1)


def test_files_of_the_host_cost_no_time(vm):
    vm.run("echo 3 >/proc/sys/vm/drop_caches")
    told = vm.run("bash -c 'time -p cat /usr/bin/perf /usr/bin/git >/dev/null'").output
    assert float(re.search(r"real ([\d.]+)", told)[1]) < 1.0
