# SPDX-License-Identifier: GPL-2.0-only
"""Harvesting for several tasks at once, in a VM that has vCPUs to spare."""

from statistics import median

import pytest

from guest_scheduler import BINARY, DEFAULT_KERNEL, LIMIT_S, VIRTUAL, GuestScheduler, boot, spin

pytestmark = pytest.mark.vm
HALF = "honest+hog"  # each vCPU has half of a core
SPINS = 4


@pytest.fixture(scope="module", params=["steal clock", "late beats"])
def vm(request, binary):
    by_beats = request.param == "late beats"
    offered = tuple(what for what in VIRTUAL.paravirt if what != "steal" or not by_beats)
    booted = boot(DEFAULT_KERNEL, binary, vcpus=8, shape=HALF, paravirt=offered)
    yield booted
    booted.down()


def spun(vm):
    """The work that two tasks do in 2 s together."""
    return sum(task["turns"] for task in spin(vm, "any", "any", seconds=2))


def pays(vm):
    """Whether the trial of harvesting says that it pays."""
    return "ivh pays here" in vm.run(f"{BINARY} doctor --duration 0.1", LIMIT_S).output


def test_tasks_that_look_at_the_same_moment_are_all_served(vm):
    """Ticks come at the same moment, and the vCPU that is best for one task is so for all.

    Where only one of them got a target, and that halted before its task came, 1.36 to 1.49 was
    seen; without a steal clock 1.0, as it was tried in 4 of 64 epochs only, and had to win by a
    third. The trial may change its mind for a while, so several spins are looked at.
    """
    with GuestScheduler(vm, "--policies", "none"):
        without = spun(vm)
    with GuestScheduler(vm, "--policies", "ivh"):
        spun(vm)  # its trial
        spins = [(pays(vm), spun(vm)) for _ in range(SPINS)]
    with_it = [turns for paid, turns in spins if paid]
    print(without, with_it)
    assert len(with_it) >= SPINS / 2, "its trial does not say that it pays"
    assert median(with_it) > 1.55 * without, (with_it, without)
