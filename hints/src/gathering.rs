// SPDX-License-Identifier: GPL-2.0-only
//! How many vCPUs work of short bursts keeps to (Gleaner, section 5). The fewer they are, the less
//! often one has to be woken, until tasks wait for each other. The paper's two conditions say
//! whether to try fewer; whether that was right is judged by how long wakees wait, against all open.

use crate::pace::Pace;

/// Below so many usable vCPUs all stay open: a step is a quarter of them.
const VCPUS_MIN: usize = 4;
/// Work that wakes less often has little to gain.
const WAKES_PER_S_MIN: f64 = 500.0;
/// Bursts from which the scheduler takes a task for CPU-bound: those gain nothing.
const BURST_MAX_NS: f64 = 3e6;
/// Of wake-ups in large bursts all targets are wanted at the same time, as behind a barrier.
const TOGETHER_RATIO_MAX: f64 = 0.5;
/// The wait may grow by one part in so many: a mean of a second is no better than that.
const MARGIN: f64 = 8.0;
/// If more wake-ups find no open vCPU, or those are busier, there are too few of them.
const SPILLED_RATIO_MAX: f64 = 0.125;
const BUSY_RATIO_MAX: f64 = 0.9;
/// Work has changed if it is busy for a fifth more or less, or its bursts double or halve (the paper).
const BUSY_CHANGE: f64 = 1.2;
const BURST_CHANGE: f64 = 2.0;
/// Changes that are less of the open vCPUs' time can be anybody's: a scrape, a timer, a probe.
const BUSY_NOISE_RATIO: f64 = 0.05;
/// Half-life of what was learnt from a step that was undone, in rounds of a second.
const HALF_LIFE_ROUNDS: f64 = 8.0;
/// Undone steps in a row that count: a minute until the next one.
const UNDONE_MAX: i32 = 8;
/// Rounds until the wait with all open is looked at again.
const ROUNDS_PER_LOOK: u32 = 32;

/// The number of open vCPUs, from round to round.
#[derive(Clone, Debug)]
pub struct Gathering {
    /// Usable vCPUs, and those of them that are open.
    usable: usize,
    open: usize,
    /// The paper's load factor and granularity factor, 0 to 1.
    rho: f64,
    eta: f64,
    /// Undone steps in a row.
    undone: i32,
    /// The last round with all open.
    all_open: Option<Pace>,
    /// The first whole round with as many open as at present.
    settled: Option<Pace>,
    /// Rounds with fewer than all open.
    rounds: u32,
}

impl Default for Gathering {
    fn default() -> Self {
        Self {
            usable: 0,
            open: 0,
            rho: 1.0,
            eta: 1.0,
            undone: 0,
            all_open: None,
            settled: None,
            rounds: 0,
        }
    }
}

impl Gathering {
    /// How many of the `usable` vCPUs are open in the next round, after one that went as `pace` says.
    pub fn round(&mut self, usable: usize, pace: &Pace) -> usize {
        self.rho = recovered(self.rho);
        self.eta = recovered(self.eta);
        if usable != self.usable || usable < VCPUS_MIN || pace.wakes_per_s < WAKES_PER_S_MIN {
            self.usable = usable;
            self.undone = 0;
            self.reopen();
        } else if self.open == usable {
            self.all_open = Some(*pace);
            self.narrow(pace);
        } else if self.is_worse(pace) {
            self.undo(pace);
        } else if self.has_changed(pace) || self.rounds >= ROUNDS_PER_LOOK {
            self.reopen();
        } else {
            self.rounds += 1;
            self.settled.get_or_insert(*pace);
            self.undone = 0;
            self.narrow(pace);
        }
        self.open
    }

    /// The load factor and the granularity factor at present.
    pub fn factors(&self) -> (f64, f64) {
        (self.rho, self.eta)
    }

    fn step(&self) -> usize {
        (self.usable / VCPUS_MIN).max(1)
    }

    /// Close a step's vCPUs if the others have time for their work, in pieces that fit.
    fn narrow(&mut self, pace: &Pace) {
        let left = self.open.saturating_sub(self.step());
        let fits = left > 0
            && self.load(self.open as f64 * pace.busy_ratio()) <= self.rho
            && pace.burst_ns <= (self.eta * pace.idle_ns).min(BURST_MAX_NS)
            && pace.together_ratio < TOGETHER_RATIO_MAX;
        if fits {
            self.open = left;
            self.settled = None;
        }
    }

