# SPDX-License-Identifier: GPL-2.0-only
"""Matching gaps with true periods, and aligning clocks: without a VM."""

import random

import pytest

from accuracy.activity import finders, matching, report
from accuracy.activity.matching import Score
from vlab import Alignment, ClockReading
from vlab.clocks import best_reading
from vlab.tracing import OffCore

MS = 1_000_000
WINDOW = (0, 1000 * MS)


def ms(*periods):
    return [(round(begin * MS), round(end * MS)) for begin, end in periods]


def test_a_period_is_found_when_gaps_cover_half_of_it():
    truth = OffCore(preempted=ms((10, 14), (20, 24), (30, 34), (40, 41.5), (50, 50.9)))
    gaps = ms((10, 12), (20, 21.9), (29, 31), (33, 35), (40.5, 42))
    score = matching.score(truth, gaps, WINDOW)
    assert (score.preempted_2ms, score.preempted_2ms_found) == (3, 2)
    assert (score.preempted_1ms, score.preempted_1ms_found) == (4, 3)
    assert (score.gaps, score.false, score.emulator) == (5, 0, 0)


def test_one_gap_over_two_periods_finds_both():
    truth = OffCore(preempted=ms((10, 15), (15.02, 20)))
    score = matching.score(truth, ms((10, 20)), WINDOW)
    assert (score.preempted_2ms_found, score.false) == (2, 0)


def test_a_gap_is_false_when_its_vcpu_ran_and_the_emulators_when_it_slept():
    truth = OffCore(preempted=ms((10, 14)), asleep=ms((30, 40), (52, 53)))
    score = matching.score(truth, ms((13, 19), (30, 40), (50, 53), (60, 61), (70, 70.9)), WINDOW)
    assert (score.gaps, score.false, score.emulator) == (5, 4, 1)
    assert score.false_1ms == 3


def test_late_wakes_count_apart_and_make_no_gap_false():
    truth = OffCore(woken=ms((10, 15), (20, 25)), asleep=ms((5, 10)))
    score = matching.score(truth, ms((9, 15)), WINDOW)
    assert (score.woken_1ms, score.woken_1ms_found, score.preempted_1ms) == (2, 1, 0)
    assert (score.false, score.emulator) == (0, 0)


def test_only_what_is_whole_within_the_window_is_counted_and_time_is_cut_to_it():
    truth = OffCore(preempted=ms((-5, 5), (100, 105), (995, 1005)))
    score = matching.score(truth, ms((-5, 5), (1001, 1002)), WINDOW)
    assert (score.preempted_2ms, score.preempted_2ms_found, score.gaps) == (1, 0, 0)
    assert (score.stolen_ns, score.found_ns) == (15 * MS, 5 * MS)


def test_the_emulators_waits_within_gaps_are_summed():
    truth = OffCore(preempted=ms((10, 14)), asleep=ms((14, 15), (30, 40)))
    assert matching.score(truth, ms((10, 16), (35, 36)), WINDOW).emulator_ns == 2 * MS


def test_coverage_agrees_with_counting_unit_by_unit():
    rng = random.Random(1)
    for _ in range(200):
        raw = [(begin, begin + rng.randint(1, 9)) for begin in rng.choices(range(60), k=6)]
        others = matching.merge((b, b + rng.randint(1, 9)) for b in rng.choices(range(60), k=6))
        taken = {unit for begin, end in others for unit in range(begin, end)}
        periods = sorted(raw)
        assert matching.covered_ns(periods, others) == [
            len(taken & set(range(begin, end))) for begin, end in periods
        ]


def test_scores_add_up_field_by_field():
    assert Score(gaps=2, stolen_ns=5) + Score(gaps=3, false=1) == Score(
        gaps=5, false=1, stolen_ns=5
    )


@pytest.mark.parametrize("drift_ppm", [0, 300, -300])
def test_guest_times_are_translated_by_offset_and_drift(drift_ppm):
    def guest_ns(host_ns):
        return 7_000_000_123 + host_ns + host_ns * drift_ppm // 10**6

    before, after = (ClockReading(t, guest_ns(t), 9) for t in (10**9, 61 * 10**9))
    alignment = Alignment(before, after)
    for host_ns in (10**9, 30 * 10**9, 61 * 10**9, 70 * 10**9):
        assert abs(alignment.to_host(guest_ns(host_ns)) - host_ns) <= 2
    assert alignment.drift_ratio == pytest.approx(drift_ppm / 10**6, abs=1e-9)
    assert alignment.error_ns == 9


def test_the_reading_with_the_shortest_way_counts():
    readings = iter([ClockReading(1, 2, 30), ClockReading(3, 4, 10), ClockReading(5, 6, 20)])
    assert best_reading(lambda: next(readings), 3) == ClockReading(3, 4, 10)


def test_a_log_is_read_per_vcpu():
    lines = [
        '{"vcpu":1,"start_ns":5,"end_ns":9,"source":"beats"}',
        '{"vcpu":0,"start_ns":6,"end_ns":7,"source":"beats"}',
        '{"vcpu":1,"start_ns":12,"end_ns":13,"source":"steal"}',
    ]
    assert finders.read_gaps(lines) == {1: [(5, 9), (12, 13)], 0: [(6, 7)]}


def test_the_table_has_a_line_per_condition_with_median_and_range():
    common = {"shape": "honest", "vcpus": 2, "load": "spin", "finder": "beats", "seconds": 2}
    counts = vars(Score(preempted_2ms=10, stolen_ns=4 * 10**8, found_ns=3 * 10**8, false=1))
    counts |= {"counted_ns": 97, "counted_true_ns": 100}
    runs = [{**common, **counts, "preempted_2ms_found": found} for found in (9, 8, 10)]
    line = report.table(runs).split("\n")[1]
    assert "90.0 (80.0..100.0)" in line
    assert "0.50 (0.50..0.50)" in line
    assert "-25.0 (-25.0..-25.0)" in line
    assert "-3.0 (-3.0..-3.0)" in line
    calm = report.table([{**runs[0], "preempted_2ms": 0, "stolen_ns": 1}]).split("\n")[1]
    assert "%" not in calm and "-25.0" not in calm
