# SPDX-License-Identifier: GPL-2.0-only
"""What the daemon tells while it runs, and what keeps it from being loaded, in a VM."""

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
    sched_ext,
    tool,
    wait_until,
)
from prometheus_tools import promtool, value

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]
AS_NOBODY = "setpriv --reuid nobody --regid nogroup --clear-groups"
LIMITED = "/sys/fs/cgroup/limited"
IGNORED_LIMITS = 'scx_vaware_cgroups_ignored{control="cpu.max"}'
SHARE_OF_0 = 'scx_vaware_vcpu_share_ratio{cpu="0"}'


def test_metrics_follow_what_happens(guest):
    run_0 = 'scx_vaware_vcpu_run_seconds_total{cpu="0"}'
    with GuestScheduler(guest):
        before = guest.run(METRICS, LIMIT_S).output
        assert guest.run(tool("spinners.py", 2, "vcpu=0"), LIMIT_S).rc == 0
        after = guest.run(METRICS, LIMIT_S).output
        promtool("check", "metrics", stdin=after)
        # Two seconds of run and stolen time together, less what others had of the vCPU.
        stolen_0 = 'scx_vaware_vcpu_stolen_seconds_total{cpu="0"}'
        used_s = sum(value(after, name) - value(before, name) for name in (run_0, stolen_0))
        assert 1 < used_s < LIMIT_S
        idle = [f'scx_vaware_vcpu_idle_seconds_total{{cpu="{cpu}"}}' for cpu in range(1, 4)]
        idle_s = sum(value(after, name) - value(before, name) for name in idle)
        assert 1 < idle_s < 3 * LIMIT_S
        # Only what the wake-ups and the stops of all vCPUs add up to was taken from one of them.
        assert value(after, stolen_0) <= value(after, "scx_vaware_stolen_by_beats_seconds_total")
        assert value(after, 'scx_vaware_vcpu_banned{cpu="3"}') in (0, 1)
        assert value(after, "scx_vaware_kernel_sched_ext_enabled") == 1
        assert value(after, 'scx_vaware_vcpus{condition="online"}') == 4
        assert value(after, "process_resident_memory_bytes") > 1e6
        assert value(after, "scx_vaware_control_loop_age_seconds") < 15
        assert guest.run("curl -sf localhost:9817/healthz", LIMIT_S).output == "ok\n"
        top = guest.run(f"{AS_NOBODY} {BINARY} top --once --interval 0.5", LIMIT_S)
        assert top.rc == 0 and "running, 4 vCPUs" in top.output, top.output
    gone = guest.run(f"{BINARY} top --once", LIMIT_S)
    assert gone.rc == 1 and "--from" in gone.output


def test_a_vcpu_with_little_to_do_does_not_look_as_if_it_were_not_shared(guest):
    a_little = "while sleep 0.01; do :; done"
    everywhere = f"for v in 0 1 2 3; do timeout 8 taskset -c $v sh -c '{a_little}' & done; wait"
    with GuestScheduler(guest):
        guest.run(everywhere, LIMIT_S)
        page = guest.run(METRICS, LIMIT_S).output
    shares = [value(page, f'scx_vaware_vcpu_share_ratio{{cpu="{cpu}"}}') for cpu in range(4)]
    # All of them at work share two cores, and what little they had to do was never kept waiting.
    assert max(shares) < 0.75


def test_no_client_ends_it(guest):
    with GuestScheduler(guest) as scheduler:
        assert guest.run(f"{AS_NOBODY} {tool('hang_up.py')}", LIMIT_S).rc == 0
        scheduler.expect_in_charge()
        assert guest.run("curl -sf localhost:9817/healthz", LIMIT_S).output == "ok\n"


def test_it_does_not_void_cpu_limits_unless_told_to(guest):
    limit = guest.run(
        f"echo +cpu >/sys/fs/cgroup/cgroup.subtree_control && mkdir {LIMITED} && "
        f"echo '50000 100000' >{LIMITED}/cpu.max && echo 300 >{LIMITED}/cpu.weight"
    )
    assert limit.rc == 0, limit.output
    try:
        with GuestScheduler(guest, "--listen", "off"):
            pass  # a limit on nothing is no reason to refuse
        inside = guest.spawn(f"echo $$ >{LIMITED}/cgroup.procs; exec sleep {LIMIT_S}")
        guest.run(f"until grep -q . {LIMITED}/cgroup.procs; do sleep 0.1; done", LIMIT_S)
        before = sched_ext(guest)
        refused = guest.run(BINARY, LIMIT_S)
        assert refused.rc == 79, refused.output
        assert "/limited;" in refused.output and "--allow-quota" in refused.output
        assert refused.output.count("\n") == 1
        assert sched_ext(guest) == before
        with GuestScheduler(guest, "--allow-quota") as scheduler:
            assert "cpu.weight of cgroups does not hold" in scheduler.output
            page = guest.run(METRICS, LIMIT_S).output
            assert value(page, 'scx_vaware_cgroups_ignored{control="cpu.max"}') == 1
        inside.kill()
        inside.wait(LIMIT_S)
    finally:
        guest.run(f"rmdir {LIMITED}; echo -cpu >/sys/fs/cgroup/cgroup.subtree_control")


