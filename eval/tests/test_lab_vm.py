# SPDX-License-Identifier: GPL-2.0-only
"""The lab against the host's own truth: what a shape takes from a VM, and what is left of one."""

import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import EVAL
from lab import CommandTimeout, LabError, Vm, cgroups, runs, truth, vm

pytestmark = [pytest.mark.vm, pytest.mark.wall]
SPIN = "taskset -c {} sh -c 'echo spins; while :; do :; done'"
MEASURE_S = 2.0


@pytest.fixture(scope="module")
def pair():
    """A VM with two vCPUs; each test shapes it as it needs."""
    try:
        machine = Vm(vcpus=2, memory_mib=1024, shape="floating:1").up()
    except LabError as why:
        if why.exit_code == 69:
            pytest.skip(why.message)
        raise
    yield machine
    machine.down()


@pytest.fixture
def spinning(pair):
    """The VM with a spinner on each vCPU."""
    spinners = [pair.spawn(SPIN.format(vcpu)) for vcpu in range(2)]
    wait_until(lambda: all("spins" in spinner.output for spinner in spinners), 60)
    yield pair
    for spinner in spinners:
        spinner.kill(signal.SIGKILL)
        spinner.wait(60)
    pair.shape("floating:1")


def wait_until(condition, timeout_s):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s"
        time.sleep(0.05)


def measure(machine, shape):
    """Shape the machine; returns the truth of the next seconds and their number."""
    machine.shape(shape)
    time.sleep(0.3)
    before, began = machine.truth(), time.monotonic()
    time.sleep(MEASURE_S)
    return truth.difference(before, machine.truth()), time.monotonic() - began


def taken_ratios(truths):
    return [t.delay_ns / (t.run_ns + t.delay_ns) for t in truths]


def host_busy_s():
    """Time in which the host's cores ran anything, or were themselves stolen from."""
    user, nice, system, _, _, *others = (
        int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]
    )
    return (user + nice + system + sum(others)) / os.sysconf("SC_CLK_TCK")


def leftovers(run_id):
    """What is left of a run: processes, cgroups, files."""
    parents = [cgroups.ROOT / "cpu" / f"vaware-lab-{run_id}", cgroups.ROOT / f"vaware-lab-{run_id}"]
    folders = [path for path in [*parents, runs.BASE / run_id] if path.exists()]
    return runs.processes(run_id) + folders


def test_two_stacked_vcpus_lose_half_each(spinning):
    truths, passed_s = measure(spinning, "stacked:0,1")
    assert min(taken_ratios(truths)) > 0.4
    assert sum(t.run_ns for t in truths) / 1e9 < 1.05 * passed_s


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two honest vCPUs take two cores")
def test_honest_vcpus_lose_only_what_the_rest_of_the_host_uses(spinning):
    before_s = host_busy_s()
    truths, passed_s = measure(spinning, "honest")
    others_s = host_busy_s() - before_s - sum(t.run_ns for t in truths) / 1e9
    assert sum(t.delay_ns for t in truths) / 1e9 < max(0, others_s) + 0.2 * passed_s


def test_quota_takes_what_it_says(spinning):
    truths, passed_s = measure(spinning, "quota:30/100")
    assert max(t.run_ns for t in truths) / 1e9 < 0.36 * passed_s
    assert min(t.delay_ns for t in truths) / 1e9 > 0.6 * passed_s


def test_a_quota_is_for_the_named_vcpu_and_ends_with_the_shape(spinning):
    limited, free = measure(spinning, "packed:2+quota:5/100:0")[0]
    assert free.run_ns > 1.5 * limited.run_ns
    once_limited, free = measure(spinning, "packed:2")[0]
    assert once_limited.run_ns > 0.7 * free.run_ns


def test_weights_divide_a_core(spinning):
    truths, _ = measure(spinning, "packed:2+weight:100,300")
    assert truths[1].run_ns > 2 * truths[0].run_ns


def test_a_hog_takes_its_share_and_goes_with_the_shape(spinning):
    truths, passed_s = measure(spinning, "packed:2+hog")
    assert sum(t.run_ns for t in truths) / 1e9 < 0.8 * passed_s
    run_id = spinning.folder.name
    competitors = len(runs.processes(run_id))
    spinning.shape("packed:2")
    assert len(runs.processes(run_id)) == competitors - 1


@pytest.mark.parametrize("source", ["sched_switch", "duty log"])
def test_single_inactive_periods_are_those_of_the_duty(spinning, source, monkeypatch):
    if source == "duty log":
        monkeypatch.setattr(truth, "SwitchRecorder", refuse)
    spinning.shape("packed:2+duty:20/20@0")
    time.sleep(0.3)
    with spinning.inactive_periods() as recorded:
        time.sleep(MEASURE_S)
    if recorded.source != source:
        pytest.skip("this host has no tracefs")
    long_ms = [(end - begin) / 1e6 for begin, end in recorded.periods[0] if end - begin > 19e6]
    assert len(long_ms) > 0.4 * MEASURE_S / 0.040
    assert all(begin < end for begin, end in recorded.periods[0])
    if source == "duty log":
        assert 19.9 < statistics.median(long_ms) < 21


