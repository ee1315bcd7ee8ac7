# SPDX-License-Identifier: GPL-2.0-only
"""The daemon without its scheduler: monitor only, kill switch, after ejections; and reloads."""

import pytest

from guest_scheduler import (
    BINARY,
    CONFIG,
    DEFAULT_KERNEL,
    LIMIT_S,
    METRICS,
    GuestScheduler,
    configure,
    on_kernels,
    online,
    published,
    sched_ext,
    wait_until,
)
from prometheus_tools import value
from vlab import Handle, Vm

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]
SWITCH = "/run/disable"  # in the guest
RECORD = "/run/vaware-record"
ONLINE = online(3)
HEALTH = "curl -s -o /dev/null -w '%{http_code}' localhost:9817/healthz"
HARMLESS = f'kill_switch = "{SWITCH}"\nprobe_budget_percent = 0.5\n'


def standby(reason: str) -> str:
    return f'scx_vaware_standby{{reason="{reason}"}}'


def spawn(vm: Vm, text: str) -> Handle:
    """The daemon with this configuration, when it stands by."""
    configure(vm, HARMLESS + text)
    started = f"mkdir -p {RECORD}; RUNTIME_DIRECTORY={RECORD} exec {BINARY} --config {CONFIG}"
    daemon = vm.spawn(started)
    wait_until(vm, lambda: "no scheduler is loaded: " in daemon.output or daemon.rc, "standing by")
    assert daemon.rc is None, daemon.output
    return daemon


def reload(vm: Vm, daemon: Handle, text: str) -> None:
    configure(vm, HARMLESS + text)
    daemon.kill(1)


def end(vm: Vm, daemon: Handle) -> None:
    daemon.kill(15)
    wait_until(vm, lambda: daemon.rc is not None, "its end")
    assert daemon.rc == 0, daemon.output
    assert sched_ext(vm).state == "disabled"


def test_monitor_only_probes_and_a_reload_loads(guest):
    before = sched_ext(guest)
    daemon = spawn(guest, "monitor_only = true")
    wait_until(guest, lambda: published(guest, "scx_vaware_effective_vcpus"), "what is found")
    assert sched_ext(guest) == before
    assert published(guest, standby("monitor_only")) == 1
    assert guest.run(HEALTH, LIMIT_S).output == "200"
    reload(guest, daemon, "")
    wait_until(guest, lambda: sched_ext(guest).state == "enabled", "the load")
    wait_until(guest, lambda: published(guest, standby("monitor_only")) == 0, "the state")
    reload(guest, daemon, "monitor_only = true")
    wait_until(guest, lambda: sched_ext(guest).state == "disabled", "the end of the scheduler")
    end(guest, daemon)


def test_the_kill_switch_brings_the_kernels_scheduler_back_within_a_second(guest):
    configure(guest, HARMLESS)
    with GuestScheduler(guest, "--config", CONFIG) as scheduler:
        assert guest.run(f"touch {SWITCH}; sleep 1", LIMIT_S).rc == 0
        assert sched_ext(guest).state == "disabled"
        assert published(guest, standby("kill_switch")) == 1
        assert f"remove {SWITCH}" in scheduler.output
        replug = f"echo 0 >{ONLINE}; echo 1 >{ONLINE}; rm {SWITCH}"
        assert guest.run(replug, LIMIT_S).rc == 0
        wait_until(guest, lambda: sched_ext(guest).state == "enabled", "the second load")
        assert guest.run(f"touch {SWITCH}; sleep 1", LIMIT_S).rc == 0
        # With the switch on it ends as asked, too.
        assert scheduler.end(15).rc == 0
    assert guest.run(f"rm {SWITCH}", LIMIT_S).rc == 0


def test_ejections_end_with_no_scheduler_until_the_record_is_taken_away(guest):
    assert guest.run(f"mkdir -p {RECORD}; echo 2 >{RECORD}/ejections", LIMIT_S).rc == 0
    daemon = spawn(guest, "ejections_max = 2")
    page = guest.run(METRICS, LIMIT_S).output
    assert value(page, standby("ejections")) == 1
    assert value(page, "scx_vaware_ejections_total") == 2
    assert guest.run(HEALTH, LIMIT_S).output == "503"
    assert f"remove {RECORD}/ejections" in daemon.output
    # Whoever gives up this scheduler rolls that out to nodes that have ejected it, too.
    reload(guest, daemon, "ejections_max = 2\nmonitor_only = true")
    wait_until(guest, lambda: published(guest, standby("monitor_only")) == 1, "the other reason")
    assert guest.run(HEALTH, LIMIT_S).output == "200"
    reload(guest, daemon, "ejections_max = 2")
    wait_until(guest, lambda: guest.run(HEALTH, LIMIT_S).output == "503", "the first reason")
    assert guest.run(f"rm {RECORD}/ejections", LIMIT_S).rc == 0
    wait_until(guest, lambda: sched_ext(guest).state == "enabled", "the load")
    end(guest, daemon)


def test_the_load_waits_for_its_time(guest):
    daemon = spawn(guest, "start_jitter_s = 86400")
    assert published(guest, standby("start_jitter")) == 1
    assert sched_ext(guest).state == "disabled"
    reload(guest, daemon, "start_jitter_s = 0")
    wait_until(guest, lambda: sched_ext(guest).state == "enabled", "the load")
    end(guest, daemon)


def test_a_reload_takes_effect_without_a_gap(guest):
    configure(guest, "")
    with GuestScheduler(guest, "--config", CONFIG) as scheduler:
        loaded = sched_ext(guest)
        scheduler.reconfigure(
            'wait_bound_ms = 300\nlisten = "127.0.0.1:9818"\nprobe_light_ms = 500\n', "policies on"
        )
        page = guest.run(METRICS.replace("9817", "9818"), LIMIT_S).output
        assert value(page, "scx_vaware_config_last_reload_success") == 1
        assert guest.run(METRICS, LIMIT_S).rc != 0
        # Part of the new address is the old one's.
        scheduler.reconfigure('listen = "0.0.0.0:9818"\npartial = true\n', "partial was changed")
        page = guest.run(METRICS.replace("9817", "9818"), LIMIT_S).output
        assert value(page, "scx_vaware_config_last_reload_success") == 0
        assert value(page, "scx_vaware_config_keys_ignored_total") == 1
        scheduler.reconfigure(
            'listen = "192.0.2.1:9817"\n', "configuration unchanged: cannot serve"
        )
        assert guest.run(METRICS.replace("9817", "9818"), LIMIT_S).rc == 0
        assert sched_ext(guest) == loaded, "the kernel has had this scheduler all the time"
        scheduler.reconfigure("", "policies on")


@pytest.mark.long
def test_a_comparison_in_service_takes_turns_and_says_what_came_of_it(guest):
    """A minute after the start, for two minutes."""
    works = guest.spawn("while :; do timeout 0.05 yes >/dev/null; sleep 0.1; done")
    configure(guest, "unload_if_worse_percent = 50.0\n")
    with GuestScheduler(guest, "--config", CONFIG) as scheduler:
        awaits = 'until grep -q "^%s" /sys/kernel/sched_ext/state; do sleep 0.5; done'
        for state in ("disabled", "enabled", "disabled", "enabled"):
            assert guest.run(awaits % state, 200).rc == 0
        wait_until(guest, lambda: "compared with the kernel's own" in scheduler.output, "its end")
        said = next(line for line in scheduler.output.splitlines() if "compared with" in line)
        assert said.endswith("it stays"), said
        assert sched_ext(guest).state == "enabled"
        assert published(guest, standby("compared")) == 0
    works.kill(15)
