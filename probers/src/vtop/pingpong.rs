// SPDX-License-Identifier: GPL-2.0-only
//! Two threads pass a cache line back and forth, and each notes when it ran.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::stacking::Period;
use crate::thread::monotonic_ns;

/// Round trips in a batch: some 10 us, far below the time for which a hypervisor lets a vCPU run.
const BATCH_ROUND_TRIPS: u64 = 32;

/// So many batches without a gap are enough.
pub const BATCHES: usize = 15;

/// So many passes between two looks at the clock cannot be those of two that take turns, each of which passes
/// the line once before it has to wait for its next turn.
const PASSES_TOGETHER: u64 = 4;

/// Pauses between two looks at the clock. Under TCG each look takes a lock that all vCPUs share.
const PAUSES_A_LOOK: u32 = 64;

/// The thread was stopped if its clock leaps so far: longer than interrupts take, shorter than a slice.
pub const GAP_NS: u64 = 200_000;

/// The line that is passed. Even: it is the first one's turn. Alone on its cache lines, and on those
/// that the hardware prefetches with them.
#[derive(Debug, Default)]
#[repr(align(256))]
pub struct Ball {
    turn: AtomicU64,
}

/// What two threads share.
#[derive(Debug, Default)]
pub struct Game {
    ball: Ball,
    over: AtomicBool,
}

/// What one of them saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// One-way latencies in ns, a mean for each batch without a gap. Only the first player has them.
    pub batches_ns: Vec<f64>,
    /// When it ran.
    pub periods: Vec<Period>,
    /// Whether the line went back and forth so fast that both must have run at the same time.
    pub met: bool,
}

/// Cuts time at its gaps.
struct Watch {
    last_ns: u64,
    periods: Vec<Period>,
}

impl Watch {
    fn start() -> Self {
        let now_ns = monotonic_ns();
        Self { last_ns: now_ns, periods: vec![(now_ns, now_ns)] }
    }

    /// Look at the clock. Return whether the thread was stopped since the last look.
    fn look(&mut self) -> bool {
        let now_ns = monotonic_ns();
        let stopped = now_ns.saturating_sub(self.last_ns) > GAP_NS;
        match self.periods.last_mut() {
            Some(period) if !stopped => period.1 = now_ns.max(period.1),
            _ => self.periods.push((now_ns, now_ns)),
        }
        self.last_ns = now_ns;
        stopped
    }
}

impl Game {
    /// Play as the first or second, until the first has seen enough or the time is up.
    pub fn play(&self, is_first: bool, until_ns: u64) -> Seen {
        let mut watch = Watch::start();
        let mut batches_ns = Vec::new();
        let (mut passes, mut pauses) = (0, 0);
        let mut passes_seen = 0;
        let mut met = false;
        let mut batch_start_ns = None;
        let mine = u64::from(!is_first);
        loop {
            let turn = self.ball.turn.load(Ordering::Acquire);
            if turn % 2 == mine {
                self.ball.turn.store(turn + 1, Ordering::Release);
                passes += 1;
                if passes % BATCH_ROUND_TRIPS != 0 {
                    continue;
                }
            } else {
                spin_loop();
                pauses += 1;
                if pauses % PAUSES_A_LOOK != 0 {
                    continue;
                }
            }
            let stopped = watch.look();
            met |= !stopped && passes - passes_seen >= PASSES_TOGETHER;
            passes_seen = passes;
            if stopped {
                batch_start_ns = None;
            }
            if turn % 2 == mine {
                if let Some(start_ns) = batch_start_ns.filter(|_| is_first) {
                    let took_ns = watch.last_ns.saturating_sub(start_ns);
                    batches_ns.push(took_ns as f64 / (2 * BATCH_ROUND_TRIPS) as f64);
                    if batches_ns.len() >= BATCHES {
                        self.over.store(true, Ordering::Release);
                    }
                }
                batch_start_ns = Some(watch.last_ns);
            }
            if self.over.load(Ordering::Acquire) || watch.last_ns >= until_ns {
                return Seen { batches_ns, periods: watch.periods, met };
            }
        }
    }
}

/// The latency that batches show: their lower quartile, as disturbance only adds time.
pub fn latency_ns(batches_ns: &[f64]) -> Option<f64> {
    let mut ascending = batches_ns.to_vec();
    ascending.sort_by(f64::total_cmp);
    ascending.get(ascending.len() / 4).copied()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn a_game_ends_in_time_with_or_without_a_partner() {
        let start_ns = monotonic_ns();
        let seen = Game::default().play(true, start_ns + 5_000_000);
        assert!(seen.batches_ns.is_empty() && !seen.met);
        assert!(seen.periods.first().is_some_and(|(begin, _)| *begin >= start_ns));
    }

    #[test]
    fn both_see_their_own_periods() {
        let game = Arc::new(Game::default());
        let until_ns = monotonic_ns() + 2_000_000_000;
        let second = Arc::clone(&game);
        let thread = thread::spawn(move || second.play(false, until_ns));
        let first = game.play(true, until_ns);
        let second = thread.join().unwrap_or_default();
        assert!(second.batches_ns.is_empty() && !second.periods.is_empty());
        assert!(first.batches_ns.iter().all(|ns| *ns > 0.0));
        assert!(first.batches_ns.is_empty() || first.met);
        for periods in [first.periods, second.periods] {
            assert!(periods.windows(2).all(|two| two[0].1 < two[1].0));
        }
    }

    #[test]
    fn slow_batches_do_not_move_the_latency() {
        assert_eq!(latency_ns(&[9.0, 8.0, 500.0, 8.5, 70.0]), Some(8.5));
        assert_eq!(latency_ns(&[]), None);
    }
}
