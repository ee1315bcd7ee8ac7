// SPDX-License-Identifier: GPL-2.0-only
//! Properties of vact's functions, against models that keep every single period.

use policy_tests::*;
use proptest::collection::vec;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

fn spans(lengths: &[u64]) -> vaware_spans {
    let mut spans = vaware_spans { weights: [0; VAWARE_SPAN_BUCKETS as usize] };
    for &ns in lengths {
        pure!(span_add(&mut spans, ns));
    }
    spans
}

/// Lengths within the range of the buckets, as many short ones as long ones.
fn length() -> impl Strategy<Value = u64> {
    (15..32u32, 0.0..1.0f64).prop_map(|(bit, part)| ((1u64 << bit) as f64 * (1.0 + part)) as u64)
}

/// The bounds of the bucket that `ns` falls into.
fn bucket(ns: u64) -> (u64, u64) {
    let index = pure!(span_bucket(ns));
    (pure!(span_start_ns(index)), pure!(span_start_ns(index + 1)))
}

proptest! {
    #[test]
    fn a_period_lies_within_its_bucket(ns in 0..6 * SECOND) {
        let (start, end) = bucket(ns);
        prop_assert!(start <= ns && ns < end);
    }

    #[test]
    fn buckets_are_half_an_octave(ns in length()) {
        let (start, end) = bucket(ns);
        prop_assert!(end * 2 <= start * 3, "{} to {}", start, end);
    }

    #[test]
    fn each_period_counts_once(lengths in vec(0..20 * SECOND, 0..200)) {
        let sum: u32 = spans(&lengths).weights.iter().sum();
        prop_assert_eq!(sum, lengths.len() as u32 * VAWARE_SPAN_UNIT);
    }

    #[test]
    fn weights_halve_every_half_life(lengths in vec(length(), 1..100), lives in 0..8u64, part in 0..SPAN_HALF_LIFE) {
        let mut decayed = spans(&lengths);
        let before = decayed.weights;
        let halvings = pure!(span_halvings(SECOND, SECOND + lives * SPAN_HALF_LIFE + part));
        pure!(span_decay(&mut decayed, halvings));
        for (now, then) in decayed.weights.iter().zip(before) {
            prop_assert_eq!(*now, then >> lives);
        }
    }

    #[test]
    fn nothing_decays_into_the_future_or_by_more_than_all(at: u64, now: u64) {
        let halvings = pure!(span_halvings(at, now));
        prop_assert!(halvings < 32);
        prop_assert!(now > at || halvings == 0);
    }

    /// Kaplan and Meier's estimator on the single periods, with the resolution of the buckets: the
    /// range that it looks at begins and ends on their bounds.
    #[test]
    fn the_hazard_is_that_of_the_single_periods(
        stops in vec(length(), 1..60),
        idles in vec(length(), 0..60),
        first in 1..33u32,
        count in 1..10u32,
    ) {
        let age = pure!(span_start_ns(first));
        let until = pure!(span_start_ns((first + count).min(VAWARE_SPAN_BUCKETS - 1)));
        let hazard = pure!(activity_hazard_1024(&spans(&stops), &spans(&idles), age, until - age));
        // What ended idle within the range was at risk for an unknown part of it: at least for none,
        // at most for all.
        let in_range = |ns: &&u64| (age..until).contains(*ns);
        let longer = |lengths: &[u64]| lengths.iter().filter(|ns| **ns >= age).count() as f64;
        let stopped = stops.iter().filter(in_range).count() as f64;
        let idled = idles.iter().filter(in_range).count() as f64;
        let at_risk = longer(&stops) + longer(&idles);
        if at_risk == 0.0 || stopped == 0.0 {
            prop_assert_eq!(hazard, 0);
        } else {
            let least = 1024.0 * stopped / at_risk;
            let most = 1024.0 * (stopped / (at_risk - idled)).min(1.0);
            prop_assert!(
                (least - 2.0..=most + 2.0).contains(&f64::from(hazard)),
                "{} not in {}..={}", hazard, least, most
            );
        }
    }

    #[test]
    fn the_hazard_is_a_probability_and_grows_with_the_time(
        stops in vec(length(), 0..60), idles in vec(length(), 0..60),
        age in 0..4 * SECOND, within in 0..SECOND, more in 0..SECOND,
    ) {
        let (stops, idles) = (spans(&stops), spans(&idles));
        let short = pure!(activity_hazard_1024(&stops, &idles, age, within));
        let long = pure!(activity_hazard_1024(&stops, &idles, age, within + more));
        prop_assert!(short <= 1024 && long <= 1024);
        prop_assert!(short <= long + 2, "{} > {}", short, long);
    }

    #[test]
    fn idle_ends_lower_the_hazard(stops in vec(length(), 1..60), idles in vec(length(), 1..60), age in 0..SECOND, within in 1..SECOND) {
        let stops = spans(&stops);
        let alone = pure!(activity_hazard_1024(&stops, &spans(&[]), age, within));
        let with = pure!(activity_hazard_1024(&stops, &spans(&idles), age, within));
        prop_assert!(with <= alone + 2);
    }

    #[test]
    fn the_rest_is_the_mean_rest_of_those_that_lasted_longer(lengths in vec(length(), 1..100), first in 0..33u32) {
        let age = pure!(span_start_ns(first));
        let rest = pure!(activity_rest_ns(&spans(&lengths), age));
        let rests: Vec<u64> = lengths.iter().filter(|ns| **ns >= age).map(|ns| ns - age).collect();
        if rests.is_empty() {
            prop_assert_eq!(rest, age.max(INACTIVE_UNKNOWN));
        } else {
            // Each period is known to within its bucket, which is half as long as its start at most.
            let mean = rests.iter().sum::<u64>() as f64 / rests.len() as f64;
            let error = lengths.iter().filter(|ns| **ns >= age).map(|ns| *ns / 4).max().unwrap_or(0) as f64;
            prop_assert!((rest as f64 - mean).abs() <= error + 2048.0, "{} for {}", rest, mean);
        }
    }

    #[test]
    fn a_rest_is_never_longer_than_the_longest_period_leaves(lengths in vec(length(), 1..100), age in 0..4 * SECOND) {
        let longest = lengths.iter().max().map_or(0, |ns| bucket(*ns).1);
        prop_assume!(age < longest - longest / 8);
        prop_assert!(pure!(activity_rest_ns(&spans(&lengths), age)) <= longest - age);
    }

    #[test]
    fn short_stops_do_not_end_what_long_ones_do(
        long_ms in 4u64..60, parts in 10u64..100, shorts in 1u64..40, first in length(),
    ) {
        // A quarter of the lost time at most is lost by short ones.
        let (long, short) = (long_ms * MS, long_ms * MS / parts);
        let shorts = shorts.min(parts / 4);
        let mut stop = first;
        for _ in 0..2 * SECOND / long {
            (0..shorts).for_each(|_| stop = pure!(activity_preemption_ns(stop, short)));
            stop = pure!(activity_preemption_ns(stop, long));
        }
        prop_assert!((long / 2..=long + MS).contains(&stop), "{} for {}", stop, long);
        prop_assert!(pure!(activity_ends(long, stop)));
        prop_assert!(!pure!(activity_ends(short, stop)));
    }

    #[test]
    fn where_stops_are_alike_each_ends_an_active_period(ns in 50_000..SECOND) {
        prop_assert_eq!(pure!(activity_preemption_ns(0, ns)), ns);
        prop_assert!(pure!(activity_ends(ns, ns)));
    }

    #[test]
    fn only_a_vcpu_with_work_and_a_beat_overdue_is_believed_stopped(due in 1..SECOND, now in 0..2 * SECOND) {
        let active = VAWARE_STATE_ACTIVE;
        prop_assert_eq!(pure!(activity_preempted(active, due, now)), now > due);
        prop_assert!(!pure!(activity_preempted(active, 0, now)), "none is due");
        prop_assert!(!pure!(activity_preempted(VAWARE_STATE_IDLE, due, now)));
    }

    #[test]
    fn a_stop_began_after_the_last_beat_and_before_the_missed_one(beat in 0..SECOND, due in 0..SECOND) {
        let began = pure!(activity_preemption_began_ns(beat, due));
        prop_assert!(began >= beat && began <= beat.max(due));
    }
}

