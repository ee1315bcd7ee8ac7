# SPDX-License-Identifier: GPL-2.0-only
"""Why it ended, by exit code and by one sentence; and whatever it refuses changes nothing."""

import pytest

from guest_scheduler import (
    BINARY,
    DEFAULT_KERNEL,
    LIMIT_S,
    on_kernels,
    sched_ext,
    wait_until,
)

pytestmark = pytest.mark.vm
AS_NOBODY = "setpriv --reuid nobody --regid nogroup --clear-groups"


@pytest.mark.parametrize(
    "command, code, named",
    [
        (f"{AS_NOBODY} {BINARY}", 77, "sudo"),
        (f"{BINARY} --config /nonexistent.toml", 78, "/nonexistent.toml"),
        (f"echo 'wait_bound_ms = 1' >/tmp/bad.toml; {BINARY} --config /tmp/bad.toml", 78, "100"),
        (f"echo 'polices = []' >/tmp/bad.toml; {BINARY} --config /tmp/bad.toml", 78, "polices"),
        (f"{BINARY} --nonsense", 2, "--nonsense"),
        (f"{BINARY} --policies turbo", 2, "turbo"),
        (f"{BINARY} --wait-bound-ms 50000", 2, "10000"),
    ],
    ids=["nobody", "no file", "bad value", "bad key", "bad flag", "bad policy", "bad bound"],
)
@on_kernels(DEFAULT_KERNEL)
def test_what_it_refuses_changes_nothing(guest, command, code, named):
    before = sched_ext(guest)
    refused = guest.run(command, LIMIT_S)
    assert refused.rc == code, refused.output
    assert named in refused.output
    assert sched_ext(guest) == before


@on_kernels(DEFAULT_KERNEL)
def test_a_second_scheduler_leaves_the_first_in_charge(scheduler):
    refused = scheduler.vm.run(BINARY, LIMIT_S)
    assert refused.rc == 75, refused.output
    assert refused.output.startswith("scx_vaware: ") and refused.output.count("\n") == 1
    assert "stop that one first" in refused.output
    scheduler.expect_in_charge()


@on_kernels(DEFAULT_KERNEL)
def test_of_two_that_start_at_once_one_is_in_charge(guest):
    start = f"{BINARY} --listen off >/tmp/said.%d 2>&1 & echo $! >/tmp/pid.%d"
    assert guest.run(f"{start % (1, 1)}; {start % (2, 2)}", LIMIT_S).rc == 0
    ended = "for i in 1 2; do [ -e /proc/$(cat /tmp/pid.$i) ] || echo $i; done"
    wait_until(guest, lambda: guest.run(ended, LIMIT_S).output, "the end of one")
    (loser,) = guest.run(ended, LIMIT_S).output.split()
    winner = {"1": "2", "2": "1"}[loser]
    loser_said = guest.run(f"cat /tmp/said.{loser}", LIMIT_S).output
    assert loser_said.startswith("scx_vaware: "), loser_said
    wait_until(guest, lambda: "Ctrl-C" in guest.run(f"cat /tmp/said.{winner}").output, "the load")
    assert sched_ext(guest).state == "enabled"
    pid = f"$(cat /tmp/pid.{winner})"
    end = f"kill -INT {pid}; while [ -e /proc/{pid} ]; do sleep 0.1; done"
    assert guest.run(end, LIMIT_S).rc == 0
    assert sched_ext(guest).state == "disabled"