def test_limits_that_are_set_later_are_counted_and_named(guest):
    setting = f"mkdir {LIMITED} && echo '50000 100000' >{LIMITED}/cpu.max"
    with GuestScheduler(guest) as scheduler:
        page = guest.run(METRICS, LIMIT_S).output
        assert value(page, IGNORED_LIMITS) == 0
        limit = guest.run(f"echo +cpu >/sys/fs/cgroup/cgroup.subtree_control && {setting}")
        assert limit.rc == 0, limit.output
        inside = guest.spawn(f"echo $$ >{LIMITED}/cgroup.procs; exec sleep {LIMIT_S}")
        wait_until(lambda: "/limited; lift these limits" in scheduler.output, "the note")
        page = guest.run(METRICS, LIMIT_S).output
        assert value(page, IGNORED_LIMITS) == 1
        inside.kill()
        inside.wait(LIMIT_S)
        guest.run(f"rmdir {LIMITED}; echo -cpu >/sys/fs/cgroup/cgroup.subtree_control")


def test_a_reload_names_the_keys_that_it_ignores(guest):
    configure(guest, "")
    with GuestScheduler(guest, "--config", CONFIG) as scheduler:
        changed = 'policies = ["sync"]\nlisten = "127.0.0.1:9818"\nprobe_light_ms = 2000'
        scheduler.reconfigure(changed, "probe_light_ms was changed")
        assert "listen was changed" in scheduler.output
        assert "policies was changed" not in scheduler.output
        page = guest.run(METRICS, LIMIT_S).output
        assert value(page, 'scx_vaware_policy_enabled{policy="sync"}') == 1
        assert value(page, 'scx_vaware_policy_enabled{policy="rwc"}') == 0
        assert value(page, "scx_vaware_config_keys_ignored_total") == 2
        assert value(page, "scx_vaware_config_last_reload_success") == 0
        scheduler.reconfigure("", "policies on: ")
        page = guest.run(METRICS, LIMIT_S).output
        assert value(page, "scx_vaware_config_last_reload_success") == 1


def test_a_prober_that_gets_no_threads_is_begun_anew_and_its_knowledge_forgotten(guest):
    """The vCPU comes back while it is probed, and the kernel grants no thread for it."""
    online = "/sys/devices/system/cpu/cpu3/online"
    group = "/sys/fs/cgroup/crowded"
    assert guest.run(f"echo 0 >{online}", LIMIT_S).rc == 0
    try:
        with GuestScheduler(guest, "--probe-light-ms", "200") as scheduler:

            def page() -> str:
                return guest.run(METRICS, LIMIT_S).output

            wait_until(lambda: SHARE_OF_0 in page(), "the first snapshot")
            crowd = (
                f"echo +pids >/sys/fs/cgroup/cgroup.subtree_control && mkdir {group} && "
                f"echo {scheduler.pid} >{group}/cgroup.procs && "
                f"cat {group}/pids.current >{group}/pids.max && echo 1 >{online}"
            )
            assert guest.run(crowd, LIMIT_S).rc == 0
            wait_until(lambda: "probing (vcap) has failed" in scheduler.output, "the failure")
            wait_until(lambda: SHARE_OF_0 not in page(), "the end of what it knew")
            restarts = value(page(), 'scx_vaware_probe_restarts_total{prober="vcap"}')
            assert restarts >= 1
            # Threads that ended made room. Now there is enough of it.
            assert guest.run(f"echo max >{group}/pids.max", LIMIT_S).rc == 0
            wait_until(lambda: SHARE_OF_0 in page(), "another snapshot")
            assert value(page(), "scx_vaware_snapshot_age_seconds") < 10
    finally:
        guest.run(f"echo 1 >{online}; rmdir {group}", LIMIT_S)


def test_probing_goes_on_while_a_vcpu_comes_and_goes(guest):
    online = "/sys/devices/system/cpu/cpu3/online"
    with GuestScheduler(
        guest, "--probe-light-ms", "200", "--probe-topology-ms", "500"
    ) as scheduler:
        for state in (0, 1) * 5:
            assert guest.run(f"sleep 0.5; echo {state} >{online}", LIMIT_S).rc == 0
        scheduler.expect_in_charge()
        wait_until(
            lambda: SHARE_OF_0.replace("0", "3") in guest.run(METRICS, LIMIT_S).output,
            "a snapshot of the vCPU that came back",
        )
        page = guest.run(METRICS, LIMIT_S).output
        assert value(page, "scx_vaware_snapshot_age_seconds") < 10


def test_a_port_that_is_taken_changes_nothing(guest):
    before = sched_ext(guest)
    server = guest.spawn("exec python3 -S -m http.server --bind 127.0.0.1 9817")
    guest.run("until curl -s localhost:9817 >/dev/null; do sleep 0.2; done", LIMIT_S)
    refused = guest.run(BINARY, LIMIT_S)
    server.kill()
    server.wait(LIMIT_S)
    assert refused.rc == 73, refused.output
    assert "127.0.0.1:9817" in refused.output and refused.output.strip().endswith("--listen off")
    assert sched_ext(guest) == before


def test_the_configuration_can_be_checked_and_shown_without_rights(guest):
    check = f"echo 'polices = []' >/tmp/c.toml; {AS_NOBODY} {BINARY} config check /tmp/c.toml"
    wrong = guest.run(check, LIMIT_S)
    assert wrong.rc == 78 and "line 1" in wrong.output and "polices" in wrong.output
    show = guest.run(f"{AS_NOBODY} {BINARY} config show --policies sync --partial", LIMIT_S)
    assert show.rc == 0, show.output
    assert 'policies = ["sync"]\n' in show.output and "partial = true\n" in show.output
