# SPDX-License-Identifier: GPL-2.0-only
"""What is told of a guest that died, and kept of it: with a QEMU that only pretends."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from vlab import LabError, console, machine

LISTENER = """
import os, socket, sys, threading, time
def listen(path):
    line = socket.socket(socket.AF_UNIX)
    line.bind(path)
    line.listen()
    return line
"""
VIRTIOFSD = LISTENER + "line = listen(sys.argv[1]); time.sleep(600)"
# One vCPU, and a guest that is up at once and dies of its first command.
QEMU = (
    "#!"
    + sys.executable
    + LISTENER
    + """
def after(option, start):
    found = (a for o, a in zip(sys.argv, sys.argv[1:]) if o == option and start in a)
    return next(found).partition(start)[2].partition(",")[0]
def vcpu():
    open(f"/proc/self/task/{threading.get_native_id()}/comm", "w").write("CPU 0/KVM")
    time.sleep(600)
console = open(after("-serial", "file:"), "w", buffering=1)
print("[    0.100000] Linux\\r", file=console)
threading.Thread(target=vcpu, daemon=True).start()
agent, _ = listen(after("-chardev", "id=agent,path=")).accept()
agent.sendall(b'{"up": true}\\n')
agent.recv(1)
print("[    9.000000] Kernel panic - not syncing: a test\\r", file=console)
os.kill(os.getpid(), 9)
"""
)


class FakeRun:
    """A run in `path`, whose processes are ordinary ones."""

    def __init__(self, path: Path):
        self.id = "0123abcd"
        self.path = path

    def spawn(self, args, log, env=None):
        with (self.path / log).open("ab") as out:
            return subprocess.Popen([str(arg) for arg in args], stdout=out, stderr=out)

    def end(self, process):
        process.kill()
        process.wait()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/scx_vaware/consoles"


@pytest.fixture
def booted(tmp_path, cache, monkeypatch):
    qemu = tmp_path / "qemu"
    qemu.write_text(QEMU)
    qemu.chmod(0o755)
    served = [sys.executable, "-c", VIRTIOFSD]
    virtiofsd = SimpleNamespace(command=lambda path, *_: [*served, path])
    monkeypatch.setattr(machine.host, "qemu", lambda: SimpleNamespace(path=qemu))
    monkeypatch.setattr(machine.host, "virtiofsd", lambda: virtiofsd)
    (tmp_path / "config").touch()
    kernel = SimpleNamespace(config=tmp_path / "config", vmlinuz="none", initrd=None)
    run = tmp_path / "run"
    run.mkdir()
    config = machine.Config(kernel=kernel, vcpus=1, memory_mib=256, accel="kvm")
    guest = machine.Machine(FakeRun(run), config)
    yield guest
    guest.stop()


def test_the_last_words_of_a_guest_are_quoted_and_its_console_is_kept(booted, cache):
    assert booted.channel.up.wait(60)
    with pytest.raises(LabError) as error:
        booted.channel.start("true").wait(60)
    message = error.value.message
    kept = cache / "0123abcd.log"
    for part in ("signal 9", "Linux | ", "Kernel panic - not syncing: a test", str(kept)):
        assert part in message, message
    assert message.endswith("start it again") and "\r" not in message
    assert kept.read_bytes() == booted.console.read_bytes()


def test_a_guest_that_was_stopped_has_not_died(booted, cache):
    assert booted.channel.up.wait(60)
    working = booted.channel.start
    booted.stop()
    with pytest.raises(LabError, match=r"^the VM is gone; start it again$"):
        working("true")
    assert not cache.exists()


def test_a_panic_is_quoted_however_much_follows_it():
    lines = [
        "[1] Linux",
        "[2] Kernel panic - not syncing: why",
        *map(str, range(20)),
        "",
        "\x1b[0m",
    ]
    quoted = console.last_lines("\r\n".join(lines))
    assert quoted[0] == lines[1] and quoted[-1] == "19"
    assert len(quoted) == console.QUOTED
    oops = console.last_lines("\n".join(["[1] Oops: int3: 0000", *lines]))
    assert oops[0] == "[1] Oops: int3: 0000" and len(oops) == console.QUOTED
    assert console.last_lines("\x1b[2J\n\n") == []


def test_few_consoles_are_kept(tmp_path, cache):
    said = tmp_path / "console.log"
    said.write_text("Linux\n")
    for run in range(console.KEPT + 3):
        assert f"{run}.log" in console.epitaph(said, str(run))
        os.utime(cache / f"{run}.log", (run, run))
    console.epitaph(said, "last")
    kept = {file.stem for file in cache.iterdir()}
    assert len(kept) == console.KEPT and "last" in kept and "0" not in kept
    assert console.epitaph(tmp_path / "none", "none") == ""
