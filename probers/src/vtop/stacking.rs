// SPDX-License-Identifier: GPL-2.0-only
//! Do two vCPUs share a hardware thread? Evidence from when each of them ran.
//!
//! Both spin for the same time. If they share a thread, one runs while the other is stopped, always.
//! If they do not, each period of one is a chance to meet the other, and one line that is exchanged fast
//! refutes it. The chance is at least half of the other's share: vCPUs that compete for the same cores
//! avoid each other, so that independence would overrate it (8 on 2 cores: 1/7, not 1/4).
//!
//! Turns tell that two vCPUs are on one core now, not that they have to be: a host leaves vCPUs that never
//! halt where they are while its cores are evenly loaded. So a stack becomes sure only with time.

use super::pingpong::GAP_NS;

/// A time in which a thread ran without a stop, in ns of `CLOCK_MONOTONIC`.
pub type Period = (u64, u64);

/// Clocks of two vCPUs may differ so much, and a stop may be seen so late.
const MARGIN_NS: u64 = 20_000;

/// A share above which the chance to meet counts as no higher.
const SHARE_MAX: f64 = 0.75;

/// Odds of 1 to exp(16) against chance if shares are independent, of 1 to exp(8) if they avoid each
/// other as said above. With two vCPUs on a thread 23 turns, some 90 ms at a host slice of 4 ms.
const PROOF_LOG_ODDS: f64 = 16.0;

/// Fewer turns, or fewer looks at different times, prove nothing, whatever the odds.
const TURNS_MIN: usize = 6;
const LOOKS_MIN: usize = 3;

/// Two vCPUs on one core for so long, while the host could have parted them, are as likely to be stacked
/// as not to be fit to decide on: the confidence is 0.5.
const HALF_SURE_S: f64 = 3.5;

/// A vCPU that never halts is moved only when the host balances its load: such time counts for so much less.
/// Four busy vCPUs that floated over two cores stayed together for up to 14 s.
const BUSY_WEIGHT: f64 = 0.1;

/// What happened in longer pauses between two proofs is not known.
const PAUSE_MAX_S: f64 = 5.0;

/// What was seen of two vCPUs so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    log_odds: f64,
    turns: usize,
    looks: usize,
    /// When it was last a proof, in ns.
    proven_ns: Option<u64>,
    /// For how long it has been one, weighted as said at [`BUSY_WEIGHT`].
    tried_s: f64,
}

impl Evidence {
    /// Add what was seen while both wanted to run all the time; periods ascending. Return whether that tells
    /// anything: not if they seem to have run at the same time, as one may in a stop of the other that is
    /// too short to be noticed.
    pub fn add(&mut self, a: &[Period], b: &[Period]) -> bool {
        let turns = turns(a, b);
        if overlap(a, b) || turns.is_empty() {
            return false;
        }
        let (Some(share_a), Some(share_b)) = (share(a, b), share(b, a)) else {
            return false;
        };
        self.looks += 1;
        self.turns += turns.len();
        for to_b in turns {
            let share = if to_b { share_b } else { share_a };
            self.log_odds -= (1.0 - share.min(SHARE_MAX)).ln();
        }
        true
    }

    /// They exchanged a line fast: all that was seen before was chance.
    pub fn refute(&mut self) {
        *self = Self::default();
    }

    /// A proof that others contradict has to be given anew.
    pub fn doubt(&mut self) {
        *self = Self { proven_ns: self.proven_ns, tried_s: self.tried_s, ..Self::default() };
    }

    /// Whether they are on one hardware thread at present, beyond doubt.
    pub fn is_proof(&self) -> bool {
        self.turns >= TURNS_MIN && self.looks >= LOOKS_MIN && self.log_odds >= PROOF_LOG_ODDS
    }

    /// Note that they still are. `was_free`: one of them has halted since the last time, so that the host
    /// chose a core for it anew.
    pub fn confirm(&mut self, now_ns: u64, was_free: bool) {
        let passed_ns = self.proven_ns.map_or(0, |then_ns| now_ns.saturating_sub(then_ns));
        let weight = if was_free { 1.0 } else { BUSY_WEIGHT };
        self.tried_s += weight * (passed_ns as f64 / 1e9).min(PAUSE_MAX_S);
        self.proven_ns = Some(now_ns);
    }

    /// How sure it is that they have to be: 0 at the first proof, nearing 1.
    pub fn confidence(&self) -> f64 {
        self.tried_s / (self.tried_s + HALF_SURE_S)
    }
}

/// The part of the time that both span in which `one` ran.
fn share(one: &[Period], other: &[Period]) -> Option<f64> {
    let begin = one.first()?.0.min(other.first()?.0);
    let end = one.last()?.1.max(other.last()?.1);
    let ran: u64 = one.iter().map(|(begin, end)| end - begin).sum();
    Some(ran as f64 / (end - begin).max(1) as f64)
}

/// Whether both ran at the same time for longer than a stop that goes unnoticed.
fn overlap(a: &[Period], b: &[Period]) -> bool {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    while let (Some((a_begin, a_end)), Some((b_begin, b_end))) = (a.peek(), b.peek()) {
        if a_begin.max(b_begin) + MARGIN_NS + GAP_NS < *a_end.min(b_end) {
            return true;
        }
        if a_end < b_end {
            a.next()
        } else {
            b.next()
        };
    }
    false
}

