// SPDX-License-Identifier: GPL-2.0-only
//! Properties of a policy on trial.

use policy_tests::*;
use proptest::prelude::*;

const EPOCH: u64 = 64_000_000;
/// Of a share, from epoch to epoch.
const NOISE: f64 = 0.01;
const OPEN: u32 = VAWARE_TRIAL_OPEN;
const WINS: u32 = VAWARE_TRIAL_WINS;
const LOSES: u32 = VAWARE_TRIAL_LOSES;
const MIN: u64 = 8 * EPOCH;
const MAX: u64 = 32 * EPOCH;

/// A trial through `epochs`, in which a task obtains these parts of the time, give or take a little. The
/// verdict at the end, and in how many epochs the policy was on.
fn trial(first: u64, epochs: u64, with: f64, without: f64, margin: u32) -> (u32, u64) {
    let mut arms = [vaware_trial_arm { part: 0, whole: 0 }; 2];
    let (mut verdict, mut nr_on) = (OPEN, 0);
    for epoch in first..first + epochs {
        let on = pure!(ivh_in_epoch(epoch, verdict));
        nr_on += u64::from(on);
        let swing = if epoch % 2 == 0 { NOISE } else { -NOISE };
        let share = if on { with } else { without } + swing;
        pure!(ivh_trial_add(&mut arms[usize::from(on)], (share * EPOCH as f64) as u64, EPOCH));
        verdict = pure!(trial_verdict(verdict, &arms[1], &arms[0], margin, MIN));
    }
    (verdict, nr_on)
}

proptest! {
    #[test]
    fn what_pays_is_soon_on(
        first in 0u64..1 << 40, without in 0.1..0.7f64, margin in 4u32..32,
    ) {
        let with = without * (1.1 + 1.0 / f64::from(margin)) + 2.0 * NOISE;
        let (verdict, nr_on) = trial(first, 200, with, without, margin);
        prop_assert_eq!(verdict, WINS);
        prop_assert!(nr_on > 100, "{nr_on} of 200 epochs");
    }

    #[test]
    fn what_loses_or_changes_nothing_is_soon_off(
        first in 0u64..1 << 40, without in 0.4..0.9f64, loss in 0.0..0.9f64, margin in 4u32..16,
    ) {
        let (verdict, nr_on) = trial(first, 640, without * (1.0 - loss), without, margin);
        prop_assert_eq!(verdict, LOSES);
        prop_assert!(nr_on < 64, "{nr_on} of 640 epochs");
    }

    #[test]
    fn what_was_remembered_gives_way_to_what_is(first in 0u64..1 << 40) {
        let mut arms = [vaware_trial_arm { part: 0, whole: 0 }; 2];
        let mut verdict = LOSES;
        (0..64).for_each(|_| pure!(ivh_trial_add(&mut arms[1], EPOCH / 4, EPOCH)));
        for epoch in first..first + 1500 {
            let on = pure!(ivh_in_epoch(epoch, verdict));
            let run_ns = if on { EPOCH } else { EPOCH / 2 };
            pure!(ivh_trial_add(&mut arms[usize::from(on)], run_ns, EPOCH));
            verdict = pure!(trial_verdict(verdict, &arms[1], &arms[0], 4, MIN));
        }
        prop_assert_eq!(verdict, WINS);
    }

    #[test]
    fn two_trials_draw_apart(first in 0u64..1 << 40) {
        let alike = |epoch: &u64| {
            pure!(ivh_in_epoch(*epoch, OPEN)) == pure!(rescue_in_epoch(*epoch, OPEN))
        };
        let nr_alike = (first..first + 1000).filter(alike).count();
        prop_assert!((350..650).contains(&nr_alike), "{nr_alike} of 1000 epochs");
    }

    #[test]
    fn a_share_is_one_and_memory_is_bounded(samples in prop::collection::vec((0u64..1 << 40, 0u64..1 << 36), 1..200)) {
        let mut arm = vaware_trial_arm { part: 0, whole: 0 };
        for (run_ns, wall_ns) in samples {
            pure!(ivh_trial_add(&mut arm, run_ns, wall_ns));
            prop_assert!(pure!(trial_share_1024(&arm)) <= 1024);
            prop_assert!(arm.whole <= 16 * EPOCH + (1 << 36));
        }
    }

    #[test]
    fn a_share_is_between_those_of_its_samples(
        samples in prop::collection::vec((0u64..1 << 40, 1..MAX / 4), 1..200),
    ) {
        let mut arm = vaware_trial_arm { part: 0, whole: 0 };
        let share = |(part, whole): &(u64, u64)| (u128::from(*part) * 1024 / u128::from(*whole)) as u64;
        for (part, whole) in &samples {
            pure!(trial_add(&mut arm, *part, *whole, MAX));
            prop_assert!(arm.whole <= MAX);
        }
        let (least, most) = (samples.iter().map(share).min(), samples.iter().map(share).max());
        let told = pure!(trial_share_1024(&arm));
        prop_assert!(least <= Some(told + 1) && Some(told) <= most.map(|most| most + 1));
    }
}
