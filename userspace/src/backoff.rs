// SPDX-License-Identifier: GPL-2.0-only
//! When something that keeps ending is begun again: at once, then later each time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Ends longer ago than this count no more.
const WINDOW: Duration = Duration::from_secs(600);

/// So many ends are followed by a new beginning at once.
const AT_ONCE: usize = 2;

const DELAY_MIN: Duration = Duration::from_secs(1);
const DELAY_MAX: Duration = Duration::from_secs(60);

/// The recent ends of one thing.
#[derive(Clone, Debug, Default)]
pub struct Backoff(VecDeque<Instant>);

impl Backoff {
    /// It has ended `now`. Return how long to wait.
    pub fn ended(&mut self, now: Instant) -> Duration {
        while self.0.front().is_some_and(|end| now.saturating_duration_since(*end) > WINDOW) {
            self.0.pop_front();
        }
        self.0.push_back(now);
        match self.0.len().checked_sub(AT_ONCE + 1) {
            None => Duration::ZERO,
            Some(doublings) => {
                DELAY_MAX.min(DELAY_MIN * 2u32.saturating_pow(doublings.min(16) as u32))
            }
        }
    }

    /// How often it has ended of late.
    pub fn recent(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_bound_and_are_forgotten() {
        let (mut backoff, begin) = (Backoff::default(), Instant::now());
        let delays_s: Vec<_> =
            (0..12).map(|end| backoff.ended(begin + Duration::from_secs(end)).as_secs()).collect();
        assert_eq!(delays_s, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
        assert_eq!(backoff.recent(), 12);
        let later = begin + Duration::from_secs(12) + WINDOW;
        assert_eq!((backoff.ended(later), backoff.recent()), (Duration::ZERO, 1));
    }
}