/// The changes from one to the other, in order: true for one to `b`.
fn turns(a: &[Period], b: &[Period]) -> Vec<bool> {
    let mut all: Vec<(u64, bool)> = a.iter().map(|period| (period.0, false)).collect();
    all.extend(b.iter().map(|period| (period.0, true)));
    all.sort_unstable();
    all.windows(2).filter(|two| two[0].1 != two[1].1).map(|two| two[1].1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Round robin of `count` threads on one core; the periods of one of them.
    fn on_one_core(count: u64, index: u64, slice: u64, rounds: u64) -> Vec<Period> {
        (0..rounds)
            .map(|round| (round * count + index) * slice)
            .map(|at| (at, at + slice))
            .collect()
    }

    /// What is seen of the same periods in three looks.
    fn evidence(a: &[Period], b: &[Period]) -> Evidence {
        let mut evidence = Evidence::default();
        for look in 0..LOOKS_MIN {
            let part = |periods: &[Period]| {
                let length = periods.len().div_ceil(LOOKS_MIN);
                periods.iter().skip(look * length).take(length).copied().collect::<Vec<_>>()
            };
            evidence.add(&part(a), &part(b));
        }
        evidence
    }

    #[test]
    fn taking_turns_long_enough_is_proof() {
        for count in 2..6 {
            let of = |rounds, index| on_one_core(count, index, 4 * MS, rounds);
            assert!(!evidence(&of(2, 0), &of(2, 1)).is_proof());
            assert!(evidence(&of(100, 0), &of(100, 1)).is_proof());
        }
    }

    #[test]
    fn evidence_adds_up() {
        let of = |index| on_one_core(2, index, 4 * MS, 4);
        let mut seen = Evidence::default();
        let needed = (1..100).find(|_| {
            seen.add(&of(0), &of(1));
            seen.is_proof()
        });
        assert!(needed.is_some_and(|times| times > 1));
    }

    #[test]
    fn one_exchange_refutes_whatever_was_seen() {
        let (a, b) = (on_one_core(2, 0, 4 * MS, 100), on_one_core(2, 1, 4 * MS, 100));
        let mut seen = evidence(&a, &b);
        seen.confirm(0, true);
        seen.confirm(4_000 * MS, true);
        assert!(seen.is_proof() && seen.confidence() > 0.5);
        seen.refute();
        assert!(!seen.is_proof() && seen.confidence() == 0.0);
    }

    #[test]
    fn running_at_the_same_time_is_no_evidence_and_a_stop_too_short_to_see_is_no_objection() {
        let (a, mut b) = (on_one_core(2, 0, 4 * MS, 100), on_one_core(2, 1, 4 * MS, 100));
        b[50].1 += GAP_NS / 2;
        assert!(evidence(&a, &b).is_proof());
        b[50].1 += MS;
        assert!(!Evidence::default().add(&a, &b));
    }

    #[test]
    fn a_stack_is_sure_with_time_and_later_if_its_vcpus_never_halt() {
        let sure_after_s = |was_free| {
            let mut seen = Evidence::default();
            (0..1000).find(|second| {
                seen.confirm(second * 1000 * MS, was_free);
                seen.confidence() >= crate::snapshot::TRUSTED_CONFIDENCE
            })
        };
        let (free_s, busy_s) = (sure_after_s(true), sure_after_s(false));
        assert!(free_s.is_some_and(|free_s| free_s > 0), "{free_s:?}");
        assert!(busy_s > free_s, "{busy_s:?}");
    }

    #[test]
    fn a_long_pause_is_not_time_watched() {
        let mut seen = Evidence::default();
        seen.confirm(0, false);
        seen.confirm(3_600_000 * MS, false);
        assert!(seen.confidence() < crate::snapshot::TRUSTED_CONFIDENCE);
    }

    #[test]
    fn one_that_never_ran_proves_nothing() {
        assert!(!evidence(&on_one_core(2, 0, 4 * MS, 1000), &[]).is_proof());
        assert!(!evidence(&[(0, 4000 * MS)], &[(4000 * MS, 8000 * MS)]).is_proof());
    }

    /// 8 vCPUs float over 2 cores and all are busy: after each slice a random one of those that wait
    /// is next. No two are stacked, and hardly ever may two look like it.
    #[test]
    fn floating_vcpus_are_not_stacked() {
        let mut state = 1u64;
        let mut random = move |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        let mut wrong = 0;
        for _ in 0..1000 {
            let mut periods: Vec<Vec<Period>> = vec![Vec::new(); 8];
            let mut running = [0usize, 1];
            let mut until = [4 * MS, 6 * MS];
            for _ in 0..400 {
                let core = usize::from(until[1] < until[0]);
                let begin = until[core].saturating_sub(4 * MS);
                periods[running[core]].push((begin, until[core]));
                let waiting: Vec<usize> = (0..8).filter(|v| !running.contains(v)).collect();
                running[core] = waiting[random(6) as usize];
                until[core] += 4 * MS;
            }
            wrong += usize::from(evidence(&periods[0], &periods[1]).is_proof());
        }
        assert_eq!(wrong, 0);
    }
}
