# SPDX-License-Identifier: GPL-2.0-only
"""Why it ended, by exit code and by one sentence; and whatever it refuses changes nothing."""

import pytest

from guest_scheduler import (
    BINARY,
    DEFAULT_KERNEL,
    LIMIT_S,
    on_kernels,
    sched_ext,
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
