# SPDX-License-Identifier: GPL-2.0-only
"""What the daemon tells while it runs, and what keeps it from being loaded, in a VM."""

import pytest

from guest_scheduler import (
    BINARY,
    DEFAULT_KERNEL,
    LIMIT_S,
    METRICS,
    GuestScheduler,
    is_well,
    on_kernels,
    online,
    published,
    sched_ext,
    start_where_the_port_is_taken,
    tool,
    wait_until,
)
from prometheus_tools import promtool, value
from workloads import spinners

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]
AS_NOBODY = "setpriv --reuid nobody --regid nogroup --clear-groups"
SPIN_S = 3
SHARE_OF_0 = 'scx_vaware_vcpu_share_ratio{cpu="0"}'


def age_s(guest, page, what):
    """How old, on a page that was just read, the last round or snapshot is."""
    now_s = float(guest.run("date +%s.%N", LIMIT_S).output)
    return now_s - value(page, f"scx_vaware_{what}_timestamp_seconds")


def test_metrics_follow_what_happens(scheduler):
    guest = scheduler.vm
    guest.shape("packed:2+hog")  # half of the core, while its pair idles
    spinning = guest.spawn(spinners.command(3 * SPIN_S, "vcpu=0"))
    guest.sleep(1)  # Python starts in its own time.
    began_ns, before = guest.clock.now_ns(), guest.run(METRICS, LIMIT_S).output
    guest.sleep(SPIN_S)
    passed_s, after = (guest.clock.now_ns() - began_ns) / 1e9, guest.run(METRICS, LIMIT_S).output
    assert spinning.wait(LIMIT_S).rc == 0
    promtool("check", "metrics", stdin=after)

    def grown_s(name, vcpu, state=""):
        series = f'scx_vaware_vcpu_{name}_seconds_total{{cpu="{vcpu}"{state}}}'
        return value(after, series) - value(before, series)

    run_s, idle_s = (grown_s(name, 0) for name in ("run", "idle"))
    stolen_s = grown_s("steal", 0, ',state="running"')
    # All time is one of the three. To read the pages takes a few tenths of a second.
    assert run_s + stolen_s + idle_s == pytest.approx(passed_s, abs=0.7)
    # The spinner wanted all of its vCPU's time, and the host gave half of it.
    assert idle_s < 0.1 * passed_s
    assert run_s / (run_s + stolen_s) == pytest.approx(0.5, abs=0.07)
    assert max(grown_s("run", vcpu) for vcpu in (1, 2, 3)) < run_s
    assert value(after, "scx_vaware_kernel_sched_ext_enabled") == 1
    assert value(after, 'scx_vaware_vcpus{state="online"}') == 4
    assert value(after, "process_resident_memory_bytes") > 1e6
    assert age_s(guest, after, "control_loop") < 15
    assert is_well(guest)
    top = guest.run(f"{AS_NOBODY} {BINARY} top --once --interval 0.5", LIMIT_S)
    assert top.rc == 0 and "running, 4 vCPUs" in top.output, top.output


def test_top_says_that_no_scheduler_is_there(guest):
    gone = guest.run(f"{BINARY} top --once", LIMIT_S)
    assert gone.rc == 1 and "--from" in gone.output


def test_a_vcpu_with_little_to_do_does_not_look_as_if_it_were_not_shared(scheduler):
    guest = scheduler.vm
    a_little = "while sleep 0.01; do :; done"
    everywhere = f"for v in 0 1 2 3; do taskset -c $v sh -c '{a_little}' & done; wait"
    work = guest.spawn(everywhere)
    guest.sleep(8)

    def mean():
        page = guest.run(METRICS, LIMIT_S).output
        shares = [value(page, f'scx_vaware_vcpu_share_ratio{{cpu="{cpu}"}}') for cpu in range(4)]
        print(shares)
        return sum(shares) / len(shares)

    # All of them at work share two cores, though what little they have to do is never kept waiting.
    # A close look finds that, and comes now and then; between two looks shares are taken to rise.
    wait_until(guest, lambda: mean() < 0.8, "a close look")
    work.kill()
    work.wait(LIMIT_S)


