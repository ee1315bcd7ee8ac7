// SPDX-License-Identifier: GPL-2.0-only
//! Properties of who runs next, and of placement.

use policy_tests::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const LATENCY: u32 = VAWARE_CLASS_LATENCY;
const THROUGHPUT: u32 = VAWARE_CLASS_THROUGHPUT;
const BEST_EFFORT: u32 = VAWARE_CLASS_BEST_EFFORT;
const NONE: u32 = VAWARE_CLASS_NONE;

prop_compose! {
    fn any_running()(class in 0..=NONE, weight in 1..=10_000u32, vtime: u64, ran_ns in 0..1_000 * MS,
                     burst_ns in 0..1_000 * MS, unbilled_ns in 0..5 * MS) -> running {
        running { class, weight, vtime, ran_ns, burst_ns, unbilled_ns, migrated: false, rcu_reader: false }
    }
}

proptest! {
    #[test]
    fn normal_work_takes_the_vcpu_from_best_effort_at_once(deadline: u64, r in any_running()) {
        let r = running { class: BEST_EFFORT, ..r };
        prop_assert!(pure!(queue_preempts(LATENCY, deadline, &r)));
        prop_assert!(pure!(queue_preempts(THROUGHPUT, deadline, &r)));
    }

    #[test]
    fn a_guest_gives_way_at_once(deadline: u64, r in any_running()) {
        let migrated = running { migrated: true, ..r };
        if r.class != NONE {
            prop_assert!(pure!(queue_preempts(LATENCY, deadline, &migrated)));
            prop_assert!(pure!(queue_preempts(THROUGHPUT, deadline, &migrated)));
        }
        prop_assert!(!pure!(queue_preempts(BEST_EFFORT, deadline, &migrated)));
    }

    #[test]
    fn an_rcu_reader_keeps_the_vcpu_for_its_protected_time(
        class in 0..NONE, deadline: u64, migrated: bool, r in any_running(),
    ) {
        let reader = running { migrated, rcu_reader: true, ..r };
        if r.class != NONE && reader.ran_ns < pure!(queue_protected_ns(THROUGHPUT, &reader)) {
            prop_assert!(!pure!(queue_preempts(class, deadline, &reader)));
        }
        prop_assert!(pure!(queue_protected_ns(class, &reader)) >= pure!(queue_protected_ns(class, &r)));
    }

    #[test]
    fn protection_runs_out(class in 0..NONE, r in any_running()) {
        let rest = pure!(queue_protected_rest_ns(class, &r));
        let later = running { ran_ns: r.ran_ns + rest, ..r };
        prop_assert_eq!(pure!(queue_protected_rest_ns(class, &later)), 0);
        prop_assert!(rest <= pure!(queue_protected_ns(class, &r)));
    }

    #[test]
    fn best_effort_never_takes_a_vcpu(deadline: u64, r in any_running()) {
        prop_assert!(!pure!(queue_preempts(BEST_EFFORT, deadline, &r)));
    }

    #[test]
    fn an_idle_vcpu_needs_no_preemption(class in 0..NONE, deadline: u64, r in any_running()) {
        let idle = running { class: NONE, ..r };
        prop_assert!(!pure!(queue_preempts(class, deadline, &idle)));
    }

    #[test]
    fn normal_work_runs_its_protected_time(deadline: u64, ran_ns in 0..3 * MS, r in any_running()) {
        let peer = running { class: THROUGHPUT, ran_ns, burst_ns: ran_ns, ..r };
        prop_assert!(!pure!(queue_preempts(LATENCY, deadline, &peer)));
        prop_assert!(!pure!(queue_preempts(THROUGHPUT, deadline, &peer)));
    }

    #[test]
    fn latency_waits_for_cpu_bound_work_no_longer_than_for_others(r in any_running()) {
        prop_assert!(pure!(queue_protected_ns(LATENCY, &r)) <= pure!(queue_protected_ns(THROUGHPUT, &r)));
        let bound = running { burst_ns: 3 * MS, ..r };
        let talks = running { burst_ns: MS, ..r };
        let protected_ns = |r| pure!(queue_protected_ns(LATENCY, r));
        prop_assert!(protected_ns(&bound) < protected_ns(&talks));
    }

    #[test]
    fn cpu_bound_work_is_not_protected_from_latency(
        deadline: u64, burst_ns in 3 * MS..S, r in any_running(),
    ) {
        let bound = running { class: THROUGHPUT, burst_ns, rcu_reader: false, ..r };
        prop_assert_eq!(pure!(queue_protected_ns(LATENCY, &bound)), 0);
        if (pure!(queue_running_deadline(&bound)).wrapping_sub(deadline) as i64) > 0 {
            prop_assert!(pure!(queue_preempts(LATENCY, deadline, &bound)));
        }
    }

    #[test]
    fn who_preempts_pays_for_switches_that_were_for_little(ran in 0..MS) {
        let pays = pure!(queue_preemption_ns(ran));
        prop_assert_eq!(pays == 0, ran >= u64::from(SWITCHES_NS));
        prop_assert_eq!(ran.max(u64::from(SWITCHES_NS)), ran + pays);
    }

    #[test]
    fn who_is_preempted_would_queue_behind(deadline: u64, r in any_running()) {
        let r = running { class: THROUGHPUT, ..r };
        if pure!(queue_preempts(LATENCY, deadline, &r)) {
            prop_assert!(!pure!(queue_keeps(&r, deadline)));
        }
    }

    #[test]
    fn running_on_brings_the_end_nearer(r in any_running(), more in 0..100 * MS) {
        let later = running { unbilled_ns: r.unbilled_ns + more, ..r };
        let (now, then) = pure!((queue_running_deadline(&r), queue_running_deadline(&later)));
        prop_assert!(then.wrapping_sub(now) as i64 >= 0);
    }

    #[test]
    fn slices_are_short_only_while_somebody_waits(waiting in 1..1_000u32) {
        prop_assert!(pure!(queue_slice_ns(waiting) < queue_slice_ns(0)));
    }

    #[test]
    fn nothing_is_pulled_from_an_empty_queue(own in 0..100u32, wait in 0..1_000 * MS) {
        prop_assert!(!pure!(queue_pulls(own, 0, wait)));
    }

    #[test]
    fn a_stuck_queue_is_helped_however_short(own in 0..100u32, other in 1..100u32, wait in 24 * MS..10_000 * MS) {
        prop_assert!(pure!(queue_pulls(own, other, wait)));
    }

    #[test]
    fn a_moving_shorter_queue_is_left_alone(own in 1..100u32, less in 0..100u32, wait in 0..24 * MS) {
        prop_assert!(!pure!(queue_pulls(own, own.saturating_sub(less), wait)));
    }

    #[test]
    fn overdue_comes_before_the_bound(bound in 100 * MS..10_000 * MS) {
        // Found by a search at the latest, with as much time again to be run.
        let again = pure!(queue_overdue_again_ns(false, bound));
        prop_assert!(pure!(queue_overdue(bound - again, bound)));
        prop_assert!(pure!(queue_overdue_again_ns(true, bound)) <= again);
        prop_assert!(!pure!(queue_overdue(bound / 2 - 1, bound)));
    }

    #[test]
    fn dear_wake_ups_are_avoided(
        stolen in 0..1024u32, average in 0..S, burst in 0..S, wake in 0..10 * MS, more in 0..S,
    ) {
        let first = |stolen, wake| pure!(place_waker_first(stolen, average, burst, wake));
        prop_assert!(first(stolen, wake) <= first(stolen + 1, wake));
        prop_assert!(first(stolen, wake) <= first(stolen, wake + more));
    }

    #[test]
    fn nobody_follows_a_waker_that_goes_on(average in 0..MS, wake in 0..MS, more in 0..S) {
        let first = |average, burst| pure!(place_waker_first(0, average, burst, wake));
        prop_assert!(!first(average, average + wake + more), "it runs longer than ever");
        prop_assert!(!first(average + wake + more, average), "it does not sleep for long");
        prop_assert_eq!(first(average, average), wake > 0);
    }

    #[test]
    fn pinned_tasks_never_leave(waiting in 0..100u32) {
        prop_assert!(!pure!(place_leave_on_expiry(waiting, true)));
    }
}

/// Weighted fairness as the queue makes it: always the earliest deadline, charged by virtual time.
#[test]
fn shares_follow_weights() {
    let weights = [100u32, 200, 800];
    let mut vtime = [0u64; 3];
    let mut run_ns = [0u64; 3];
    for _ in 0..20_000 {
        let next = (0..3)
            .min_by_key(|i| pure!(vtime_deadline(vtime[*i], weights[*i], 3 * MS)))
            .unwrap_or(0);
        run_ns[next] += 3 * MS;
        vtime[next] += pure!(vtime_of_run(3 * MS, weights[next]));
    }
    for (weight, run) in weights.iter().zip(run_ns) {
        let share = run as f64 / (20_000 * 3 * MS) as f64;
        assert!((share - f64::from(*weight) / 1100.0).abs() < 0.01, "{weight}: {share}");
    }
}
