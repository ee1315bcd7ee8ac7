// SPDX-License-Identifier: GPL-2.0-only
//! A sign of life from a thread that others depend on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The longest time between two beats of a thread that rests.
const REST_MAX: Duration = Duration::from_secs(1);

/// Counts a thread's beats; clones count the same ones.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// The thread is alive.
    pub fn beat(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How often it was.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Park until `end` and beat meanwhile, or until `is_over`; whoever brings that about unparks
    /// the thread.
    pub fn rest(&self, end: Instant, is_over: impl Fn() -> bool) {
        loop {
            self.beat();
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || is_over() {
                return;
            }
            thread::park_timeout(left.min(REST_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_beats_and_ends_in_time_or_when_all_is_over() {
        let pulse = Pulse::default();
        let end = Instant::now() + REST_MAX.mul_f64(1.5);
        pulse.rest(end, || false);
        assert!(Instant::now() >= end && pulse.count() >= 3);
        let begin = Instant::now();
        pulse.rest(begin + Duration::from_secs(3600), || true);
        assert!(begin.elapsed() < Duration::from_secs(600));
    }
}
