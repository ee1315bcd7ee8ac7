# SPDX-License-Identifier: GPL-2.0-only
"""Commands and files in a VM, and what is left of a VM that ends in one way or another."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from conftest import REPO
from guest_scheduler import DEFAULT_KERNEL, VIRTUAL, on_kernels, wait_until
from vlab import CommandTimeout, LabError, Vm, cgroups, runs, vm
from vlab.errors import EX_FAILED

EVAL = REPO / "eval"
pytestmark = pytest.mark.vm


def wait_for_host(condition, timeout_s):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s"
        time.sleep(0.05)


def leftovers(run_id):
    """What is left of a run: processes, cgroups, files."""
    parents = [cgroups.ROOT / "cpu" / f"vaware-lab-{run_id}", cgroups.ROOT / f"vaware-lab-{run_id}"]
    folders = [path for path in [*parents, runs.BASE / run_id] if path.exists()]
    return runs.processes(run_id) + folders


@on_kernels(DEFAULT_KERNEL)
def test_commands_run_at_once_and_stream(guest):
    streamed, results = [], {}

    def run(text):
        results[text] = guest.run(
            f"echo {text}; sleep 1; echo $WORD >&2; exit 3", env={"WORD": "e"}
        )

    threads = [threading.Thread(target=run, args=(text,)) for text in "abcd"]
    for thread in threads:
        thread.start()
    guest.run("echo first; sleep 1; echo second", on_output=streamed.append)
    for thread in threads:
        thread.join()
    assert results == {text: vm.Result(3, f"{text}\ne\n") for text in "abcd"}
    assert b"first\n" in streamed and b"second\n" in streamed


@on_kernels(DEFAULT_KERNEL)
def test_a_command_that_has_to_succeed_tells_what_it_said_if_it_fails(guest):
    assert guest.output_of("echo done") == "done\n"
    with pytest.raises(LabError, match="'echo full >&2; false' failed in the guest: full") as error:
        guest.output_of("echo full >&2; false")
    assert error.value.exit_code == EX_FAILED


@on_kernels(DEFAULT_KERNEL)
def test_a_command_past_its_time_is_killed_with_its_group(guest):
    with pytest.raises(CommandTimeout, match="within 2 s") as error:
        guest.run("echo begun; sleep 345 & sleep 345; echo never", timeout_s=2)
    assert error.value.output == "begun\n"
    assert guest.run("pgrep -xf 'sleep 345'").rc == 1


@on_kernels(DEFAULT_KERNEL)
def test_a_spawned_command_gets_signals(guest):
    handle = guest.spawn("trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.1; done")
    wait_until(guest, lambda: "ready" in handle.output, "its first word")
    handle.kill(signal.SIGINT)
    assert handle.wait(30) == vm.Result(5, "ready\ncaught\n")


@on_kernels(DEFAULT_KERNEL)
def test_files_and_folders_go_both_ways(guest, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there/a file").write_text("content")
    guest.put(tmp_path / "there", "/tmp/there")
    guest.get("/tmp/there/a file", tmp_path / "back")
    assert (tmp_path / "back").read_text() == "content"
    with pytest.raises(LabError, match="check the path"):
        guest.get("/nonexistent", tmp_path / "none")


@on_kernels(DEFAULT_KERNEL)
def test_the_guest_is_a_usable_system_with_a_read_only_root(guest):
    checks = (
        "test -c /dev/ptmx && test -d /dev/pts && touch /tmp/x /var/tmp/x /dev/shm/x $HOME/x"
        " && grep -q CONFIG_BPF /boot/config-$(uname -r) && ls /sys/fs/cgroup/cgroup.controllers"
        f" && test -f {EVAL}/vlab"
    )
    assert guest.run(checks).rc == 0, guest.run(checks).output
    outside = EVAL / "written-by-the-guest"
    assert guest.run(f"mount -o remount,rw /; touch {outside}").rc != 0
    assert not outside.exists()


@on_kernels(DEFAULT_KERNEL)
def test_threaded_cgroups_of_v2_limit_a_thread(guest, tmp_path):
    """The guest has the v2 hierarchy that this host may not have."""
    script = f"""
import sys, threading, time
sys.path.insert(0, {str(EVAL / "lib")!r})
import os
from vlab import cgroups
groups = cgroups.CpuGroups("test")
groups.adopt(os.getpid())
tids = []
def work():
    tids.append(threading.get_native_id())
    while True:
        pass
threading.Thread(target=work, daemon=True).start()
while not tids:
    time.sleep(0.01)
groups.put("worker", tids[0], 200)
groups.limit("worker", 5000, 50000)
time.sleep(1)
stat = dict(line.split() for line in open("/sys/fs/cgroup/test/worker/cpu.stat"))
print(groups.version, int(stat["nr_throttled"]) > 3, flush=True)
os._exit(0)
"""
    (tmp_path / "v2.py").write_text(script)
    guest.put(tmp_path / "v2.py", "/tmp/v2.py")
    assert guest.run("python3 /tmp/v2.py").output == "2 True\n"
    remove = "from vlab import cgroups; cgroups.remove('test')"
    assert guest.run(f'cd {EVAL}/lib && python3 -c "{remove}"').rc == 0
    assert guest.run("test -e /sys/fs/cgroup/test").rc == 1


def test_a_vm_under_a_name_leaves_nothing_when_its_server_is_killed():
    """By wall time, which leaves the most: a cgroup and a competitor on this machine."""
    name = f"test-{os.getpid()}"
    options = ["--clock", "wall", "--vcpus", "1", "--memory", "1024", "--shape", "floating:1+hog"]
    assert vlab("up", "--name", name, *options).returncode == 0
    done = vlab("exec", name, "--", "echo out; exit 7")
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert vlab("shape", name, "sideways").returncode == 64
    assert vlab("up", "--name", name).returncode == 64
    run = next(run for run in runs.live() if run["name"] == name)
    run_id = run["path"].name
    assert len(leftovers(run_id)) > 3
    os.kill(run["pid"], signal.SIGKILL)
    wait_for_host(lambda: not leftovers(run_id), 20)
    assert vlab("exec", name, "--", "true").returncode == 64


def test_an_interrupt_while_booting_leaves_nothing():
    command = [sys.executable, str(EVAL / "vlab"), "up", "--foreground", "--name", "interrupted"]
    # What runs under nohup or in a shell's background inherits a SIGINT that is ignored.
    lab = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    wait_for_host(lambda: any(run["pid"] == lab.pid for run in runs.live()), 60)
    run_id = next(run["path"].name for run in runs.live() if run["pid"] == lab.pid)
    wait_for_host(lambda: len(runs.processes(run_id)) > 2, 60)
    lab.send_signal(signal.SIGINT)
    assert lab.wait(120) == 130
    assert not leftovers(run_id)


def test_a_guest_that_panics_is_booted_again_and_then_reported(monkeypatch, capsys):
    monkeypatch.setattr(vm, "BOOTS", 2)
    before = {run["path"] for run in runs.live()}
    with pytest.raises(LabError) as error:
        options = {"shape": "floating:1", "clock": "virtual", "virtual": VIRTUAL}
        Vm(vcpus=1, memory_mib=1024, append="init=/nonexistent", **options).up()
    assert error.value.exit_code == 75
    assert "Kernel panic" in error.value.message and "consoles/" in error.value.message
    assert "boot 1 of 2 failed" in capsys.readouterr().err
    assert {run["path"] for run in runs.live() if run["pid"] == os.getpid()} <= before


def vlab(*args):
    return subprocess.run([sys.executable, EVAL / "vlab", *args], capture_output=True, text=True)
