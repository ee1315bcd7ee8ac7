# SPDX-License-Identifier: GPL-2.0-only
"""What the daemon has changed in /sys is as it was before, even after it was killed."""

import pytest

from guest_scheduler import DEFAULT_KERNEL, LIMIT_S, GuestScheduler, on_kernels

pytestmark = [pytest.mark.vm, on_kernels(DEFAULT_KERNEL)]
RECORD = "/run/scx_vaware/restore.toml"
POLL_NS = "/sys/module/haltpoll/parameters/guest_halt_poll_ns"


def shown(vm, path):
    """What a file of the guest shows."""
    return vm.run(f"cat {path}", LIMIT_S).output.strip()


def test_the_next_start_restores_what_a_killed_one_has_changed(guest):
    before = shown(guest, POLL_NS)
    record = f'["{POLL_NS}"]\nbefore = "{before}"\nours = "4321"\n'
    made = f"mkdir -p /run/scx_vaware && echo 4321 >{POLL_NS} && cat >{RECORD} <<'END'\n{record}END"
    assert guest.run(made, LIMIT_S).rc == 0
    assert shown(guest, POLL_NS) == "4321" != before
    with GuestScheduler(guest):
        assert shown(guest, POLL_NS) == before
        assert guest.run(f"test -e {RECORD}", LIMIT_S).rc == 1
