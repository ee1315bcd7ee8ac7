// SPDX-License-Identifier: GPL-2.0-only
//! How long to leave the vCPUs alone after a pass, so that probing stays within its budget.

use std::time::Duration;

/// What the first passes may use of a vCPU beyond the budget: until they have found the topology it is
/// of no use to anybody, and a stack takes some passes to be sure of.
const FIRST_PASSES: Duration = Duration::from_secs(3);

/// A part of each vCPU's time that may be used, with what was used too much.
pub struct Allowance {
    /// Above 0, at most 1.
    ratio: f64,
    /// Run time in s that has to be saved; below 0: what is left for the first passes.
    owed_s: f64,
}

impl Allowance {
    /// An allowance of a part of the time: 0 to 1; 0 counts as 1/1000.
    pub fn new(ratio: f64) -> Self {
        Self { ratio: ratio.clamp(0.001, 1.0), owed_s: -FIRST_PASSES.as_secs_f64() }
    }

    /// Account a pass that took `elapsed` and used `used` of the vCPU that it used most. Returns how
    /// long to rest before the next one at least.
    pub fn rest_after(&mut self, used: Duration, elapsed: Duration) -> Duration {
        self.owed_s += used.as_secs_f64();
        if self.owed_s <= 0.0 {
            return Duration::ZERO;
        }
        let rest_s = (self.owed_s / self.ratio - elapsed.as_secs_f64()).max(0.0);
        self.owed_s = 0.0; // by the end of the rest
        Duration::try_from_secs_f64(rest_s).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn in_the_long_run_no_more_is_used_than_allowed(
            ratio in 0.001..0.1f64,
            passes in prop::collection::vec((0u64..5_000, 0.0..1.0f64), 1..100),
        ) {
            let mut allowance = Allowance::new(ratio);
            let (mut used_s, mut passed_s) = (0.0, 0.0);
            for (elapsed_ms, part) in passes {
                let elapsed = Duration::from_millis(elapsed_ms);
                let used = elapsed.mul_f64(part);
                used_s += used.as_secs_f64();
                passed_s += (elapsed + allowance.rest_after(used, elapsed)).as_secs_f64();
                prop_assert!(used_s <= FIRST_PASSES.as_secs_f64() + ratio * passed_s + 1e-6);
            }
        }

        #[test]
        fn a_cheap_pass_costs_no_rest(elapsed_ms in 1_000u64..5_000) {
            let mut allowance = Allowance::new(0.01);
            allowance.rest_after(FIRST_PASSES, FIRST_PASSES);
            let elapsed = Duration::from_millis(elapsed_ms);
            prop_assert_eq!(allowance.rest_after(elapsed.mul_f64(0.009), elapsed), Duration::ZERO);
        }
    }
}
