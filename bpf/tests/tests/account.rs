// SPDX-License-Identifier: GPL-2.0-only
//! Properties of accounting: run time, stolen time, classes, histogram.

use policy_tests::*;
use proptest::prelude::*;

const MINUTE_NS: u64 = 60_000_000_000;

proptest! {
    #[test]
    fn nobody_is_charged_for_more_than_passed(elapsed in 0..MINUTE_NS, stolen in 0..MINUTE_NS) {
        prop_assert!(pure!(account_run_ns(elapsed, stolen)) <= elapsed);
    }

    #[test]
    fn stolen_time_is_subtracted_exactly(run in 0..MINUTE_NS, stolen in 0..MINUTE_NS) {
        prop_assert_eq!(pure!(account_run_ns(run + stolen, stolen)), run);
    }

    #[test]
    fn the_stolen_share_is_a_share(share in 0..=1024u32, run in 0..MINUTE_NS, stolen in 0..MINUTE_NS) {
        prop_assert!(pure!(account_stolen_1024(share, run, stolen)) <= 1024);
    }

    #[test]
    fn the_stolen_share_approaches_the_truth(start in 0..=1024u32, percent in 0..=100u64) {
        let stretch = 8_000_000;
        let stolen = stretch * percent / 100;
        let share = (0..500).fold(start, |share, _| pure!(account_stolen_1024(share, stretch - stolen, stolen)));
        // The average rounds down, and stays short of the truth by what a stretch can add.
        let truth = 1024 * percent / 100;
        prop_assert!(u64::from(share).abs_diff(truth) <= 24, "{} for {}", share, truth);
    }

    #[test]
    fn an_average_lies_between_old_and_new(old in 0..MINUTE_NS, new in 0..MINUTE_NS) {
        let average = pure!(account_average_ns(old, new));
        prop_assert!(average + 4 >= old.min(new) && average <= old.max(new));
    }

    #[test]
    fn a_burst_that_is_under_way_counts_at_once(average in 0..MINUTE_NS, burst in 0..MINUTE_NS) {
        let class = |burst| pure!(account_class(false, false, burst));
        let either = class(average).max(class(burst));
        prop_assert!(VAWARE_CLASS_LATENCY < VAWARE_CLASS_THROUGHPUT);
        prop_assert_eq!(class(pure!(account_burst_ns(average, burst))), either);
    }

    #[test]
    fn what_a_computation_wakes_is_no_more_urgent(class in 0..VAWARE_NR_CLASSES, by_work: bool) {
        let waits_as = pure!(account_waiting_class(class, by_work));
        let urgent = class == VAWARE_CLASS_LATENCY;
        prop_assert_eq!(waits_as != class, urgent && by_work);
        prop_assert!(!(by_work && waits_as == VAWARE_CLASS_LATENCY));
    }

    #[test]
    fn best_effort_is_what_the_policy_says_not_how_it_behaves(burst in 0..MINUTE_NS) {
        prop_assert_eq!(pure!(account_class(true, false, burst)), VAWARE_CLASS_BEST_EFFORT);
    }

    #[test]
    fn a_wait_lies_within_its_bucket(wait_ns in 0..20_000_000_000u64) {
        let bucket = pure!(account_wait_bucket(wait_ns));
        let us = wait_ns / 1000;
        prop_assert!(bucket < VAWARE_WAIT_BUCKETS);
        if bucket == 0 {
            prop_assert_eq!(us, 0);
        } else {
            prop_assert!(us >= 1 << (bucket - 1));
        }
        if bucket < VAWARE_WAIT_BUCKETS - 1 {
            prop_assert!(us < 1 << bucket);
        }
    }
}

#[test]
fn short_bursts_make_a_task_latency_sensitive() {
    unsafe {
        assert_eq!(account_class(false, false, 50_000), VAWARE_CLASS_LATENCY);
        assert_eq!(account_class(false, false, 5_000_000), VAWARE_CLASS_THROUGHPUT);
        assert_eq!(account_class(false, true, 5_000_000), VAWARE_CLASS_KERNEL);
    }
}

#[test]
fn the_longest_wait_has_a_bucket() {
    assert_eq!(pure!(account_wait_bucket(u64::MAX)), VAWARE_WAIT_BUCKETS - 1);
}
