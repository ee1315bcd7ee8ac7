// SPDX-License-Identifier: GPL-2.0-only
//! The bound on what probing may use of a vCPU: a token bucket in ns of run time.

use std::time::Duration;

/// Run time that can be saved up, and spent at once: whatever the budget, what a share takes to tell.
pub const FULL_NS: u64 = 100_000_000;

/// What probing may still use of one vCPU.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Part of the vCPU's time, 0 to 1; 0 allows nothing.
    ratio: f64,
    /// So much can be saved up.
    full_ns: f64,
    tokens_ns: f64,
    spent_ns: u64,
    begin_ns: u64,
    refilled_ns: u64,
}

impl Budget {
    /// A full bucket.
    pub fn new(ratio: f64, now_ns: u64) -> Self {
        let full_ns = if ratio > 0.0 { FULL_NS as f64 } else { 0.0 };
        let (begin_ns, refilled_ns) = (now_ns, now_ns);
        Self { ratio, full_ns, tokens_ns: full_ns, spent_ns: 0, begin_ns, refilled_ns }
    }

    /// A bucket that saves nothing up, and has a credit to begin with.
    pub fn with_credit(ratio: f64, credit: Duration, now_ns: u64) -> Self {
        let tokens_ns = credit.as_nanos() as f64;
        Self { full_ns: 0.0, tokens_ns, ..Self::new(ratio, now_ns) }
    }

    /// Run time in ns that may be used now.
    pub fn available_ns(&mut self, now_ns: u64) -> u64 {
        self.refill(now_ns);
        self.tokens_ns.max(0.0) as u64
    }

    /// Give up what is left of the credit.
    pub fn forfeit(&mut self) {
        self.tokens_ns = self.tokens_ns.min(self.full_ns);
    }

    /// Account run time that was used, more than was available included: it has to be saved later.
    pub fn spend(&mut self, run_ns: u64) {
        self.spent_ns += run_ns;
        self.tokens_ns -= run_ns as f64;
    }

    /// How long it takes to save what was used too much; with a ratio of 0, longer than anything.
    pub fn rest(&mut self, now_ns: u64) -> Duration {
        self.refill(now_ns);
        let owed_s = (-self.tokens_ns).max(0.0) / 1e9;
        Duration::try_from_secs_f64(owed_s / self.ratio).unwrap_or(Duration::MAX)
    }

    /// Part of the time since the start that was used, counted over the time of a full bucket at least.
    pub fn spent_ratio(&self, now_ns: u64) -> f64 {
        let passed_ns = now_ns.saturating_sub(self.begin_ns) as f64;
        self.spent_ns as f64 / passed_ns.max(FULL_NS as f64 / self.ratio)
    }

    fn refill(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.refilled_ns) as f64;
        self.refilled_ns = self.refilled_ns.max(now_ns);
        // Of a credit beyond what can be saved up nothing is lost.
        let most_ns = self.full_ns.max(self.tokens_ns);
        self.tokens_ns = (self.tokens_ns + passed_ns * self.ratio).min(most_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND_NS: u64 = 1_000_000_000;
    const CREDIT: Duration = Duration::from_secs(3);

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
                let allowed_ns = FULL_NS as f64 + ratio * now_ns as f64;
                prop_assert!(budget.spent_ns as f64 <= allowed_ns + 1.0);
            }
        }

        /// Whoever learns afterwards what was used, and rests then, stays within it and the credit.
        #[test]
        fn rests_make_up_for_what_was_overspent(
            ratio in 0.001..0.1f64,
            passes in prop::collection::vec((0u64..5_000, 0.0..1.0f64), 1..100),
        ) {
            let mut budget = Budget::with_credit(ratio, CREDIT, 0);
            let mut now_ns = 0;
            for (elapsed_ms, part) in passes {
                now_ns += elapsed_ms * 1_000_000;
                budget.spend((elapsed_ms as f64 * 1e6 * part) as u64);
                now_ns += budget.rest(now_ns).as_nanos() as u64;
                let allowed_ns = CREDIT.as_nanos() as f64 + ratio * now_ns as f64;
                prop_assert!(budget.spent_ns as f64 <= allowed_ns + 100.0);
            }
        }

        #[test]
        fn without_its_credit_the_budget_alone_counts(ratio in 0.001..0.1f64, spent_ms in 0u64..9_000) {
            let mut budget = Budget::with_credit(ratio, CREDIT, 0);
            budget.spend(spent_ms * 1_000_000);
            budget.forfeit();
            prop_assert_eq!(budget.available_ns(0), 0);
            let owed_s = (spent_ms as f64 / 1e3 - CREDIT.as_secs_f64()).max(0.0);
            prop_assert!((budget.rest(0).as_secs_f64() - owed_s / ratio).abs() < 1e-3);
        }

        #[test]
        fn a_cheap_pass_costs_no_rest(elapsed_ms in 1_000u64..5_000) {
            let mut budget = Budget::with_credit(0.01, Duration::ZERO, 0);
            budget.spend(elapsed_ms * 9_000);
            prop_assert_eq!(budget.rest(elapsed_ms * 1_000_000), Duration::ZERO);
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
        assert_eq!(budget.available_ns(4 * SECOND_NS), 0);
        assert_eq!(budget.available_ns(6 * SECOND_NS), 10_000_000);
    }

    #[test]
    fn a_credit_is_used_up_first_and_not_saved_up_again() {
        let mut budget = Budget::with_credit(0.01, CREDIT, 0);
        assert_eq!(budget.available_ns(100 * SECOND_NS), 3 * SECOND_NS);
        budget.spend(4 * SECOND_NS);
        assert_eq!(budget.rest(100 * SECOND_NS), Duration::from_secs(100));
        assert_eq!(budget.available_ns(500 * SECOND_NS), 0);
    }
}
