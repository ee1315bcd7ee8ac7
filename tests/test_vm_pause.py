# SPDX-License-Identifier: GPL-2.0-only
"""A VM that its host does not run for a while, as in a snapshot or a migration."""

import re

import pytest

from guest_scheduler import (
    ALL_KERNELS,
    ENABLED,
    LIMIT_S,
    METRICS,
    kernel_complaints,
    on_kernels,
    wait_until,
)
from prometheus_tools import value

pytestmark = [pytest.mark.vm, on_kernels(*ALL_KERNELS)]
WATCHDOG_S = 30  # the kernel's: it ejects a scheduler after that
NOTED_S = 5  # the shortest pause that the daemon tells of
BACK_S = 2  # from the end of a pause to a scheduler that is loaded
COUNTERS = {
    "loads": 'scx_vaware_restarts_total{cause="pause"}',
    "pauses": "scx_vaware_vm_pauses_total",
    "paused_s": "scx_vaware_vm_paused_seconds_total",
}


def counted(vm):
    """What the daemon has counted so far, by the names of COUNTERS."""
    page = vm.run(METRICS, LIMIT_S).output
    return {name: value(page, series) for name, series in COUNTERS.items()}


@pytest.mark.parametrize("seconds", [1, 45, 300])
def test_a_pause_of_the_vm_is_no_stall(scheduler, seconds):
    guest, ends_it = scheduler.vm, seconds > WATCHDOG_S
    before, loads = counted(guest), scheduler.output.count(ENABLED)
    work = guest.spawn("while sleep 0.05; do :; done")
    guest.sleep(1)
    guest.pause(seconds)
    went_on_ns = guest.clock.now_ns()
    if ends_it:
        wait_until(guest, lambda: scheduler.output.count(ENABLED) > loads, "the second load")
        assert (guest.clock.now_ns() - went_on_ns) / 1e9 < BACK_S
        assert re.search(r"the VM was paused for \d+ s, which .* stall", scheduler.output)
        kernel_complaints(guest)  # of what it took for a stall
        scheduler.expect_loaded_again()
    else:
        guest.sleep(BACK_S)
        scheduler.expect_in_charge()
    after = counted(guest)
    assert after["loads"] - before["loads"] == ends_it
    assert after["pauses"] - before["pauses"] == (seconds > NOTED_S)
    noted_s = seconds if seconds > NOTED_S else 0
    assert after["paused_s"] - before["paused_s"] == pytest.approx(noted_s, abs=2)
    assert work.rc is None
    work.kill()
    work.wait(LIMIT_S)
