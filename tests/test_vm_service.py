# SPDX-License-Identifier: GPL-2.0-only
"""The shipped unit in a guest whose PID 1 is systemd: in its sandbox, under its own user."""

import re
import shlex
from pathlib import Path

import pytest

from guest_scheduler import (
    DEFAULT_KERNEL,
    LIMIT_S,
    METRICS,
    SHAPE,
    STACKED,
    boot,
    is_well,
    published,
    sched_ext,
    wait_until,
)
from prometheus_tools import value
from vlab import Vm

pytestmark = pytest.mark.vm
REPO = Path(__file__).resolve().parents[1]
PID_1 = Path(__file__).resolve().parent / "guest/systemd.sh"
UNIT = "scx_vaware"
HERE = "/run/vaware"  # in the guest, see PID_1
LOADED_AGAIN = 'scx_vaware_restarts_total{cause="pause"}'


@pytest.fixture(scope="module")
def guest(binary):
    """A guest that runs systemd, with the unit installed and not started."""
    if " " in str(PID_1):
        pytest.skip("the kernel's command line cannot name a path with spaces")
    vm = boot(DEFAULT_KERNEL, binary, append=f"LAB_INIT={PID_1}")
    try:
        vm.put(binary, f"{HERE}/scx_vaware")
        vm.put(REPO / "deploy/scx_vaware.toml", f"{HERE}/scx_vaware.toml")
        yield vm
    finally:
        vm.down()


def shown(vm: Vm, *properties: str) -> dict[str, str]:
    """Properties of the unit."""
    listed = vm.run(f"systemctl show scx_vaware -p {shlex.join([','.join(properties)])}", LIMIT_S)
    return dict(line.split("=", 1) for line in listed.output.splitlines())


def wait_until_shown(vm: Vm, name: str, pattern: str) -> None:
    """Wait until a property of the unit matches. The guest looks, which takes it less time."""
    shows = f"systemctl show -P {name} {UNIT} | grep -qE '{pattern}'"
    vm.run(f"until {shows}; do sleep 1; done", LIMIT_S)


def start(vm: Vm) -> None:
    """Start the unit; it counts as started when the kernel has enabled the scheduler."""
    started = vm.run("systemctl reset-failed; systemctl start scx_vaware", LIMIT_S)
    journal = vm.run("journalctl -u scx_vaware --no-pager", LIMIT_S).output
    assert started.rc == 0, journal
    now = sched_ext(vm)
    assert now.state == "enabled" and now.ops.startswith("scx_vaware"), journal


def test_it_starts_with_two_capabilities_and_no_root(guest):
    start(guest)
    status = guest.run("cat /proc/$(systemctl show -P MainPID scx_vaware)/status", LIMIT_S).output
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Uid"].split()[0] != "0"
    bpf_and_perfmon = (1 << 39) | (1 << 38)
    assert int(fields["CapEff"], 16) == int(fields["CapBnd"], 16) == bpf_and_perfmon
    assert fields["NoNewPrivs"] == "1"
    assert is_well(guest)
    assert int(shown(guest, "WatchdogTimestampMonotonic")["WatchdogTimestampMonotonic"]) > 0


def test_reload_tells_what_is_on(guest):
    start(guest)
    guest.run(f"echo 'policies = [\"rescue\"]' >{HERE}/scx_vaware.toml", LIMIT_S)
    assert guest.run("systemctl reload scx_vaware", LIMIT_S).rc == 0
    wait_until_shown(guest, "StatusText", "on: rescue$")


def test_the_journal_knows_how_much_a_line_matters(guest):
    start(guest)
    guest.run(f"echo 'polices = []' >{HERE}/scx_vaware.toml", LIMIT_S)
    assert guest.run("systemctl reload scx_vaware", LIMIT_S).rc == 0
    warnings = f"journalctl -u {UNIT} -p warning..warning -o cat --no-pager"
    guest.run(f"until {warnings} | grep -q '^configuration unchanged'; do sleep 1; done", LIMIT_S)
    guest.run(f"echo >{HERE}/scx_vaware.toml", LIMIT_S)
    everything = guest.run(f"journalctl -u {UNIT} -o cat --no-pager", LIMIT_S).output
    assert "<4>" not in everything and "scx_vaware: enabled" in everything


