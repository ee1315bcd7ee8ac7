# SPDX-License-Identifier: GPL-2.0-only
"""Policy retain: idle vCPUs poll where that lets wakees run sooner, and nowhere else."""

import pytest

from guest_scheduler import HALT_POLL, GuestScheduler, polling_vm, published, tool, wait_until

pytestmark = pytest.mark.vm
TRIES_S = 12  # each time-out has its rounds by then
ROUNDS = 8  # with the choice, of which one may look at another


guest = pytest.fixture(scope="module")(polling_vm)


def chosen(vm):
    """What was chosen in each of the next rounds."""

    def look():
        vm.sleep(1)
        return published(vm, HALT_POLL)

    return [look() for _ in range(ROUNDS)]


def test_idle_vcpus_poll_while_that_saves_waits(guest):
    guest.shape("honest")
    with GuestScheduler(guest, "--policies", "retain"):
        wait_until(guest, lambda: published(guest, HALT_POLL) == 0, "a choice of retention")
        work = guest.spawn(f"exec {tool('ping_pong.py')}")
        guest.sleep(TRIES_S)
        assert sum(timeout_s > 0 for timeout_s in chosen(guest)) >= ROUNDS - 1
        guest.shape("packed:2+hog")
        assert sum(timeout_s > 0 for timeout_s in chosen(guest)) <= 2
        guest.shape("honest")
        work.kill()
        assert chosen(guest)[-1] == 0
