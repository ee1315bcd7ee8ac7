# SPDX-License-Identifier: GPL-2.0-only
"""What tasks of cgroups tell of their work, whenever they are asked."""

import importlib.util
import os
import signal

import pytest

from workloads import cgroups

TURNS = 200_000


@pytest.fixture
def guest():
    """The script that runs in the guest."""
    spec = importlib.util.spec_from_file_location("guest_cgroups", cgroups.SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


@pytest.fixture
def at_work(guest, monkeypatch):
    """What a task tells that does nothing but telling."""
    monkeypatch.setattr(guest, "TURN", range(0))
    (tells,) = guest.told_by(1)
    pid = os.fork()
    if not pid:
        guest.work("spin", tells, 100)
    yield tells
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_task_never_takes_back_what_it_told(guest, at_work):
    last = 0
    while last < TURNS:
        now = at_work[guest.TURNS]
        assert now >= last
        last = now


def test_a_task_that_is_kept_from_work_has_waited_until_now(guest):
    tasks = guest.Tasks({"a": {"spin": "2"}, "b": {"nap": "1"}})
    first, second, _ = tasks.told
    guest.compute(first, 3)
    guest.compute(second, 2)
    assert tasks.turns() == {"a": 5, "b": 0}
    later_s = max(first[guest.LAST], second[guest.LAST]) + 7
    assert tasks.longest_wait_s(later_s) == later_s - min(first[guest.LAST], second[guest.LAST])
