# SPDX-License-Identifier: GPL-2.0-only
"""What the daemon has changed in /sys is as it was before: at its end, and after it was killed."""

import re
import shlex
from pathlib import Path
from signal import SIGKILL

import pytest

from guest_scheduler import (
    BINARY,
    ENABLED,
    HALT_POLL,
    LIMIT_S,
    SHAPE,
    STACKED,
    GuestScheduler,
    kernel_complaints,
    polling_vm,
    published,
    start_where_the_port_is_taken,
    wait_until,
)

pytestmark = pytest.mark.vm
POSTREMOVE = Path(__file__).resolve().parents[1] / "deploy/packages/postremove.sh"
RECORD = "/run/scx_vaware/restore.toml"
TIMEOUT_NS = "/sys/module/haltpoll/parameters/guest_halt_poll_ns"
RETAIN = ("--policies", "retain")
ENDS = 3  # by the kernel, after which it is loaded again within a second
# All files that place interrupts and unbound work, with what they show.
PLACES = (
    "grep -H '' /proc/irq/*/smp_affinity_list /proc/irq/default_smp_affinity"
    " /sys/devices/virtual/workqueue/cpumask"
)


guest = pytest.fixture(scope="module")(polling_vm)


def timeout_ns(vm):
    """For how long idle vCPUs poll at most."""
    return vm.run(f"cat {TIMEOUT_NS}", LIMIT_S).output.strip()


def wait_for_change(vm, before):
    """Wait until retention has changed it: where nothing wakes, nothing polls."""
    wait_until(vm, lambda: published(vm, HALT_POLL) == 0, "a choice of retention")
    assert timeout_ns(vm) == "0" != before
    assert before in vm.run(f"cat {RECORD}", LIMIT_S).output


def kill_after_a_change(guest):
    """Kill one that has changed the time-out of halt polling. Returns what that was before."""
    before = timeout_ns(guest)
    with GuestScheduler(guest, *RETAIN) as scheduler:
        wait_for_change(guest, before)
        scheduler.end(SIGKILL)
    return before


def test_the_end_restores(guest):
    before = timeout_ns(guest)
    with GuestScheduler(guest, *RETAIN):
        wait_for_change(guest, before)
    assert timeout_ns(guest) == before


def test_an_end_by_the_kernel_restores_until_it_is_loaded_again(guest):
    def wait_for_load(scheduler, number):
        wait_until(guest, lambda: scheduler.output.count(ENABLED) == number, f"load {number}")
        scheduler.expect_loaded_again()

    before = timeout_ns(guest)
    with GuestScheduler(guest, *RETAIN) as scheduler:
        for end in range(1, ENDS + 1):
            wait_for_change(guest, before)
            guest.pause(45)
            wait_for_load(scheduler, end + 1)
        wait_for_change(guest, before)
        guest.pause(45)
        wait_until(
            guest, lambda: "loaded again in 2 s" in scheduler.output, "a load that is put off"
        )
        assert timeout_ns(guest) == before
        wait_for_load(scheduler, ENDS + 2)
        kernel_complaints(guest)  # of what it took for stalls
    assert timeout_ns(guest) == before


def test_the_next_start_restores_what_a_killed_one_has_changed(guest):
    before = kill_after_a_change(guest)
    assert timeout_ns(guest) == "0"
    with GuestScheduler(guest):
        assert timeout_ns(guest) == before
        assert guest.run(f"test -e {RECORD}", LIMIT_S).rc == 1


def test_a_start_that_is_refused_restores_what_a_killed_one_has_changed(guest):
    before = kill_after_a_change(guest)
    refused = start_where_the_port_is_taken(guest)
    assert refused.rc == 73, refused.output
    assert timeout_ns(guest) == before


def test_a_removal_tells_what_a_killed_one_has_changed(guest):
    before = kill_after_a_change(guest)
    remove = f"cp {RECORD} /tmp/kept && sh {shlex.quote(str(POSTREMOVE))} remove"
    removed = guest.run(f"{remove} && mkdir /run/scx_vaware && cp /tmp/kept {RECORD}", LIMIT_S)
    assert removed.rc == 0, removed.output
    assert TIMEOUT_NS in removed.output and before in removed.output
    with GuestScheduler(guest):
        assert timeout_ns(guest) == before


def test_a_second_start_undoes_nothing_of_one_that_runs(guest):
    before = timeout_ns(guest)
    with GuestScheduler(guest, *RETAIN):
        wait_for_change(guest, before)
        assert guest.run(BINARY, LIMIT_S).rc == 75
        assert timeout_ns(guest) == "0"
        assert before in guest.run(f"cat {RECORD}", LIMIT_S).output


def test_interrupts_keep_away_from_a_banned_vcpu_until_it_ends(guest):
    def shown():
        return dict(line.split(":") for line in guest.run(PLACES, LIMIT_S).output.splitlines())

    guest.shape(STACKED)
    before = shown()
    with GuestScheduler(guest, "--move-interrupts") as scheduler:
        wait_until(guest, lambda: "keep away from vCPUs" in scheduler.output, "a move")
        banned = int(re.search(r"keep away from vCPUs (\d)\n", scheduler.output)[1])
        moved = {place: now for place, now in shown().items() if now != before[place]}
        assert banned in (2, 3)
        assert f"interrupts: {len(moved)} files keep away" in scheduler.output, (moved, before)
        masks = {int(now, 16) for place, now in moved.items() if "_list" not in place}
        assert masks == {0b1111 & ~(1 << banned)}, moved
        lists = [now for place, now in moved.items() if "_list" in place]
        assert lists and not any(str(banned) in now or now == "0-3" for now in lists), moved
        scheduler.end(SIGKILL)
    assert shown() != before
    with GuestScheduler(guest):
        assert shown() == before
    guest.shape(SHAPE)


def test_what_somebody_else_sets_stays(guest):
    before = kill_after_a_change(guest)
    guest.run(f"echo 54321 >{TIMEOUT_NS}", LIMIT_S)
    with GuestScheduler(guest):
        assert timeout_ns(guest) == "54321"
    guest.run(f"echo {before} >{TIMEOUT_NS}", LIMIT_S)