def test_no_client_ends_it(scheduler):
    # Root reads the program: in its home folder nobody could not.
    client = f'{AS_NOBODY} python3 -c "$(cat {tool("hang_up.py")})"'
    hung_up = scheduler.vm.run(client, LIMIT_S)
    assert hung_up.rc == 0, hung_up.output
    scheduler.expect_in_charge()
    assert is_well(scheduler.vm)


def test_a_reload_names_the_keys_that_it_ignores(scheduler):
    guest, ignored = scheduler.vm, "scx_vaware_config_keys_ignored_total"
    before = published(guest, ignored)
    scheduler.reconfigure('policies = ["rescue"]\npartial = true', "partial was changed")
    assert "policies was changed" not in scheduler.output
    page = guest.run(METRICS, LIMIT_S).output
    assert value(page, 'scx_vaware_policy_enabled{policy="rescue"}') == 1
    assert value(page, 'scx_vaware_policy_enabled{policy="rwc"}') == 0
    assert value(page, ignored) == before + 1
    assert value(page, "scx_vaware_config_last_reload_success") == 0
    scheduler.reconfigure("", "policies on: ")
    assert published(guest, "scx_vaware_config_last_reload_success") == 1


def test_a_prober_that_gets_no_threads_is_begun_anew_and_its_knowledge_forgotten(guest):
    """The vCPU comes back while it is probed, and the kernel grants no thread for it."""
    vcpu3 = online(3)
    group = "/sys/fs/cgroup/crowded"
    assert guest.run(f"echo 0 >{vcpu3}", LIMIT_S).rc == 0
    try:
        with GuestScheduler(guest, "--probe-light-ms", "200") as scheduler:

            def page() -> str:
                return guest.run(METRICS, LIMIT_S).output

            wait_until(guest, lambda: SHARE_OF_0 in page(), "the first snapshot")
            crowd = (
                f"echo +pids >/sys/fs/cgroup/cgroup.subtree_control && mkdir {group} && "
                f"echo {scheduler.pid} >{group}/cgroup.procs && "
                f"cat {group}/pids.current >{group}/pids.max && echo 1 >{vcpu3}"
            )
            assert guest.run(crowd, LIMIT_S).rc == 0
            failed = "probing (vcap) has failed"
            wait_until(guest, lambda: failed in scheduler.output, "the failure")
            wait_until(guest, lambda: SHARE_OF_0 not in page(), "the end of what it knew")
            restarts = value(page(), 'scx_vaware_probe_restarts_total{prober="vcap"}')
            assert restarts >= 1
            # Threads that ended made room. Now there is enough of it.
            assert guest.run(f"echo max >{group}/pids.max", LIMIT_S).rc == 0
            wait_until(guest, lambda: SHARE_OF_0 in page(), "another snapshot")
            assert age_s(guest, page(), "snapshot") < 10
    finally:
        guest.run(f"echo 1 >{vcpu3}; rmdir {group}", LIMIT_S)


def test_probing_goes_on_while_a_vcpu_comes_and_goes(scheduler):
    guest = scheduler.vm
    for state in (0, 1) * 5:
        assert guest.run(f"sleep 1; echo {state} >{online(3)}", LIMIT_S).rc == 0
    scheduler.expect_in_charge()
    share_of_3 = SHARE_OF_0.replace("0", "3")
    wait_until(guest, lambda: published(guest, share_of_3) is not None, "the share of vCPU 3")
    assert age_s(guest, guest.run(METRICS, LIMIT_S).output, "snapshot") < 10


def test_a_port_that_is_taken_changes_nothing(guest):
    before = sched_ext(guest)
    refused = start_where_the_port_is_taken(guest)
    assert refused.rc == 73, refused.output
    assert "127.0.0.1:9817" in refused.output and refused.output.strip().endswith("--listen off")
    assert sched_ext(guest) == before


def test_the_configuration_can_be_checked_and_shown_without_rights(guest):
    check = f"echo 'polices = []' >/tmp/c.toml; {AS_NOBODY} {BINARY} config check /tmp/c.toml"
    wrong = guest.run(check, LIMIT_S)
    assert wrong.rc == 78 and "line 1" in wrong.output and "polices" in wrong.output
    show = guest.run(f"{AS_NOBODY} {BINARY} config show --policies rescue --partial", LIMIT_S)
    assert show.rc == 0, show.output
    assert 'policies = ["rescue"]\n' in show.output and "partial = true\n" in show.output
