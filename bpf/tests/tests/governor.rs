// SPDX-License-Identifier: GPL-2.0-only
//! Properties of the governor.

use policy_tests::*;
use proptest::prelude::*;

const EPOCH: u64 = 64_000_000;
const OPEN: u64 = VAWARE_TRIAL_OPEN as u64;
const WINS: u64 = VAWARE_TRIAL_WINS as u64;
const LOSES: u64 = VAWARE_TRIAL_LOSES as u64;
const PROGRESS: usize = VAWARE_OUTCOME_PROGRESS as usize;
const WAIT: usize = VAWARE_OUTCOME_WAIT as usize;
const BVS: u32 = VAWARE_POLICY_BVS.trailing_zeros();
const IVH: u32 = VAWARE_POLICY_IVH.trailing_zeros();
const RESCUE: u32 = VAWARE_POLICY_RESCUE.trailing_zeros();
const RESERVE: u32 = VAWARE_POLICY_RESERVE.trailing_zeros();
const NR_POLICIES: u32 = VAWARE_NR_POLICIES;
const WAKES: u64 = 100;

/// What epochs are like: the share of the time that tasks obtain and how long they wait, without a
/// policy, and how many times that with it; and by how much both vary from epoch to epoch.
#[derive(Clone, Copy, Debug)]
struct Host {
    share: f64,
    gain: f64,
    wait_us: f64,
    wait_times: f64,
    noise: f64,
}

const EVEN: Host = Host { share: 0.5, gain: 1.0, wait_us: 300.0, wait_times: 1.0, noise: 0.05 };

/// A trial in service, and the random numbers of its host.
struct Service {
    trial: vaware_trial,
    index: u32,
    exact: bool,
    epoch: u64,
    random: u64,
}

impl Service {
    fn begin(index: u32, seed: u64) -> Self {
        let trial = vaware_trial { verdict: OPEN, prior: OPEN, ..vaware_trial::default() };
        Self { trial, index, exact: true, epoch: seed, random: seed | 1 }
    }

    /// Uniform in -1 to 1.
    fn dice(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random as f64 / u64::MAX as f64 * 2.0 - 1.0
    }

    /// So many draws on `host`, each for an epoch, or for several. Returns after how many the policy
    /// was on.
    fn serve(&mut self, draws: u64, host: Host) -> u64 {
        let hold_log2 = pure!(governed_of(self.index, self.exact)).hold_log2;
        self.serve_epochs(draws << hold_log2, host) >> hold_log2
    }

    /// So many epochs on `host`. Returns in how many the policy was on.
    fn serve_epochs(&mut self, epochs: u64, host: Host) -> u64 {
        let how = pure!(governed_of(self.index, self.exact));
        let mut nr_on = 0;
        for _ in 0..epochs {
            self.epoch += 1;
            let on = pure!(governor_is_on(&how, self.epoch, self.trial.verdict as u32));
            nr_on += u64::from(on);
            let swing = (host.noise * (self.dice() + self.dice())).exp();
            let share = (host.share * if on { host.gain } else { 1.0 } * swing).min(1.0);
            let wait_us = host.wait_us * if on { host.wait_times } else { 1.0 } * swing;
            let run_ns = (share * EPOCH as f64) as u64;
            let sums = governor_sums {
                run_ns,
                lost_ns: EPOCH - run_ns,
                wait_ns: (wait_us * 1e3) as u64 * WAKES,
                wakes: WAKES,
                late_ns: 0,
                moves: 0,
                shootdown_ns: 0,
                acts: [1; NR_POLICIES as usize],
            };
            pure!(governor_take(&mut self.trial, on, &sums, &how));
            self.trial.verdict = u64::from(pure!(governor_verdict(&self.trial, &how)));
        }
        nr_on
    }
}

/// Draws until it is known of a policy whether it does harm: the fewer are without it, the more.
fn enough(index: u32) -> u64 {
    let without_64 = 64 - pure!(governed_of(index, true)).open_64;
    if without_64 < 8 { 640 } else { 160 }
}

fn mean(epochs: &vaware_epochs) -> u64 {
    epochs.sum / epochs.weight
}

