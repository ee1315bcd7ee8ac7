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
const MAX: u64 = 32 * EPOCH;
const QUIET: u64 = 3_000_000_000;
/// One part in so many: a fifth.
const MARGIN: u32 = 5;

fn new_arm() -> vaware_trial_arm {
    vaware_trial_arm { part: 0, whole: 0, epochs: 0, last_epoch: 0 }
}

fn new_trial() -> vaware_trial {
    vaware_trial { with: new_arm(), without: new_arm(), stop_ns: 0, verdict: OPEN, busy: 0 }
}

/// `nr_tasks` obtain the part `share` of an epoch, at the end of which the trial is told.
fn epoch_ends(trial: &mut vaware_trial, epoch: u64, on: bool, share: f64, nr_tasks: u32) {
    if !pure!(ivh_trial_counts(trial.stop_ns, (epoch + 1) * EPOCH)) {
        return;
    }
    for _ in 0..nr_tasks {
        let arm = if on { &mut trial.with } else { &mut trial.without };
        pure!(ivh_trial_add(arm, (share * EPOCH as f64) as u64, EPOCH, epoch));
        trial.verdict = pure!(ivh_trial_verdict(trial, MARGIN));
    }
}

/// A trial through `epochs`, in which tasks obtain these parts of the time, give or take `noise`,
/// on a host that stops them. Returns in how many epochs ivh was on.
fn harvest(
    trial: &mut vaware_trial,
    epochs: std::ops::Range<u64>,
    with: f64,
    without: f64,
    noise: f64,
) -> u64 {
    let mut nr_on = 0;
    for epoch in epochs {
        let on = pure!(ivh_in_epoch(epoch, trial.verdict));
        nr_on += u64::from(on);
        pure!(ivh_trial_stop(trial, OPEN, epoch * EPOCH + 1));
        // Even over any few epochs, as by phases of the host.
        let swing = noise * ((epoch * 5 % 8) as f64 / 3.5 - 1.0);
        epoch_ends(trial, epoch, on, if on { with } else { without } + swing, 1 + epoch as u32 % 3);
    }
    nr_on
}

proptest! {
    #[test]
    fn what_pays_is_on_within_seconds(first in 1u64..1 << 40, without in 0.3..0.5f64, gain in 1.5..1.9f64) {
        let mut trial = new_trial();
        harvest(&mut trial, first..first + 40, without * gain, without, 0.05);
        prop_assert_eq!(trial.verdict, WINS);
        let nr_on = harvest(&mut trial, first + 40..first + 240, without * gain, without, 0.05);
        prop_assert!(nr_on > 160, "{} of 200 epochs", nr_on);
    }

    #[test]
    fn what_loses_or_changes_nothing_is_off_within_seconds(
        first in 1u64..1 << 40, without in 0.4..0.9f64, loss in 0.0..0.9f64,
    ) {
        let mut trial = new_trial();
        harvest(&mut trial, first..first + 40, without * (1.0 - loss), without, NOISE);
        prop_assert_eq!(trial.verdict, LOSES);
        let nr_on = harvest(&mut trial, first + 40..first + 680, without * (1.0 - loss), without, NOISE);
        prop_assert!(nr_on < 80, "{} of 640 epochs", nr_on);
    }

    #[test]
    fn a_host_that_stops_nobody_gives_no_verdict(first in 1u64..1 << 40, epochs in 1u64..400, share in 0.0..1.0f64) {
        let mut trial = new_trial();
        for epoch in first..first + epochs {
            epoch_ends(&mut trial, epoch, pure!(ivh_in_epoch(epoch, OPEN)), share, 4);
        }
        prop_assert_eq!(trial.verdict, OPEN);
        prop_assert_eq!(trial.with.epochs + trial.without.epochs, 0);
    }

    #[test]
    fn a_single_epoch_of_many_tasks_gives_no_verdict(first in 1u64..1 << 40, share in 0.0..1.0f64, nr_tasks in 1u32..64) {
        let mut trial = new_trial();
        pure!(ivh_trial_stop(&mut trial, OPEN, first * EPOCH));
        epoch_ends(&mut trial, first, true, share, nr_tasks);
        epoch_ends(&mut trial, first + 1, false, share, nr_tasks);
        prop_assert_eq!(trial.verdict, OPEN);
    }

    #[test]
    fn stops_after_a_quiet_time_begin_the_trial_anew(first in 1u64..1 << 40, gain in 0.5..2.0f64, quiet in 0..2 * QUIET) {
        let mut trial = new_trial();
        harvest(&mut trial, first..first + 60, 0.5 * gain, 0.5, NOISE);
        let (before, last) = (trial.verdict, trial.stop_ns);
        prop_assert_ne!(before, OPEN);
        pure!(ivh_trial_stop(&mut trial, OPEN, last + quiet));
        prop_assert_eq!(trial.verdict, if quiet < QUIET { before } else { OPEN });
        prop_assert_eq!(trial.with.epochs == 0, quiet >= QUIET);
    }

    #[test]
    fn of_a_loser_that_now_pays_it_is_seen(first in 1u64..1 << 40) {
        let mut trial = new_trial();
        harvest(&mut trial, first..first + 60, 0.4, 0.5, NOISE);
        prop_assert_eq!(trial.verdict, LOSES);
        harvest(&mut trial, first + 60..first + 560, 0.9, 0.5, NOISE);
        prop_assert_eq!(trial.verdict, WINS);
    }

    #[test]
    fn memory_of_epochs_is_bounded(samples in prop::collection::vec((0u64..1 << 40, 0u64..1 << 30), 1..200)) {
        let mut arm = new_arm();
        for (epoch, (run_ns, wall_ns)) in samples.into_iter().enumerate() {
            pure!(ivh_trial_add(&mut arm, run_ns, wall_ns, epoch as u64 + 1));
            prop_assert!(pure!(trial_share_1024(&arm)) <= 1024);
            prop_assert!(arm.epochs <= 16);
            prop_assert!(arm.whole <= 17 << 30);
        }
    }

    #[test]
    fn a_verdict_lasts_until_half_of_what_it_took_is_lost(
        without in 0.2..0.7f64, margin in 4u32..16,
    ) {
        let arm = |share: f64| vaware_trial_arm { part: (share * MAX as f64) as u64, whole: MAX, ..new_arm() };
        let verdict = |before, gain: f64| {
            pure!(trial_verdict(before, &arm(without * (1.0 + gain)), &arm(without), margin, MAX))
        };
        let gain = 1.0 / f64::from(margin);
        prop_assert_eq!(verdict(OPEN, 1.1 * gain + 0.01), WINS);
        prop_assert_eq!(verdict(OPEN, 0.9 * gain - 0.01), LOSES);
        prop_assert_eq!(verdict(WINS, 0.55 * gain + 0.01), WINS);
        prop_assert_eq!(verdict(WINS, 0.45 * gain - 0.01), LOSES);
        prop_assert_eq!(pure!(trial_verdict(OPEN, &arm(1.0), &arm(0.1), margin, MAX + 1)), OPEN);
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
    fn a_share_is_between_those_of_its_samples(
        samples in prop::collection::vec((0u64..1 << 40, 1..MAX / 4), 1..200),
    ) {
        let mut arm = new_arm();
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
