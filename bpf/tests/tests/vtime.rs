// SPDX-License-Identifier: GPL-2.0-only
//! Properties of weighted virtual time.

use policy_tests::*;
use proptest::prelude::*;

const SLICE_NS: u64 = 3_000_000;
const LAG_MAX_NS: u64 = SLICE_NS;
const HOUR_NS: u64 = 3_600_000_000_000;

fn weight() -> impl Strategy<Value = u32> {
    (1..=10_000u32).prop_map(|weight| weight * WEIGHT_PARTS)
}

proptest! {
    #[test]
    fn time_runs_slower_for_heavier_tasks(run_ns in 0..HOUR_NS, light in weight(), more in 1..5_000u32) {
        let heavy = light + more;
        prop_assert!(pure!(vtime_of_run(run_ns, heavy) <= vtime_of_run(run_ns, light)));
    }

    #[test]
    fn a_nice_0_task_ages_in_real_time(run_ns in 0..HOUR_NS) {
        prop_assert_eq!(pure!(vtime_of_run(run_ns, WEIGHT_NICE_0)), run_ns);
    }

    #[test]
    fn twice_the_weight_gets_twice_the_time(share_ns in 1_000_000..HOUR_NS, weight in 1..5_000 * WEIGHT_PARTS) {
        let (one, two) = pure!((vtime_of_run(share_ns, weight), vtime_of_run(2 * share_ns, 2 * weight)));
        prop_assert!(one.abs_diff(two) <= 1);
    }

    #[test]
    fn a_move_keeps_the_lag(vtime: u64, from: u64, to: u64) {
        let moved = pure!(vtime_rebase(vtime, from, to));
        prop_assert_eq!(vtime.wrapping_sub(from), moved.wrapping_sub(to));
    }

    #[test]
    fn a_move_there_and_back_changes_nothing(vtime: u64, here: u64, there: u64) {
        let back = pure!(vtime_rebase(vtime_rebase(vtime, here, there), there, here));
        prop_assert_eq!(back, vtime);
    }

    #[test]
    fn sleep_buys_at_most_the_lag(vclock: u64, behind in 0..HOUR_NS, lag_max in 0..HOUR_NS) {
        let entered = pure!(vtime_enter(vclock.wrapping_sub(behind), vclock, lag_max));
        prop_assert_eq!(vclock.wrapping_sub(entered), behind.min(lag_max));
    }

    #[test]
    fn what_a_task_makes_up_for_is_bounded_in_virtual_and_in_run_time(weight: u32) {
        let lag_ns = pure!(vtime_lag_max(weight));
        prop_assert!(lag_ns <= u64::from(LAG_SHARES_MAX_NS));
        let run_ns = u128::from(lag_ns) * u128::from(weight) / u128::from(WEIGHT_NICE_0);
        prop_assert!(run_ns <= u128::from(LAG_SHARES_RUN_NS));
    }

    #[test]
    fn a_debt_is_not_forgiven(vclock: u64, ahead in 0..HOUR_NS, lag_max in 0..HOUR_NS) {
        let vtime = vclock.wrapping_add(ahead);
        prop_assert_eq!(pure!(vtime_enter(vtime, vclock, lag_max)), vtime);
    }

    #[test]
    fn a_reader_goes_before_all_others(vclock: u64, behind in 0..HOUR_NS, weight in weight()) {
        let entered = pure!(vtime_enter(vclock.wrapping_sub(behind), vclock, LAG_MAX_NS));
        let other = pure!(vtime_deadline(entered, weight, LAG_MAX_NS));
        prop_assert!(pure!(vtime_before(vtime_reader_deadline(vclock), other)));
    }

    #[test]
    fn who_was_overdue_goes_before_those_in_turn_and_after_who_is_behind(
        vclock: u64, ahead in 0..HOUR_NS, weight in weight(),
    ) {
        let overdue = pure!(vtime_overdue_deadline(vclock));
        let in_turn = pure!(vtime_deadline(vclock.wrapping_add(ahead), weight, SLICE_NS));
        prop_assert!(pure!(vtime_before(overdue, in_turn)));
        let entered = pure!(vtime_enter(vclock.wrapping_sub(ahead + LAG_MAX_NS), vclock, LAG_MAX_NS));
        let behind = pure!(vtime_deadline(entered, weight.max(WEIGHT_NICE_0), SLICE_NS));
        prop_assert!(!pure!(vtime_before(overdue, behind)));
    }

    #[test]
    fn order_survives_the_wrap(at: u64, later in 1..HOUR_NS) {
        prop_assert!(pure!(vtime_before(at, at.wrapping_add(later))));
        prop_assert!(!pure!(vtime_before(at.wrapping_add(later), at)));
    }
}