fn arm(logs: &[u64]) -> vaware_epochs {
    let mut epochs = vaware_epochs::default();
    for log_256 in logs {
        pure!(governor_add(&mut epochs, *log_256, 1000));
    }
    epochs
}

/// The logarithm of the progress in an epoch in which tasks ran for `run_ns`, moved so often, and
/// waited at shootdowns for `shootdown_ns` of it.
fn progress_256(run_ns: u64, moves: u64, shootdown_ns: u64) -> u64 {
    let mut trial = Service::begin(IVH, 1).trial;
    let acts = [1; NR_POLICIES as usize];
    let lost_ns = EPOCH - run_ns;
    let sums = governor_sums {
        run_ns,
        lost_ns,
        wait_ns: 0,
        wakes: 0,
        late_ns: 0,
        moves,
        shootdown_ns,
        acts,
    };
    pure!(governor_take(&mut trial, true, &sums, &governed_of(IVH, true)));
    mean(&trial.arms[1][PROGRESS])
}

proptest! {
    #[test]
    fn a_wait_at_a_shootdown_counts_as_time_that_was_not_obtained(
        run in 0..EPOCH, wait in 0..2 * EPOCH,
    ) {
        prop_assert_eq!(progress_256(run, 0, wait), progress_256(run.saturating_sub(wait), 0, 0));
    }

    #[test]
    fn a_move_counts_as_time_that_was_not_obtained(run in 0..EPOCH, moves in 0..1000u64) {
        let left = run.saturating_sub(moves * u64::from(MOVE_NS));
        prop_assert_eq!(progress_256(run, moves, 0), progress_256(left, 0, 0));
    }

    #[test]
    fn harvesting_that_pays_is_on_within_seconds(
        seed in 1u64..1 << 40, gain in 1.5..1.9f64, noise in 0.0..0.15f64, exact: bool,
    ) {
        let mut service = Service { exact, ..Service::begin(IVH, seed) };
        service.serve(40, Host { gain, noise, ..EVEN });
        prop_assert_eq!(service.trial.verdict, WINS);
        let nr_on = service.serve(200, Host { gain, noise, ..EVEN });
        prop_assert!(nr_on > 160, "{} of 200 epochs", nr_on);
    }

    #[test]
    fn by_late_beats_a_small_gain_of_harvesting_is_none(seed in 1u64..1 << 40, gain in 0.9..1.12f64) {
        let mut service = Service { exact: false, ..Service::begin(IVH, seed) };
        service.serve(160, Host { gain, ..EVEN });
        prop_assert_eq!(service.trial.verdict, LOSES);
    }

    #[test]
    fn what_has_to_win_and_changes_nothing_is_off_within_seconds(seed in 1u64..1 << 40, loss in 0.0..0.9f64, which: bool) {
        let index = if which { IVH } else { RESCUE };
        let mut service = Service::begin(index, seed);
        let host = Host { gain: 1.0 - loss, wait_times: 1.0 + loss, ..EVEN };
        service.serve(160, host);
        prop_assert_eq!(service.trial.verdict, LOSES);
        let nr_on = service.serve(640, host);
        prop_assert!(nr_on < 80, "{} of 640 epochs", nr_on);
    }

    #[test]
    fn what_does_harm_is_off_within_seconds(
        seed in 1u64..1 << 40, index in 0..NR_POLICIES, harm in 1.3..5.0f64, noise in 0.0..0.1f64, waits: bool,
    ) {
        let mut service = Service::begin(index, seed);
        let host = if waits {
            Host { wait_times: harm, noise, ..EVEN }
        } else {
            Host { gain: 1.0 / harm, noise, ..EVEN }
        };
        service.serve(enough(index), host);
        prop_assert_eq!(service.trial.verdict, LOSES);
        let nr_on = service.serve(640, host);
        prop_assert!(nr_on < 80, "{} of 640 epochs", nr_on);
    }

    #[test]
    fn a_vcpu_is_kept_free_where_that_halves_the_wait_for_less_than_half_of_the_work(
        seed in 1u64..1 << 40, wait_times in 0.05..0.45f64, gain in 0.55..1.0f64,
    ) {
        let mut service = Service::begin(RESERVE, seed);
        service.serve(40, Host { gain, wait_times, ..EVEN });
        prop_assert_eq!(service.trial.verdict, WINS);
        let nr_on = service.serve(200, Host { gain, wait_times, ..EVEN });
        prop_assert!(nr_on > 180, "{} of 200 times", nr_on);
    }

    #[test]
    fn none_is_kept_free_for_a_smaller_gain_or_a_greater_loss(
        seed in 1u64..1 << 40, wait_times in 0.55..1.0f64, gain in 0.1..0.35f64, which: bool,
    ) {
        let mut service = Service::begin(RESERVE, seed);
        let host = if which { Host { wait_times, ..EVEN } } else { Host { gain, ..EVEN } };
        service.serve(40, host);
        prop_assert_eq!(service.trial.verdict, LOSES);
    }

    #[test]
    fn an_epoch_is_full_if_work_wants_all_vcpus_but_one(vcpus in 2u32..500, run in 0.0..1.0f64) {
        let full = |vcpus_worth: f64| {
            let wanted_ns = (vcpus_worth * EPOCH as f64) as u64;
            let run_ns = (run * wanted_ns as f64) as u64;
            let (lost_ns, acts) = (wanted_ns - run_ns, [0; NR_POLICIES as usize]);
            let sums = governor_sums { run_ns, lost_ns, wait_ns: 0, wakes: 0, late_ns: 0, moves: 0, shootdown_ns: 0, acts };
            pure!(governor_full(&sums, vcpus))
        };
        prop_assert!(full(f64::from(vcpus)) && full(f64::from(vcpus - 1)));
        prop_assert!(!full(f64::from(vcpus - 1) * 0.8) && !full(0.0));
    }

    #[test]
    fn a_late_timer_is_a_wait_to_the_reserve_only(late in 0u64..1 << 40, index in 0..NR_POLICIES) {
        let wait_256 = |late_ns| {
            let mut trial = Service::begin(index, 1).trial;
            let acts = [1; NR_POLICIES as usize];
            let sums = governor_sums { run_ns: 0, lost_ns: 0, wait_ns: WAKES, wakes: WAKES, late_ns, moves: 0, shootdown_ns: 0, acts };
            pure!(governor_take(&mut trial, true, &sums, &governed_of(index, true)));
            mean(&trial.arms[1][WAIT])
        };
        let counted = if index == RESERVE { late / WAKES } else { 0 };
        prop_assert_eq!(wait_256(late), pure!(governor_log_256(1 + counted + 1)));
    }

    #[test]
    fn what_does_no_harm_stays_on(seed in 1u64..1 << 40, noise in 0.0..0.3f64, gain in 1.0..2.0f64) {
        let mut service = Service::begin(BVS, seed);
        let nr_on = service.serve(1000, Host { gain, wait_times: 1.0 / gain, noise, ..EVEN });
        prop_assert!(nr_on > 700, "{} of 1000 epochs", nr_on);
    }

    #[test]
    fn of_a_loser_that_now_pays_it_is_seen(seed in 1u64..1 << 40, index in 0..NR_POLICIES) {
        let mut service = Service::begin(index, seed);
        service.serve(enough(index), Host { gain: 0.6, wait_times: 1.8, ..EVEN });
        prop_assert_eq!(service.trial.verdict, LOSES);
        service.serve(1000, Host { gain: 1.8, wait_times: 0.4, ..EVEN });
        prop_assert_ne!(service.trial.verdict, LOSES);
    }

    #[test]
    fn a_few_epochs_give_no_verdict(seed in 1u64..1 << 40, index in 0..NR_POLICIES, gain in 0.1..1.9f64) {
        let mut service = Service::begin(index, seed);
        service.serve_epochs(4, Host { gain, ..EVEN });
        prop_assert_eq!(service.trial.verdict, OPEN);
    }

    #[test]
    fn an_epoch_with_next_to_no_work_is_none(run_ns in 0..EPOCH / 32, lost_ns in 0..EPOCH / 32, wakes in 0u64..8, on: bool) {
        let mut service = Service::begin(IVH, 1);
        let sums = governor_sums { run_ns, lost_ns, wait_ns: 1 << 30, wakes, late_ns: 0, moves: 0, shootdown_ns: 0, acts: [1; NR_POLICIES as usize] };
        pure!(governor_take(&mut service.trial, on, &sums, &governed_of(IVH, true)));
        prop_assert_eq!(service.trial.arms[usize::from(on)][PROGRESS].weight, 0);
        prop_assert_eq!(service.trial.arms[usize::from(on)][WAIT].weight, 0);
    }

    #[test]
    fn epochs_with_little_to_do_change_no_verdict(
        seed in 1u64..1 << 40, run_ns in 0..EPOCH / 16, lost_ns in EPOCH / 16..EPOCH / 8, gain in 1.5..1.9f64, on: bool, exact: bool,
    ) {
        let mut service = Service { exact, ..Service::begin(IVH, seed) };
        service.serve(60, Host { gain, ..EVEN });
        prop_assert_eq!(service.trial.verdict, WINS);
        let sums = governor_sums { run_ns, lost_ns, wait_ns: 0, wakes: 0, late_ns: 0, moves: 0, shootdown_ns: 0, acts: [1; NR_POLICIES as usize] };
        let how = pure!(governed_of(IVH, exact));
        for _ in 0..4 {
            pure!(governor_take(&mut service.trial, on, &sums, &how));
        }
        prop_assert_eq!(u64::from(pure!(governor_verdict(&service.trial, &how))), WINS);
    }

    #[test]
    fn an_epoch_counts_by_its_weight(weights in prop::collection::vec(100u64..10_000, 1..20), log in 1000u64..4000) {
        let mut epochs = vaware_epochs::default();
        for weight in &weights {
            pure!(governor_add(&mut epochs, log, *weight));
        }
        prop_assert!((1..=weights.len() as u64).contains(&epochs.count));
        prop_assert!(mean(&epochs).abs_diff(log) <= 1);
    }

    #[test]
    fn epochs_of_nearly_equal_weight_count_each(weights in prop::collection::vec(900u64..1100, 1..23)) {
        let mut epochs = vaware_epochs::default();
        for weight in &weights {
            pure!(governor_add(&mut epochs, 2000, *weight));
        }
        prop_assert_eq!(epochs.count, weights.len() as u64);
    }

    #[test]
    fn a_policy_that_does_nothing_is_not_judged(epoch in 1u64..1 << 40, since in 0u64..200) {
        let mut trial = Service::begin(IVH, 1).trial;
        prop_assert!(!pure!(governor_counts(&trial, epoch)));
        trial.acted_epoch = epoch;
        prop_assert_eq!(pure!(governor_counts(&trial, epoch + since)), since <= 64);
    }

    #[test]
    fn an_earlier_verdict_holds_until_there_are_epochs_of_both_kinds(seed in 1u64..1 << 40, index in 0..NR_POLICIES) {
        for prior in [WINS, LOSES] {
            let mut service = Service::begin(index, seed);
            service.trial.prior = prior;
            pure!(governor_begin(&mut service.trial));
            service.serve_epochs(3, EVEN);
            prop_assert_eq!(service.trial.verdict, prior);
        }
    }

    #[test]
    fn who_seems_to_win_by_chance_goes_on(
        seed in 1u64..1 << 40, index in prop::sample::select(vec![RESCUE, RESERVE]), extra in 0u64..200, short in 1u64..100,
    ) {
        let how = pure!(governed_of(index, true));
        let verdict = |gain_256: u64| {
            let mut trial = Service::begin(index, seed).trial;
            // Epochs differ by eight octaves: no mean is sure.
            let swing = |epoch: u64| 2000 * (epoch % 2);
            trial.arms[0][WAIT] = arm(&(0..22).map(|epoch| 2000 + gain_256 + swing(epoch)).collect::<Vec<_>>());
            trial.arms[1][WAIT] = arm(&(0..22).map(|epoch| 2000 + swing(epoch)).collect::<Vec<_>>());
            u64::from(pure!(governor_verdict(&trial, &how)))
        };
        prop_assert_eq!(verdict(u64::from(how.gain_256) + extra), OPEN);
        prop_assert_eq!(verdict(u64::from(how.gain_256) - short.min(u64::from(how.gain_256))), LOSES);
    }

    #[test]
    fn logarithms_are_those_of_mathematics(value in 1u64..1 << 55) {
        let log = pure!(governor_log_256(value)) as f64 / 256.0;
        prop_assert!((log - (value as f64).log2()).abs() < 0.09, "{} of {}", log, value);
        prop_assert!(pure!(governor_log_256(value + 1 + value / 64)) > pure!(governor_log_256(value)));
    }

    #[test]
    fn memory_of_epochs_is_bounded_and_their_mean_among_them(logs in prop::collection::vec(0u64..16_384, 1..300)) {
        let epochs = arm(&logs);
        prop_assert!(epochs.count <= 24);
        prop_assert!(mean(&epochs) <= *logs.iter().max().unwrap_or(&0));
        prop_assert!(pure!(governor_error_sq(&epochs)) <= 16_384 * 16_384);
    }

    #[test]
    fn two_policies_draw_apart(first in 0u64..1 << 40, one in 0..NR_POLICIES, two in 0..NR_POLICIES) {
        prop_assume!(one != two);
        let half = |index| governed { open_64: 32, hold_log2: 0, ..pure!(governed_of(index, true)) };
        let is_on = |how: &governed, epoch| pure!(governor_is_on(how, epoch, OPEN as u32));
        let (one, two) = (half(one), half(two));
        let nr_alike = (first..first + 1000).filter(|epoch| is_on(&one, *epoch) == is_on(&two, *epoch)).count();
        prop_assert!((350..650).contains(&nr_alike), "{nr_alike} of 1000 epochs");
    }

    #[test]
    fn sums_since_are_differences(run in 0u64..1 << 40, more in 0u64..1 << 40) {
        let sums = |n: u64| governor_sums { run_ns: n, lost_ns: 2 * n, wait_ns: 3 * n, wakes: n, late_ns: n, moves: n, shootdown_ns: n, acts: [n; NR_POLICIES as usize] };
        let (mut now, mut before) = (sums(run + more), sums(run));
        pure!(governor_since(&mut now, &mut before));
        prop_assert_eq!((now.run_ns, now.lost_ns, now.wait_ns, now.wakes), (more, 2 * more, 3 * more, more));
        prop_assert_eq!((now.late_ns, now.moves, now.shootdown_ns), (more, more, more));
        prop_assert_eq!(now.acts, [more; NR_POLICIES as usize]);
        prop_assert_eq!(before.lost_ns, 2 * (run + more));
    }
}

