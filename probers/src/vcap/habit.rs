// SPDX-License-Identifier: GPL-2.0-only
//! Whether light looks at a vCPU still find what they usually find. Pure.

/// A streak of looks that is no more likely than this is a surprise.
const SURPRISE_PROBABILITY: f64 = 0.05;
/// Longer streaks count as so long: what always happens goes on for ever.
const STREAK_MAX: i32 = 10;
/// What looks found counts so much less with each later one: some fifty matter.
const KEPT_PER_LOOK: f64 = 0.98;

/// How often light looks find a vCPU stopped, and what the latest found.
///
/// It learns by itself what is usual here, be it that stops are rare, that a host takes turns faster than a
/// look lasts, or that timers are late; so it tells a change, whatever the share is.
#[derive(Clone, Debug, Default)]
pub struct Habit {
    /// Looks without a stop, and with one.
    counts: [f64; 2],
    /// The last looks that found the same: which, and how many.
    streak: (bool, i32),
}

impl Habit {
    /// Take a look into account. Returns whether it, with those before it that found the same, is a surprise.
    pub fn is_surprised_by(&mut self, stopped: bool) -> bool {
        let seen = self.counts[usize::from(stopped)];
        let usual = (seen + 1.0) / (self.counts.iter().sum::<f64>() + 2.0); // Laplace
        let before = if self.streak.0 == stopped { self.streak.1 } else { 0 };
        let length = (before + 1).min(STREAK_MAX);
        let surprised = usual.powi(length) <= SURPRISE_PROBABILITY;
        // One surprise for each streak, unless it lasts.
        self.streak = (stopped, if surprised { 0 } else { length });
        self.counts.iter_mut().for_each(|count| *count *= KEPT_PER_LOOK);
        self.counts[usize::from(stopped)] += 1.0;
        surprised
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after(looks: impl IntoIterator<Item = bool>) -> Habit {
        let mut habit = Habit::default();
        for stopped in looks {
            habit.is_surprised_by(stopped);
        }
        habit
    }

    #[test]
    fn the_first_stop_of_a_vcpu_that_never_stops_is_a_surprise() {
        for usual in [false, true] {
            assert!(after([usual; 24]).is_surprised_by(!usual));
            assert!(!after([usual; 24]).is_surprised_by(usual));
        }
    }

    #[test]
    fn what_is_usual_is_none_until_it_goes_on_for_long() {
        let mut habit = after((0..40).map(|look| look % 2 == 0));
        let needed = (1..20).find(|_| habit.is_surprised_by(false));
        assert!(needed.is_some_and(|looks| (3..8).contains(&looks)), "{needed:?}");
    }

    #[test]
    fn a_change_becomes_usual() {
        let mut habit = after([false; 50]);
        assert!(habit.is_surprised_by(true));
        let surprises =
            |habit: &mut Habit| (0..100).filter(|_| habit.is_surprised_by(true)).count();
        assert!(surprises(&mut habit) > 0);
        assert_eq!(surprises(&mut habit), 0);
    }

    proptest! {
        /// Random looks with any probability surprise seldom.
        #[test]
        fn chance_surprises_seldom(probability in 0.0..1.0f64, seed in 1u64..1_000_000) {
            let mut state = seed;
            let mut habit = Habit::default();
            let surprises = (0..2000)
                .filter(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let unit = (state >> 11) as f64 / (1u64 << 53) as f64;
                    habit.is_surprised_by(unit < probability)
                })
                .count();
            prop_assert!(surprises < 200, "{surprises}");
        }
    }
}