proptest! {
    /// An event takes some microseconds, a long stop far more.
    #[test]
    fn a_long_stop_is_left_to_the_next_beat_only_if_it_came_after_the_event(
        event in 0..SECOND, stop in MS..SECOND, handled in 0..100_000u64,
    ) {
        prop_assert!(pure!(activity_stop_is_later(stop, event, event + handled + stop)));
        prop_assert!(!pure!(activity_stop_is_later(stop, event, event + handled)));
        prop_assert!(!pure!(activity_stop_is_later(stop, event + handled, event)), "a clock that lags");
    }

    #[test]
    fn what_clock_and_beats_see_counts_once(stops in vec((0..50 * MS, any::<bool>(), any::<bool>()), 1..50)) {
        // Each stop is seen in full by late beats, by the clock at once, or by the clock later. So it
        // is whether the clock is known to miss some or not.
        for misses in [false, true] {
            let (mut owed, mut taken, mut clock_later, mut truth) = (0, 0, 0, 0);
            for &(stop, beats_see, clock_lags) in &stops {
                truth += stop;
                let clock = if clock_lags && beats_see { clock_later += stop; 0 } else { stop };
                let late = if beats_see { stop } else { 0 };
                let found = pure!(activity_fuse(clock, late, owed, misses));
                (owed, taken) = (found.owed_ns, taken + found.ns);
                let found = pure!(activity_fuse(clock_later, 0, owed, misses));
                (owed, taken, clock_later) = (found.owed_ns, taken + found.ns, 0);
            }
            prop_assert_eq!(taken, truth);
            prop_assert_eq!(owed, 0);
        }
    }

    #[test]
    fn beyond_an_exact_clock_nothing_is_stolen(moves in vec((0..50 * MS, 0..50 * MS), 1..50)) {
        let (mut owed, mut taken) = (0, 0);
        for (clock, late) in &moves {
            let found = pure!(activity_fuse(*clock, *late, owed, false));
            (owed, taken) = (found.owed_ns, taken + found.ns);
            prop_assert!(found.by_clock);
        }
        prop_assert_eq!(taken, moves.iter().map(|(clock, _)| clock).sum::<u64>());
    }

    #[test]
    fn of_a_clock_that_misses_stops_late_beats_count(late in 1..SECOND, clock in 0..SECOND) {
        let found = pure!(activity_fuse(clock, late, 0, true));
        prop_assert_eq!(found.ns, clock.max(late));
        prop_assert_eq!(found.by_clock, clock >= late);
    }

    /// A host below that takes a twentieth and more is known within a minute; interrupts that are
    /// off for up to a hundredth of the time never prove one, however long the single time.
    #[test]
    fn a_clock_misses_stops_by_many_late_beats_alone(
        late in MS / 4..50 * MS, more in 4..20u64, less in 100..1000u64, first in 0..10 * SECOND,
    ) {
        let misses = |after: u64, beats: u64| {
            let mut evidence = pure!(activity_missed_ns(0, first, 0));
            let mut told = pure!(activity_clock_misses(false, evidence));
            assert!(!told, "by one beat");
            for _ in 0..beats {
                evidence = pure!(activity_missed_ns(evidence, late, after));
                told = pure!(activity_clock_misses(told, evidence));
            }
            told
        };
        let within_a_minute = |part: u64| 60 * SECOND / (late * part);
        prop_assert!(misses(late * more, within_a_minute(more)));
        prop_assert!(!misses(late * less, within_a_minute(less)));
    }

    #[test]
    fn a_clock_that_shows_all_again_is_believed_again(late in MS..50 * MS) {
        let mut evidence = 0;
        (0..1000).for_each(|_| evidence = pure!(activity_missed_ns(evidence, late, late * 10)));
        prop_assert!(pure!(activity_clock_misses(false, evidence)));
        evidence = pure!(activity_missed_ns(evidence, 0, 30 * SECOND));
        prop_assert!(!pure!(activity_clock_misses(true, evidence)));
    }

    #[test]
    fn ticks_are_expected_at_their_times(phase in 0..TICK, late in vec(0..20 * TICK, 0..20), until in 0..1000 * TICK) {
        // Ticks that came late were those of some time of the tick; one that is not late follows.
        let mut due = 0;
        let mut last = phase;
        for ns in late {
            due = pure!(activity_tick_due_ns(due, TICK, last + ns));
            last += (ns / TICK + 1) * TICK;
        }
        due = pure!(activity_tick_due_ns(due, TICK, last));
        prop_assert!(due > last && due <= last + TICK + DRIFT, "{} after {}", due, last);
        let next = pure!(activity_tick_after_ns(due, TICK, last + until));
        prop_assert!(next > last + until);
        prop_assert!(next <= due.max(last + until + TICK + TICK / 64));
        prop_assert_eq!((next - due) % TICK, 0);
    }

    #[test]
    fn a_tick_on_time_is_not_taken_for_the_one_before(jitter in vec(0..TICK / 100, 1..500)) {
        let mut due = 0;
        for (tick, ns) in jitter.into_iter().enumerate() {
            let now = (tick as u64 + 1) * TICK + ns;
            due = pure!(activity_tick_due_ns(due, TICK, now));
            // Whoever begins to run right after it expects the same.
            due = pure!(activity_tick_after_ns(due, TICK, now));
            prop_assert!(due > now + TICK / 2, "{} after {}", due, now);
        }
    }

    #[test]
    fn timers_beat_after_frequent_long_stops_alone(
        last in 1..100 * SECOND, later in 0..10 * SECOND, apart in 0..SECOND,
    ) {
        let wants =
            |stop, tick| pure!(activity_wants_timer(apart, stop, last + later, tick));
        prop_assert_eq!(wants(last, TICK), later < SECOND && apart < SECOND / 5);
        prop_assert!(!wants(0, TICK), "never stopped");
        prop_assert!(!wants(last, MS), "ticks are as frequent");
    }

    #[test]
    fn a_beat_comes_within_its_interval_whether_by_tick_or_timer(
        due in 1..100 * SECOND, later in 0..10 * SECOND, tick in 1..=10u64,
    ) {
        let (tick, now) = (tick * MS, due + later);
        let next = pure!(activity_tick_after_ns(due, tick, now)) - now;
        let suffices = pure!(activity_tick_suffices(due, tick, now));
        prop_assert_eq!(suffices, next <= 2 * MS);
        prop_assert!(!pure!(activity_tick_suffices(0, tick, now)), "no tick is known of");
    }

    #[test]
    fn stops_become_frequent_by_their_number_alone(
        between in 2..100u64, rare in 400..10_000u64, mostly_idle in 5..100u64,
    ) {
        let after = |stops: u64, between_ns: u64, idle: u64| {
            let mean = |apart, stop: u64| {
                let (last, now) = (SECOND + stop * between_ns, SECOND + (stop + 1) * between_ns);
                pure!(activity_apart_ns(apart, last, between_ns / idle, now))
            };
            (0..stops).fold(SECOND, mean)
        };
        let timer = |apart| pure!(activity_wants_timer(apart, SECOND, SECOND, TICK));
        prop_assert!(timer(after(20, between * MS, 1)), "many a second");
        prop_assert!(!timer(after(3, between * MS, 1)), "three are chance");
        prop_assert!(!timer(after(20, rare * MS, 1)), "one or two a second");
        prop_assert!(timer(after(20, 900 * MS, mostly_idle)), "many a second of work");
    }
}

const TICK: u64 = 4 * MS;
const DRIFT: u64 = TICK / 2048;
const SPAN_HALF_LIFE: u64 = 8 * SECOND;
const INACTIVE_UNKNOWN: u64 = 4 * MS;

#[test]
fn a_vcpu_that_runs_20_ms_at_a_time_is_about_to_be_stopped_after_19() {
    let (stops, idles) = (spans(&[20 * MS; 50]), spans(&[]));
    let hazard = |age, within| pure!(activity_hazard_1024(&stops, &idles, age, within));
    assert_eq!(hazard(2 * MS, 5 * MS), 0);
    assert!(hazard(19 * MS, 6 * MS) > 900);
}

#[test]
fn without_periods_nothing_is_likely() {
    let none = spans(&[]);
    assert_eq!(pure!(activity_hazard_1024(&none, &none, MS, MS)), 0);
    assert_eq!(pure!(activity_rest_ns(&none, 9 * MS)), 9 * MS);
}
