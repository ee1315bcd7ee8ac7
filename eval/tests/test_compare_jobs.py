# SPDX-License-Identifier: GPL-2.0-only
"""Parts of a comparison at once: all are done, so many at a time, and errors come through."""

import threading

import pytest

from compare.jobs import do_at_once, most


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_all_parts_are_done_and_no_more_at_once_than_asked(jobs):
    lock, now, peak, done = threading.Lock(), [0], [0], []
    meet = threading.Barrier(jobs)

    def part(number):
        with lock:
            now[0] += 1
            peak[0] = max(peak[0], now[0])
        meet.wait(30)  # so many are there at once, or this breaks
        with lock:
            now[0] -= 1
            done.append(number)

    do_at_once([lambda number=number: part(number) for number in range(6)], jobs)
    assert sorted(done) == list(range(6))
    assert peak[0] == jobs


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_comes_through_and_no_part_is_begun_by_the_one_that_had_it(jobs):
    begun = []

    def fail(number):
        begun.append(number)
        raise ValueError(f"part {number}")

    with pytest.raises(ValueError, match="part [01]"):
        do_at_once([lambda number=number: fail(number) for number in range(6)], jobs)
    assert len(begun) <= jobs


def test_only_vms_by_virtual_time_run_at_once():
    assert most("wall", 1) == most("instructions", 1) == 1
    assert most("virtual", 1) >= 1
    assert most("virtual", 1 << 40) == 1