def test_it_outlives_a_broken_pipe_and_a_restart_of_the_journal(guest):
    start(guest)
    before = shown(guest, "MainPID")["MainPID"]
    assert guest.run(f"kill -PIPE {before}; systemctl restart systemd-journald", LIMIT_S).rc == 0
    guest.run(f"echo 'policies = [\"capacity\"]' >{HERE}/scx_vaware.toml", LIMIT_S)
    assert guest.run("systemctl reload scx_vaware", LIMIT_S).rc == 0
    last = f"journalctl -u {UNIT} -n 1 --no-pager"
    guest.run(f"until {last} | grep -q 'on: capacity'; do sleep 1; done", LIMIT_S)
    assert shown(guest, "MainPID")["MainPID"] == before
    assert sched_ext(guest).state == "enabled"


def test_it_outlives_a_pause_of_the_vm(guest):
    start(guest)
    before = shown(guest, "MainPID", "NRestarts")
    guest.pause(300)
    wait_until(guest, lambda: published(guest, LOADED_AGAIN) == 1, "the second load")
    wait_until(guest, lambda: sched_ext(guest).state == "enabled", "its end")
    assert shown(guest, "MainPID", "NRestarts") == before


@pytest.mark.parametrize("signal", ["KILL", pytest.param("ABRT", marks=pytest.mark.long)])
def test_it_comes_back_when_the_daemon_is_killed(guest, signal):
    start(guest)
    before = shown(guest, "MainPID", "NRestarts")
    assert guest.run(f"kill -{signal} {before['MainPID']}").rc == 0
    wait_until_shown(guest, "NRestarts", f"^{int(before['NRestarts']) + 1}$")
    wait_until_shown(guest, "SubState", "^running$")
    assert sched_ext(guest).state == "enabled"


@pytest.mark.parametrize("signal", ["TERM", pytest.param("INT", marks=pytest.mark.long)])
def test_it_stays_down_when_it_is_asked_to_end(guest, signal):
    start(guest)
    assert guest.run(f"kill -{signal} $(systemctl show -P MainPID scx_vaware)").rc == 0
    wait_until_shown(guest, "ActiveState", "^inactive$")
    expect_it_stays_down(guest, "inactive")


def expect_it_stays_down(vm: Vm, state: str) -> None:
    """Fail unless the unit is in `state` for longer than RestartSec."""
    later = vm.run("sleep 7; systemctl show -P ActiveState scx_vaware", LIMIT_S)
    assert later.output == f"{state}\n"
    assert sched_ext(vm).state == "disabled"


def test_ejections_are_counted_over_restarts(guest):
    # As the process that was ejected leaves it.
    assert (
        guest.run("mkdir -p /run/scx_vaware && echo 2 >/run/scx_vaware/ejections", LIMIT_S).rc == 0
    )
    start(guest)
    assert value(guest.run(METRICS, LIMIT_S).output, "scx_vaware_ejections_total") == 2


def test_the_kill_switch_holds_over_a_restart(guest):
    start(guest)
    assert guest.run("touch /run/scx_vaware/disable; sleep 1", LIMIT_S).rc == 0
    assert sched_ext(guest).state == "disabled"
    assert guest.run("systemctl restart scx_vaware", LIMIT_S).rc == 0
    assert "looking on: the kill switch" in shown(guest, "StatusText")["StatusText"]
    assert sched_ext(guest).state == "disabled"
    assert guest.run("rm /run/scx_vaware/disable", LIMIT_S).rc == 0
    wait_until(guest, lambda: sched_ext(guest).state == "enabled", "the load")


