// SPDX-License-Identifier: GPL-2.0-only
//! How long an idle vCPU polls before it halts (Gleaner, section 4.1): tried out, for it depends on
//! the host and on the work whether that pays. What counts is how long wakees wait. Where the
//! hypervisor takes time from this VM, polling takes it from the VM's own work: not there.

use crate::pace::Pace;

/// What is tried, in ns. Less than 100 us ends shortly before work comes, and more than the host's
/// own 200 us keeps a core for nothing.
pub const TIMEOUTS_NS: [u64; 3] = [0, 100_000, 200_000];
/// Work that wakes less often has little to gain: a hundredth of a vCPU at 20 us each.
const WAKES_PER_S_MIN: f64 = 500.0;
/// The part of stolen time from which it is material: from there the scheduler takes wake-ups for
/// costly, too.
const STEAL_RATIO_MAX: f64 = 0.05;
/// Rounds of each time-out before one is chosen, and that are remembered.
const ROUNDS_MIN: f64 = 3.0;
const ROUNDS_MAX: f64 = 8.0;
/// Rounds with the choice before another time-out is looked at for one.
const ROUNDS_PER_LOOK: u32 = 16;
/// A longer time-out has to save wakees one part in so many of their wait.
const MARGIN: f64 = 8.0;

/// What has come of one time-out; older rounds fade.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    rounds: f64,
    wait_ns: f64,
}

impl Tried {
    fn add(&mut self, wait_ns: f64) {
        self.rounds += 1.0;
        self.wait_ns += wait_ns;
        if self.rounds > ROUNDS_MAX {
            self.rounds /= 2.0;
            self.wait_ns /= 2.0;
        }
    }

    fn mean_ns(&self) -> f64 {
        self.wait_ns / self.rounds.max(1.0)
    }
}

/// The choice of a time-out, from round to round.
#[derive(Clone, Debug, Default)]
pub struct Retention {
    tried: [Tried; TIMEOUTS_NS.len()],
    /// In effect: an index of `TIMEOUTS_NS`.
    now: usize,
    /// Rounds since the last look at another one.
    since_look: u32,
    /// Which was looked at last.
    looked_at: usize,
}

impl Retention {
    /// The time-out for the next round, in ns, after one that went as `pace` says.
    pub fn round(&mut self, pace: &Pace) -> u64 {
        if pace.steal_ratio >= STEAL_RATIO_MAX {
            *self = Self::default();
        } else if pace.wakes_per_s < WAKES_PER_S_MIN {
            self.now = 0;
        } else {
            self.tried[self.now].add(pace.wait_ns);
            self.now = self.next();
        }
        TIMEOUTS_NS[self.now]
    }

    fn next(&mut self) -> usize {
        let least = (0..self.tried.len())
            .min_by(|&a, &b| self.tried[a].rounds.total_cmp(&self.tried[b].rounds));
        if let Some(least) = least.filter(|&at| self.tried[at].rounds < ROUNDS_MIN) {
            return least;
        }
        self.since_look += 1;
        if self.since_look >= ROUNDS_PER_LOOK {
            self.since_look = 0;
            self.looked_at = (self.looked_at + 1) % TIMEOUTS_NS.len();
            return self.looked_at;
        }
        (1..self.tried.len()).fold(0, |best, longer| {
            let saved_ns = self.tried[best].mean_ns() - self.tried[longer].mean_ns();
            if saved_ns * MARGIN > self.tried[best].mean_ns() { longer } else { best }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn busy(wait_ns: f64) -> Pace {
        Pace { wakes_per_s: 1e5, wait_ns, ..Pace::default() }
    }

    /// The time-outs of so many rounds, where wakees wait for as long as `wait_ns` of the time-out says.
    fn rounds(number: usize, wait_ns: impl Fn(u64) -> f64) -> Vec<u64> {
        let (mut retention, mut now) = (Retention::default(), 0);
        (0..number)
            .map(|_| {
                now = retention.round(&busy(wait_ns(now)));
                now
            })
            .collect()
    }

    fn share(chosen: &[u64], timeout_ns: u64) -> f64 {
        chosen.iter().filter(|&&ns| ns == timeout_ns).count() as f64 / chosen.len() as f64
    }

    proptest! {
        #[test]
        fn the_best_one_is_on_nearly_always(waits in prop::array::uniform3(1e3..1e6f64)) {
            let wait = |ns| waits[TIMEOUTS_NS.iter().position(|&each| each == ns).unwrap_or(0)];
            let chosen = rounds(200, wait);
            let usual = chosen.iter().copied().max_by(|&a, &b| {
                share(&chosen, a).total_cmp(&share(&chosen, b))
            }).unwrap_or(0);
            prop_assert!(share(&chosen[20..], usual) >= 0.9);
            let best = waits.iter().copied().fold(f64::MAX, f64::min);
            // Two steps of an eighth: 100 us are not worth it over 0, nor 200 us over those.
            prop_assert!(wait(usual) <= best * (8.0f64 / 7.0).powi(2) + 1.0);
            prop_assert!(wait(usual) <= waits[0]);
        }

        #[test]
        fn where_time_is_stolen_nothing_polls(
            steal_ratio in STEAL_RATIO_MAX..1.0, before in 0usize..40, waits in prop::array::uniform3(1e3..1e6f64),
        ) {
            let mut retention = Retention::default();
            let mut now = 0;
            for _ in 0..before {
                let at = TIMEOUTS_NS.iter().position(|&ns| ns == now).unwrap_or(0);
                now = retention.round(&busy(waits[at]));
            }
            prop_assert_eq!(retention.round(&Pace { steal_ratio, ..busy(1e5) }), 0);
        }
    }

    #[test]
    fn equal_waits_are_no_reason_and_neither_is_a_quiet_vm() {
        let chosen = rounds(100, |_| 5e4);
        assert!(share(&chosen[10..], 0) >= 0.9);
        let mut retention = Retention::default();
        assert!((0..50).all(|_| retention.round(&Pace::default()) == 0));
    }

    #[test]
    fn a_change_is_noticed() {
        let mut retention = Retention::default();
        let mut now = 0;
        let mut run = |number, wait_ns: fn(u64) -> f64| {
            (0..number).for_each(|_| now = retention.round(&busy(wait_ns(now))));
            now
        };
        assert_eq!(run(30, |ns| if ns == 0 { 1e5 } else { 2e4 }), 100_000);
        assert_eq!(run(120, |ns| if ns == 0 { 1e4 } else { 1e5 }), 0);
    }
}