    /// The work of a step's vCPUs as a part of the idle time of those that would be left: what has to
    /// be below rho. `work` is how many vCPUs would do all of it without a break.
    fn load(&self, work: f64) -> f64 {
        let left = self.open.saturating_sub(self.step()) as f64;
        let busy_ratio = work / self.open as f64;
        self.step() as f64 * busy_ratio / (left * (1.0 - busy_ratio)).max(f64::MIN_POSITIVE)
    }

    fn is_worse(&self, pace: &Pace) -> bool {
        let before_ns = self.all_open.map_or(f64::MAX, |pace| pace.wait_ns);
        pace.wait_ns > before_ns * (1.0 + 1.0 / MARGIN)
            || pace.spilled_ratio > SPILLED_RATIO_MAX
            || pace.busy_ratio() > BUSY_RATIO_MAX
    }

    fn has_changed(&self, pace: &Pace) -> bool {
        let changed = |now: f64, then: f64, times: f64| now > then * times || now * times < then;
        self.settled.is_some_and(|then| {
            let (busy, before) = (pace.busy_ratio(), then.busy_ratio());
            changed(busy, before, BUSY_CHANGE) && (busy - before).abs() > BUSY_NOISE_RATIO
                || changed(pace.burst_ns, then.burst_ns, BURST_CHANGE)
        })
    }

    /// Undo the last step. What is to blame is not tried again for some rounds, the more the more
    /// often it was.
    fn undo(&mut self, pace: &Pace) {
        let work = self.open as f64 * pace.busy_ratio();
        self.undone = (self.undone + 1).min(UNDONE_MAX);
        let less = 0.5f64.powi(self.undone);
        self.open = (self.open + self.step()).min(self.usable);
        self.settled = None;
        if pace.busy_ratio() > BUSY_RATIO_MAX && pace.idle_ns > 0.0 {
            self.eta = less * self.eta.min(pace.burst_ns / pace.idle_ns);
        } else {
            // Work may have begun or grown since the step: not so little was too much.
            let before = self.all_open.map_or(0.0, |pace| self.usable as f64 * pace.busy_ratio());
            let blamed = self.load(work.max(before)).max(f64::MIN_POSITIVE);
            self.rho = less * self.rho.min(blamed);
        }
    }

    fn reopen(&mut self) {
        (self.open, self.settled, self.rounds) = (self.usable, None, 0);
    }
}

