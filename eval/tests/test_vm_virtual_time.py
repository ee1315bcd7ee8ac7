# SPDX-License-Identifier: GPL-2.0-only
"""A VM by virtual time: what it counts, and that the wall's clock does not show in it."""

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from lab import CommandTimeout, Vm, kernels, truth, virtual_time
from lab.clock import VirtualClock
from lab.presets import Phase
from lab.shaping import VirtualShaper

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(not virtual_time.is_there(), reason="QEMU with virtual time is not built"),
]

GUEST = Path(__file__).with_name("guest")
OPTIONS = virtual_time.Options(seed=1, ns_per_instruction=4)
SPIN = """
import time
end, turns = time.monotonic() + {}, 0
while time.monotonic() < end:
    turns += sum(range(100)) > 0
print(turns)
"""


def boot(**more) -> Vm:
    options = {"kernel": "7.2", "vcpus": 4, "shape": "honest", "memory_mib": 1024} | more
    return Vm(clock="virtual", virtual=options.pop("virtual", OPTIONS), **options)


@pytest.fixture(scope="module")
def vm():
    with boot() as vm:
        vm.sleep(10)  # the kernel's own tests after boot
        yield vm


def spin(vm: Vm, threads: int, seconds: float = 0.5) -> list[int]:
    """Turns that each of several processes makes in the same time."""
    vm.run(f"cat >/tmp/spin.py <<'END'{SPIN.format(seconds)}END")
    told = vm.run(" & ".join(["python3 -S /tmp/spin.py"] * threads) + " & wait", 60)
    return [int(word) for word in told.output.split()]


def test_vcpus_with_a_pcpu_each_work_in_parallel(vm):
    vm.shape("honest")
    alone = spin(vm, 1)[0]
    assert sum(spin(vm, 4)) == pytest.approx(4 * alone, rel=0.05)


def test_competitors_take_their_share_and_the_truth_says_so(vm):
    vm.shape("packed:2+hog")
    before = vm.truth()
    spin(vm, 4, 1.0)
    for vcpu in truth.difference(before, vm.truth()):
        wanted_ns = vcpu.run_ns + vcpu.delay_ns
        assert vcpu.run_ns == pytest.approx(wanted_ns / 3, rel=0.15)
    vm.shape("honest")


def test_the_guest_sees_what_is_taken_by_kvms_steal_clock(vm):
    def stolen_s() -> float:
        return int(vm.run("head -1 /proc/stat").output.split()[8]) / 100

    vm.shape("packed:2")
    before, before_s = vm.truth(), stolen_s()
    spin(vm, 4, 1.0)
    taken_s = sum(v.delay_ns for v in truth.difference(before, vm.truth())) / 1e9
    assert stolen_s() - before_s == pytest.approx(taken_s, rel=0.1)
    vm.shape("honest")


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


def schedule(folder: Path, seed: int) -> str:
    """What the host does with a machine whose only input is its initramfs, for 11 s."""
    folder.mkdir()
    init, initrd, record = folder / "init", folder / "initrd", folder / "record"
    subprocess.run(["cc", "-O2", "-static", "-o", init, GUEST / "busy_init.c"], check=True)
    initrd.write_bytes(newc("init", init.read_bytes()) + newc("TRAILER!!!", b""))
    options = virtual_time.Options(seed, ns_per_instruction=4)
    clock = VirtualClock(folder / "clock")
    args = [
        *virtual_time.command(options),
        *["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"],
        *["-smp", "4", "-m", "512M", "-initrd", str(initrd)],
        *["-kernel", str(kernels.find("7.2").vmlinuz)],
        *["-append", "rdinit=/init quiet clocksource=tsc tsc=reliable panic=-1"],
    ]
    env = os.environ | virtual_time.environment(options, folder / "clock")
    with subprocess.Popen(args, env=env) as machine:
        assert clock.accept(60)
        VirtualShaper(clock, 4).apply([Phase("floating:2+bursty:3/5")])
        clock.ask(f"record {record}\n")
        clock.sleep(11)  # until all work, and nobody is done
        clock.ask("record\n")
        clock.close()
        machine.wait(60)
    return record.read_text()


def newc(name: str, content: bytes) -> bytes:
    """A file of an initramfs (Linux Documentation/driver-api/early-userspace/buffer-format.rst)."""
    fields = [1, 0o100755, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
    return b"".join(part + bytes(-len(part) % 4) for part in (head, content))


def test_the_same_seed_gives_the_same_schedule(tmp_path):
    first = schedule(tmp_path / "first", 1)
    assert len(first.splitlines()) > 10_000
    assert schedule(tmp_path / "again", 1) == first
    assert schedule(tmp_path / "other", 2) != first