def refuse(*_):
    raise OSError("no tracefs in this test")


def test_commands_run_at_once_and_stream(pair):
    streamed, results = [], {}

    def run(text):
        results[text] = pair.run(f"echo {text}; sleep 1; echo $WORD >&2; exit 3", env={"WORD": "e"})

    threads = [threading.Thread(target=run, args=(text,)) for text in "abcd"]
    for thread in threads:
        thread.start()
    pair.run("echo first; sleep 1; echo second", on_output=streamed.append)
    for thread in threads:
        thread.join()
    assert results == {text: vm.Result(3, f"{text}\ne\n") for text in "abcd"}
    assert b"first\n" in streamed and b"second\n" in streamed


def test_a_command_past_its_time_is_killed_with_its_group(pair):
    with pytest.raises(CommandTimeout, match="within 2 s") as error:
        pair.run("echo begun; sleep 345 & sleep 345; echo never", timeout_s=2)
    assert error.value.output == "begun\n"
    assert pair.run("pgrep -x sleep").rc == 1


def test_a_spawned_command_gets_signals(pair):
    handle = pair.spawn("trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.1; done")
    wait_until(lambda: "ready" in handle.output, 30)
    handle.kill(signal.SIGINT)
    assert handle.wait(30) == vm.Result(5, "ready\ncaught\n")


def test_files_and_folders_go_both_ways(pair, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there/a file").write_text("content")
    pair.put(tmp_path / "there", "/tmp/there")
    pair.get("/tmp/there/a file", tmp_path / "back")
    assert (tmp_path / "back").read_text() == "content"
    with pytest.raises(LabError, match="check the path"):
        pair.get("/nonexistent", tmp_path / "none")


def test_the_guest_is_a_usable_system_with_a_read_only_root(pair):
    checks = (
        "test -c /dev/ptmx && test -d /dev/pts && touch /tmp/x /var/tmp/x /dev/shm/x $HOME/x"
        " && grep -q CONFIG_BPF /boot/config-$(uname -r) && ls /sys/fs/cgroup/cgroup.controllers"
        f" && test -f {EVAL}/vlab"
    )
    assert pair.run(checks).rc == 0, pair.run(checks).output
    outside = EVAL / "written-by-the-guest"
    assert pair.run(f"mount -o remount,rw /; touch {outside}").rc != 0
    assert not outside.exists()


def test_threaded_cgroups_of_v2_limit_a_thread(pair, tmp_path):
    """The guest has the v2 hierarchy that this host may not have."""
    script = f"""
import sys, threading, time
sys.path.insert(0, {str(EVAL)!r})
import os
from lab import cgroups
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
    pair.put(tmp_path / "v2.py", "/tmp/v2.py")
    assert pair.run("python3 /tmp/v2.py").output == "2 True\n"
    remove = "from lab import cgroups; cgroups.remove('test')"
    assert pair.run(f'cd {EVAL} && python3 -c "{remove}"').rc == 0
    assert pair.run("test -e /sys/fs/cgroup/test").rc == 1


def test_a_vm_under_a_name_leaves_nothing_when_its_server_is_killed():
    name = f"test-{os.getpid()}"
    options = ["--vcpus", "1", "--memory", "1024", "--shape", "floating:1+hog"]
    assert vlab("up", "--name", name, *options).returncode == 0
    done = vlab("exec", name, "--", "echo out; exit 7")
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert vlab("shape", name, "sideways").returncode == 64
    assert vlab("up", "--name", name).returncode == 64
    run = next(run for run in runs.live() if run["name"] == name)
    run_id = run["path"].name
    assert len(leftovers(run_id)) > 3
    os.kill(run["pid"], signal.SIGKILL)
    wait_until(lambda: not leftovers(run_id), 20)
    assert vlab("exec", name, "--", "true").returncode == 64


def test_an_interrupt_while_booting_leaves_nothing():
    command = [sys.executable, str(EVAL / "vlab"), "up", "--foreground", "--name", "interrupted"]
    lab = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: any(run["pid"] == lab.pid for run in runs.live()), 60)
    run_id = next(run["path"].name for run in runs.live() if run["pid"] == lab.pid)
    wait_until(lambda: len(runs.processes(run_id)) > 2, 60)
    lab.send_signal(signal.SIGINT)
    assert lab.wait(30) == 130
    assert not leftovers(run_id)


def test_a_guest_that_panics_is_booted_again_and_then_reported(monkeypatch, capsys):
    monkeypatch.setattr(vm, "BOOTS", 2)
    with pytest.raises(LabError) as error:
        Vm(vcpus=1, memory_mib=1024, shape="floating:1", append="init=/nonexistent").up()
    assert error.value.exit_code == 75
    assert "Kernel panic" in error.value.message and "consoles/" in error.value.message
    assert "boot 1 of 2 failed" in capsys.readouterr().err
    mine = [run for run in runs.live() if run["pid"] == os.getpid()]
    assert len(mine) <= 1  # that of the other tests


def vlab(*args):
    return subprocess.run([sys.executable, EVAL / "vlab", *args], capture_output=True, text=True)