/// A factor a round later: it doubles every half-life, up to 1.
fn recovered(factor: f64) -> f64 {
    (factor * 2f64.powf(1.0 / HALF_LIFE_ROUNDS)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const N: usize = 16;

    /// Work that a vCPU in three could do, in short bursts.
    fn light() -> Pace {
        Pace {
            wakes_per_s: 1e5,
            wait_ns: 4e4,
            burst_ns: 2e4,
            computing_ns: 2e4,
            idle_ns: 4e4,
            ..Pace::default()
        }
    }

    /// The numbers of open vCPUs of so many rounds, if each goes as `pace` says of the number open.
    fn rounds(
        gathering: &mut Gathering,
        number: usize,
        pace: impl Fn(usize) -> Pace,
    ) -> Vec<usize> {
        let mut open = N;
        (0..number)
            .map(|_| {
                open = gathering.round(N, &pace(open));
                open
            })
            .collect()
    }

    prop_compose! {
        fn any_pace()(
            wakes_per_s in 0.0..1e6f64, wait_ns in 0.0..1e7f64, burst_ns in 0.0..1e7f64,
            computing_ns in 0.0..1e7f64, idle_ns in 0.0..1e7f64, ratios in prop::array::uniform3(0.0..1.0f64),
        ) -> Pace {
            let [together_ratio, spilled_ratio, steal_ratio] = ratios;
            Pace {
                wakes_per_s, wait_ns, burst_ns, computing_ns, idle_ns, together_ratio, spilled_ratio,
                steal_ratio, ..Pace::default()
            }
        }
    }

    proptest! {
        #[test]
        fn some_are_always_open_and_small_vms_are_left_alone(
            seen in prop::collection::vec((any_pace(), 1usize..40), 1..200),
        ) {
            let mut gathering = Gathering::default();
            for (pace, usable) in seen {
                let open = gathering.round(usable, &pace);
                prop_assert!((1..=usable).contains(&open));
                prop_assert!(usable >= VCPUS_MIN || open == usable);
                let (rho, eta) = gathering.factors();
                prop_assert!(rho > 0.0 && rho <= 1.0 && (0.0..=1.0).contains(&eta));
            }
        }

        #[test]
        fn the_first_step_needs_both_of_the_papers_conditions(pace in any_pace()) {
            let open = *rounds(&mut Gathering::default(), 2, |_| pace).last().unwrap_or(&0);
            let (step, left) = (4.0, 12.0);
            let fits = pace.wakes_per_s >= 500.0
                && step * pace.computing_ns <= left * pace.idle_ns
                && pace.burst_ns <= pace.idle_ns.min(3e6)
                && pace.together_ratio < 0.5;
            prop_assert_eq!(open < N, fits);
        }
    }

    #[test]
    fn light_work_is_gathered_step_by_step() {
        let mut gathering = Gathering::default();
        // The same work on fewer vCPUs: those are busier, and wakees wait less.
        let seen = rounds(&mut gathering, 12, |open| {
            let busy_ratio = (N as f64 / 3.0 / open as f64).min(1.0);
            let (computing_ns, idle_ns) = (6e4 * busy_ratio, 6e4 * (1.0 - busy_ratio));
            Pace { wait_ns: 2e3 * open as f64, computing_ns, idle_ns, ..light() }
        });
        assert_eq!(seen[..5], [16, 12, 8, 8, 8], "a third of 16 does not fit on 4");
        assert!(seen[5..].iter().all(|&open| open == 8));
    }

    #[test]
    fn a_step_that_makes_wakees_wait_is_undone_and_not_taken_again_for_a_while() {
        let mut gathering = Gathering::default();
        let slower = |open| Pace { wait_ns: if open < N { 8e4 } else { 4e4 }, ..light() };
        let seen = rounds(&mut gathering, 200, slower);
        assert_eq!(seen[..3], [16, 12, 16]);
        assert!(seen[3..9].iter().all(|&open| open == N), "{seen:?}");
        let narrow = |part: &[usize]| part.iter().filter(|&&open| open < N).count();
        assert!(narrow(&seen) <= 12, "{seen:?}");
        assert!(narrow(&seen[100..]) >= 1, "it recovers");
    }

    #[test]
    fn work_that_begins_is_no_proof_against_all_steps() {
        let mut gathering = Gathering::default();
        let nearly_none = Pace { computing_ns: 4e2, ..light() };
        assert_eq!(rounds(&mut gathering, 2, |_| nearly_none), [16, 12]);
        assert_eq!(gathering.round(N, &Pace { wait_ns: 8e4, ..light() }), N);
        let seen = rounds(&mut gathering, 16, |_| light());
        assert!(seen.iter().any(|&open| open < N), "{seen:?}");
    }

    #[test]
    fn a_change_of_work_opens_all() {
        let mut gathering = Gathering::default();
        rounds(&mut gathering, 6, |_| light());
        assert!(gathering.open < N);
        let longer = Pace { burst_ns: 1e6, ..light() };
        assert_eq!(rounds(&mut gathering, 1, |_| longer), [N]);
    }

    #[test]
    fn light_work_beside_others_that_come_and_go_is_the_same_work() {
        let mut gathering = Gathering::default();
        let busy = |ratio: f64| Pace {
            computing_ns: 1e5 * ratio,
            idle_ns: 1e5 * (1.0 - ratio),
            ..light()
        };
        assert!(rounds(&mut gathering, 12, |_| busy(0.03)).iter().skip(4).all(|&open| open == 4));
        assert_eq!(gathering.round(N, &busy(0.06)), 4, "as much again, and little");
        assert_eq!(gathering.round(N, &busy(0.30)), N, "ten times as much");
    }

    #[test]
    fn the_wait_with_all_open_is_looked_at_again() {
        let mut gathering = Gathering::default();
        let seen = rounds(&mut gathering, 100, |_| light());
        let all = seen[3..].iter().filter(|&&open| open == N).count();
        assert!((2..=4).contains(&all), "{seen:?}");
    }

    #[test]
    fn barriers_and_long_phases_are_left_alone() {
        for pace in [
            Pace { together_ratio: 0.8, ..light() },
            Pace { burst_ns: 1e5, ..light() },
            Pace { burst_ns: 4e6, idle_ns: 1e7, ..light() },
        ] {
            assert!(rounds(&mut Gathering::default(), 50, |_| pace).iter().all(|&open| open == N));
        }
    }
}
