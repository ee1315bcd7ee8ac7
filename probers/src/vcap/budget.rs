// SPDX-License-Identifier: GPL-2.0-only
//! The bound on what probing may use of a vCPU: a token bucket in ns of run time.

/// Time over which the budget is averaged: so much of it can be spent at once.
pub const WINDOW_NS: u64 = 10_000_000_000;

/// What probing may still use of one vCPU.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Part of the vCPU's time, 0 to 1; 0 allows nothing.
    ratio: f64,
    tokens_ns: f64,
    spent_ns: u64,
    begin_ns: u64,
    refilled_ns: u64,
}

impl Budget {
    /// A full bucket.
    pub fn new(ratio: f64, now_ns: u64) -> Self {
        let tokens_ns = ratio * WINDOW_NS as f64;
        Self { ratio, tokens_ns, spent_ns: 0, begin_ns: now_ns, refilled_ns: now_ns }
    }

    /// Run time in ns that may be used now.
    pub fn available_ns(&mut self, now_ns: u64) -> u64 {
        let passed_ns = now_ns.saturating_sub(self.refilled_ns) as f64;
        self.refilled_ns = self.refilled_ns.max(now_ns);
        let full_ns = self.ratio * WINDOW_NS as f64;
        self.tokens_ns = (self.tokens_ns + passed_ns * self.ratio).min(full_ns);
        self.tokens_ns.max(0.0) as u64
    }

    /// Account run time that was used, more than was available included: it has to be saved later.
    pub fn spend(&mut self, run_ns: u64) {
        self.spent_ns += run_ns;
        self.tokens_ns -= run_ns as f64;
    }

    /// Part of the time since the start that was used, counted over a whole window at least.
    pub fn spent_ratio(&self, now_ns: u64) -> f64 {
        self.spent_ns as f64 / now_ns.saturating_sub(self.begin_ns).max(WINDOW_NS) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whoever spends no more than is available stays within the budget, and one full bucket.
        #[test]
        fn the_budget_is_kept(
            ratio in 0.0..0.1f64,
            steps in prop::collection::vec((0u64..3_000_000_000, 0.0..1.0f64), 1..200),
        ) {
            let mut budget = Budget::new(ratio, 0);
            let mut now_ns = 0;
            for (pause_ns, part) in steps {
                now_ns += pause_ns;
                let spend_ns = (budget.available_ns(now_ns) as f64 * part) as u64;
                budget.spend(spend_ns);
                let allowed_ns = ratio * (now_ns + WINDOW_NS) as f64;
                prop_assert!(budget.spent_ns as f64 <= allowed_ns + 1.0);
            }
        }

        #[test]
        fn no_budget_allows_nothing(now_ns in 0u64..u64::MAX / 2) {
            prop_assert_eq!(Budget::new(0.0, 0).available_ns(now_ns), 0);
        }
    }

    #[test]
    fn what_was_overspent_is_saved_later() {
        let mut budget = Budget::new(0.01, 0);
        budget.spend(150_000_000);
        assert_eq!(budget.available_ns(4_000_000_000), 0);
        assert_eq!(budget.available_ns(6_000_000_000), 10_000_000);
    }
}
