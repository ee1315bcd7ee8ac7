# SPDX-License-Identifier: GPL-2.0-only
"""A VM that its host does not run for a while, as in a snapshot or a migration; and true stalls."""

import os
import re

import pytest
from guest_scheduler import (
    DEFAULT_KERNEL,
    LIMIT_S,
    METRICS,
    GuestScheduler,
    kernel_complaints,
    on_kernels,
    sched_ext,
    tool,
    wait_until,
)
from prometheus_tools import value

pytestmark = [pytest.mark.vm, pytest.mark.wall, on_kernels(DEFAULT_KERNEL)]
# The kernel's watchdog ejects a scheduler after 30 s. VAWARE_PAUSE_S asks for another pause, too.
PAUSES_S = [1, 45, *map(int, os.environ.get("VAWARE_PAUSE_S", "").split())]
ENABLED = "scx_vaware: enabled\n"


@pytest.mark.parametrize("seconds", PAUSES_S)
def test_a_pause_of_the_vm_is_no_stall(guest, seconds):
    with GuestScheduler(guest) as scheduler:
        work = guest.spawn("while sleep 0.05; do :; done")
        guest.pause(seconds)
        if seconds > 30:
            wait_until(guest, lambda: scheduler.output.count(ENABLED) == 2, "the second load")
            assert "the VM was paused for" in scheduler.output
        page = guest.run(METRICS, LIMIT_S).output
        by_pause = value(page, 'scx_vaware_restarts_total{cause="pause"}')
        assert by_pause == (1 if seconds > 30 else 0)
        assert value(page, "scx_vaware_vm_pauses_total") == (1 if seconds > 5 else 0)
        paused_s = value(page, "scx_vaware_vm_paused_seconds_total")
        assert seconds - 2 < paused_s < seconds + 2 or seconds < 5
        assert sched_ext(guest).state == "enabled"
        work.kill()
        work.wait(LIMIT_S)
        kernel_complaints(guest)  # of what it took for a stall
        assert scheduler.end(2).rc == 0


@pytest.mark.long
def test_a_true_stall_is_an_ejection(guest):
    with GuestScheduler(guest) as scheduler:
        waiting = guest.spawn("while sleep 0.1; do :; done")
        starved = guest.run(tool("starve.py", 45), LIMIT_S)
        assert starved.rc == 0, starved.output
        ended = scheduler.wait()
        waiting.kill()
        waiting.wait(LIMIT_S)
        complaints = "\n".join(kernel_complaints(guest))
    # The daemon itself could not run, as in a pause.
    assert ended.rc == 86, f"{ended.output}\n{complaints}"
    assert re.search(r"stall|watchdog", ended.output), ended.output
    assert "paused" not in ended.output
    assert sched_ext(guest).state == "disabled"
