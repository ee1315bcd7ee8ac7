# SPDX-License-Identifier: GPL-2.0-only
"""Two machines by virtual time with the same input: one seed, one schedule."""

import os
import subprocess
from pathlib import Path

import pytest

from vlab import Vm, find_kernel, virtual_time
from vlab.clock import VirtualClock
from vlab.presets import Phase
from vlab.shaping import VirtualShaper

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(not virtual_time.is_there(), reason="QEMU with virtual time is not built"),
]

GUEST = Path(__file__).with_name("guest")


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
        *["-kernel", str(find_kernel("7.2").vmlinuz)],
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


def run_in_a_vm(seed: int) -> list:
    """What a VM with this machine's files tells of a boot and of work under a shape."""
    options = virtual_time.Options(seed, ns_per_instruction=4)
    with Vm("7.2", shape="floating:2+bursty:3/5", clock="virtual", virtual=options) as vm:
        booted_ns = vm.clock.now_ns()
        output = vm.run("hackbench -g 2 -l 100 --pipe").output
        return [booted_ns, output, vm.clock.now_ns(), vm.truth()]


@pytest.mark.long
def test_the_same_seed_gives_the_same_run_with_files_of_the_host():
    first = run_in_a_vm(1)
    assert run_in_a_vm(1) == first
    assert run_in_a_vm(2) != first
