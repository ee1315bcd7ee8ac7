# SPDX-License-Identifier: GPL-2.0-only
"""A true stall is an ejection, also where the daemon could not run either, as in a pause."""

import re

import pytest

from guest_scheduler import (
    BINARY,
    DEFAULT_KERNEL,
    ENABLED,
    LIMIT_S,
    kernel_complaints,
    on_kernels,
    sched_ext,
    tool,
    wait_until,
)

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]
CROWD = 1000
WATCHDOG_S = 30  # the kernel's: it ejects a scheduler after that
# A vCPU that spins for all that time is emulated for all that time.
STARVED = "floating:2+quota:5/50"


def test_a_true_stall_is_an_ejection(scheduler):
    """The daemon cannot run either, as in a pause. Its end is the last of this scheduler."""
    guest, said_before = scheduler.vm, len(scheduler.output)
    guest.shape(STARVED)
    waiting = guest.spawn("while sleep 0.1; do :; done")
    starved = guest.run(tool("starve.py", WATCHDOG_S + 15), LIMIT_S)
    assert starved.rc == 0, starved.output
    ended = scheduler.wait()
    waiting.kill()
    waiting.wait(LIMIT_S)
    complaints = "\n".join(kernel_complaints(guest))
    said = ended.output[said_before:]
    assert ended.rc == 86, f"{said}\n{complaints}"
    assert re.search(r"stall|watchdog", said), said
    assert "paused" not in said
    assert re.search(r"vaware: vcpu=\d+ class=\d+ queued_us=\d{7,}", said), "no report of ours"
    assert sched_ext(guest).state == "disabled"


def test_an_ejection_while_it_is_enabled_counts(guest):
    """To take over the crowd takes longer than the watchdog allows here."""
    record = "/run/vaware-stall"
    crowd = guest.spawn(tool("crowd.py", CROWD))
    wait_until(guest, lambda: "there" in crowd.output or crowd.rc is not None, "the crowd")
    busy = guest.spawn("while :; do :; done")  # an idle vCPU has no tick, which looks after it
    started = f"mkdir {record}; RUNTIME_DIRECTORY={record} SCX_TIMEOUT_MS=1 {BINARY}"
    ended = guest.run(started, LIMIT_S)
    for each in (busy, crowd):
        each.kill()
        each.wait(LIMIT_S)
    kernel_complaints(guest)  # as expected
    assert ended.rc == 86, ended.output
    assert ENABLED not in ended.output, "too late for this test"
    assert "the kernel's report:\n" in ended.output
    assert guest.run(f"cat {record}/ejections; rm -r {record}", LIMIT_S).output == "1\n"