def test_with_the_rights_that_the_page_names_it_moves_interrupts(guest):
    page = (REPO / "docs/operations.md").read_text()
    _, after = page.split("### Interrupts\n")
    drop_in = shlex.quote(re.search(r"```\n(\[Service\]\n.*?)```", after, re.DOTALL)[1])
    folder = f"/run/systemd/system/{UNIT}.service.d"
    placed = "cat /proc/irq/default_smp_affinity"
    before = guest.run(placed, LIMIT_S).output
    guest.run("systemctl stop scx_vaware", LIMIT_S)
    guest.run(f"mkdir {folder}; echo {drop_in} >{folder}/rights.conf; systemctl daemon-reload")
    guest.run(f"echo 'move_interrupts = true' >{HERE}/scx_vaware.toml", LIMIT_S)
    guest.shape(STACKED)
    start(guest)
    said = f"journalctl -u {UNIT} -o cat --no-pager | grep ^interrupts:"
    guest.run(f"until {said}; do sleep 1; done", LIMIT_S)
    moved = guest.run(placed, LIMIT_S).output
    assert "keep away from vCPUs" in guest.run(said, LIMIT_S).output
    assert guest.run("systemctl stop scx_vaware", LIMIT_S).rc == 0
    assert guest.run(placed, LIMIT_S).output == before != moved
    guest.shape(SHAPE)
    guest.run(f"rm -r {folder}; systemctl daemon-reload; echo >{HERE}/scx_vaware.toml", LIMIT_S)


def test_stop_brings_the_kernels_own_scheduler_back(guest):
    start(guest)
    assert guest.run("systemctl stop scx_vaware", LIMIT_S).rc == 0
    assert sched_ext(guest).state == "disabled"
    assert shown(guest, "Result")["Result"] == "success"


def test_it_stays_down_when_an_operator_ends_it(guest):
    start(guest)
    assert guest.run("echo S >/proc/sysrq-trigger").rc == 0
    wait_until_shown(guest, "ActiveState", "^failed$")
    assert shown(guest, "ExecMainStatus")["ExecMainStatus"] == "87"
    journal = guest.run("journalctl -u scx_vaware --no-pager | tail", LIMIT_S).output
    assert "the kernel's own scheduler is back" in journal
    expect_it_stays_down(guest, "failed")


def test_a_daemon_that_dies_again_and_again_is_given_up(guest):
    start(guest)
    pid = f"$(systemctl show -P MainPID {UNIT})"
    kill = f"while [ {pid} = 0 ]; do sleep 0.2; done; kill -KILL {pid}; sleep 0.2"
    assert guest.run("; ".join(4 * [kill]), LIMIT_S).rc == 0
    wait_until_shown(guest, "ActiveState", "^failed$")
    expect_it_stays_down(guest, "failed")


def test_it_comes_back_when_its_memory_does_not_suffice(guest):
    start(guest)
    before = shown(guest, "NRestarts")["NRestarts"]
    limit = f"systemctl set-property --runtime {UNIT} MemoryMin=%s MemoryMax=%s"
    assert guest.run(limit % (0, "1M"), LIMIT_S).rc == 0
    wait_until(guest, lambda: sched_ext(guest).state == "disabled", "the end")
    assert shown(guest, "Result")["Result"] == "oom-kill"
    assert guest.run(limit % ("32M", "512M"), LIMIT_S).rc == 0
    wait_until_shown(guest, "NRestarts", f"^{int(before) + 1}$")
    drop_ins = f"/run/systemd/system.control/{UNIT}.service.d"
    assert guest.run(f"systemctl stop {UNIT}; rm -r {drop_ins}", LIMIT_S).rc == 0
    assert guest.run("systemctl daemon-reload", LIMIT_S).rc == 0


def test_it_stays_when_the_kernel_looks_for_memory(guest):
    """Huge pages take all but some of it, so that little is left to fill."""
    start(guest)
    before = shown(guest, "MainPID", "NRestarts")
    reserve = "/proc/sys/vm/nr_hugepages"
    left = "$(($(awk '/MemFree/ {print $2}' /proc/meminfo) / 2048 - 60))"
    assert guest.run(f"echo {left} >{reserve}", LIMIT_S).rc == 0
    hog = guest.run(f"python3 -S -c 'bytes(range(1, 256)) * (4 << 20)'; echo 0 >{reserve}", LIMIT_S)
    assert "Killed" in hog.output, hog.output
    assert shown(guest, "MainPID", "NRestarts") == before
    assert sched_ext(guest).state == "enabled"