const HOUR: u64 = 3_600_000_000_000 / EPOCH;

/// How often the governor errs where a policy changes nothing, and how long it takes to switch off
/// what does harm. `cargo test -p policy-tests --test governor -- --nocapture` prints it, for
/// docs/decisions.md.
#[test]
fn errors_are_few_and_harm_ends_soon() {
    for noise in [0.02, 0.1, 0.3] {
        let (mut verdicts, mut off) = (0, 0);
        for seed in 1..=8 {
            let mut service = Service::begin(BVS, seed * 977);
            let mut before = OPEN;
            for _ in 0..HOUR {
                off += 1 - service.serve(1, Host { noise, ..EVEN });
                verdicts += u32::from(service.trial.verdict != before);
                before = service.trial.verdict;
            }
        }
        println!(
            "noise {noise}: {} false verdicts an hour, off for {:.1} % of the time",
            f64::from(verdicts) / 8.0,
            off as f64 * 100.0 / (8 * HOUR) as f64
        );
        assert!(verdicts <= 8 && off < 8 * HOUR / 6, "noise {noise}: {verdicts}, {off}");
        for harm in [1.2, 1.5, 2.0] {
            let mut epochs: Vec<_> = (1..=99)
                .map(|seed| {
                    let mut service = Service::begin(BVS, seed * 977);
                    let host = Host { wait_times: harm, noise, ..EVEN };
                    (1..1000).find(|_| {
                        service.serve(1, host);
                        service.trial.verdict == LOSES
                    })
                })
                .map(|epochs| epochs.unwrap_or(1000))
                .collect();
            epochs.sort_unstable();
            println!("  waits {harm} times as long: off after {} epochs (median)", epochs[49]);
            assert!(harm < 1.5 || epochs[49] < 400, "{harm}: {epochs:?}");
        }
    }
}
