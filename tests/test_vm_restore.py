# SPDX-License-Identifier: GPL-2.0-only
"""What the daemon has changed in /sys is as it was before: at its end, and after it was killed."""

from signal import SIGKILL

import pytest

from guest_scheduler import (
    DEFAULT_KERNEL,
    LIMIT_S,
    GuestScheduler,
    boot,
    published,
    wait_until,
)

pytestmark = pytest.mark.vm
RECORD = "/run/scx_vaware/restore.toml"
TIMEOUT_NS = "/sys/module/haltpoll/parameters/guest_halt_poll_ns"
CHOSEN = 'scx_vaware_halt_poll_seconds{policy="retain"}'
RETAIN = ("--policies", "retain")


@pytest.fixture(scope="module")
def guest(binary):
    """A guest whose kernel can let idle vCPUs poll."""
    vm = boot(DEFAULT_KERNEL, binary, append="cpuidle_haltpoll.force=1")
    yield vm
    vm.down()


def timeout_ns(vm):
    """For how long idle vCPUs poll at most."""
    return vm.run(f"cat {TIMEOUT_NS}", LIMIT_S).output.strip()


def wait_for_change(vm, before):
    """Wait until retention has changed it: where nothing wakes, nothing polls."""
    wait_until(vm, lambda: published(vm, CHOSEN) == 0, "a choice of retention")
    assert timeout_ns(vm) == "0" != before
    assert before in vm.run(f"cat {RECORD}", LIMIT_S).output


def test_the_end_restores(guest):
    before = timeout_ns(guest)
    with GuestScheduler(guest, *RETAIN):
        wait_for_change(guest, before)
    assert timeout_ns(guest) == before


def test_the_next_start_restores_what_a_killed_one_has_changed(guest):
    before = timeout_ns(guest)
    with GuestScheduler(guest, *RETAIN) as scheduler:
        wait_for_change(guest, before)
        scheduler.end(SIGKILL)
    assert timeout_ns(guest) == "0"
    with GuestScheduler(guest):
        assert timeout_ns(guest) == before
        assert guest.run(f"test -e {RECORD}", LIMIT_S).rc == 1


def test_what_somebody_else_sets_stays(guest):
    before = timeout_ns(guest)
    with GuestScheduler(guest, *RETAIN) as scheduler:
        wait_for_change(guest, before)
        scheduler.end(SIGKILL)
    guest.run(f"echo 54321 >{TIMEOUT_NS}", LIMIT_S)
    with GuestScheduler(guest):
        assert timeout_ns(guest) == "54321"
    guest.run(f"echo {before} >{TIMEOUT_NS}", LIMIT_S)
