# SPDX-License-Identifier: GPL-2.0-only
"""Policy retain: idle vCPUs poll where that lets wakees run sooner, and nowhere else."""

from pathlib import Path

import pytest

from guest_scheduler import DEFAULT_KERNEL, GuestScheduler, boot, published, wait_until

pytestmark = pytest.mark.vm
PING_PONG = Path(__file__).parent / "guest" / "ping_pong.py"
CHOSEN = 'scx_vaware_halt_poll_seconds{policy="retain"}'
TRIES_S = 12  # each time-out has its rounds by then
ROUNDS = 8  # with the choice, of which one may look at another


@pytest.fixture(scope="module")
def guest(binary):
    """A guest whose kernel can let idle vCPUs poll."""
    vm = boot(DEFAULT_KERNEL, binary, append="cpuidle_haltpoll.force=1")
    yield vm
    vm.down()


def chosen(vm):
    """What was chosen in each of the next rounds."""

    def look():
        vm.sleep(1)
        return published(vm, CHOSEN)

    return [look() for _ in range(ROUNDS)]


def test_idle_vcpus_poll_while_that_saves_waits(guest):
    guest.shape("honest")
    with GuestScheduler(guest, "--policies", "retain"):
        wait_until(guest, lambda: published(guest, CHOSEN) == 0, "a choice of retention")
        work = guest.spawn(f"exec python3 -S {PING_PONG}")
        guest.sleep(TRIES_S)
        assert sum(timeout_s > 0 for timeout_s in chosen(guest)) >= ROUNDS - 1
        guest.shape("packed:2+hog")
        assert sum(timeout_s > 0 for timeout_s in chosen(guest)) <= 2
        guest.shape("honest")
        work.kill()
        assert chosen(guest)[-1] == 0
