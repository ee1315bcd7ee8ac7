// SPDX-License-Identifier: GPL-2.0-only
//! From observations to an estimate: moving averages that say how sure they are.

use std::time::Duration;

use crate::snapshot::{Estimate, USELESS_ERROR_RATIO};

/// An observation so many standard errors off is a change, not noise.
const CHANGE_SIGMAS: f64 = 3.0;
/// Differences below this are never a change.
const CHANGE_MIN: f64 = 0.06;
/// Where observations are few and far between, so many looks are remembered whatever their age: a change
/// is found out otherwise, and an average over few looks is noise.
const REMEMBERED_LOOKS: f64 = 64.0;

/// A stretch of time in which a vCPU had work, and how much of it was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observation {
    pub wanted_ns: f64,
    pub stopped_ns: f64,
    /// How many independent looks at "is it running?" this is worth.
    pub looks: f64,
}

impl Observation {
    /// The share of the wanted time in which it ran.
    pub fn share(&self) -> f64 {
        1.0 - (self.stopped_ns / self.wanted_ns.max(1.0)).clamp(0.0, 1.0)
    }

    /// Standard error of the share: that of a binomial ratio, with Laplace's rule of succession so that
    /// few looks without a stop do not pass for certainty.
    fn error(&self) -> f64 {
        let ran = (self.share() * self.looks + 1.0) / (self.looks + 2.0);
        (ran * (1.0 - ran) / (self.looks + 2.0)).sqrt()
    }

    fn decayed(self, keep: f64) -> Self {
        Self {
            wanted_ns: self.wanted_ns * keep,
            stopped_ns: self.stopped_ns * keep,
            looks: self.looks * keep,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            wanted_ns: self.wanted_ns + other.wanted_ns,
            stopped_ns: self.stopped_ns + other.stopped_ns,
            looks: self.looks + other.looks,
        }
    }
}

/// The share of a core that one vCPU obtains: an exponential moving average whose weights are the time
/// observed, which forgets by age only what newer observations replace, and which starts anew when what it sees contradicts what it holds.
#[derive(Clone, Debug)]
pub struct ShareEstimator {
    half_life_ns: f64,
    validity_ns: f64,
    sum: Observation,
    updated_ns: Option<u64>,
}

impl ShareEstimator {
    /// `half_life` of an observation among newer ones; `validity`: confidence halves in that time without
    /// any.
    pub fn new(half_life: Duration, validity: Duration) -> Self {
        Self {
            half_life_ns: half_life.as_nanos().max(1) as f64,
            validity_ns: validity.as_nanos().max(1) as f64,
            sum: Observation::default(),
            updated_ns: None,
        }
    }

    /// Take an observation into account. Returns whether it was a change.
    pub fn add(&mut self, now_ns: u64, seen: Observation) -> bool {
        if seen.looks <= 0.0 || seen.wanted_ns <= 0.0 {
            return false;
        }
        let passed_ns = self.updated_ns.map_or(0, |then| now_ns.saturating_sub(then));
        let by_age = 0.5f64.powf(passed_ns as f64 / self.half_life_ns);
        let replaced = (REMEMBERED_LOOKS - seen.looks).max(0.0) / self.sum.looks.max(1.0);
        let kept = self.sum.decayed(by_age.max(replaced.min(1.0)));
        let changed = self.contradicts(seen);
        self.sum = if changed { seen } else { kept.plus(seen) };
        self.updated_ns = Some(now_ns);
        changed
    }

    /// Note that nothing speaks against the estimate as it is: it is as good as new.
    pub fn confirm(&mut self, now_ns: u64) {
        self.updated_ns = self.updated_ns.map(|_| now_ns);
    }

    /// Return whether `seen` cannot be explained as noise around the present estimate.
    pub fn contradicts(&self, seen: Observation) -> bool {
        if self.updated_ns.is_none() {
            return false;
        }
        let error = self.sum.error().hypot(seen.error());
        let difference = (self.sum.share() - seen.share()).abs();
        difference > (CHANGE_SIGMAS * error).max(CHANGE_MIN)
    }

    /// The share, or `None` if nothing was observed yet.
    pub fn estimate(&self, now_ns: u64) -> Option<Estimate> {
        let age_ns = now_ns.saturating_sub(self.updated_ns?) as f64;
        let precision = (1.0 - self.sum.error() / USELESS_ERROR_RATIO).clamp(0.0, 1.0);
        Some(Estimate {
            value: self.sum.share(),
            age_s: age_ns / 1e9,
            confidence: precision * 0.5f64.powf(age_ns / self.validity_ns),
        })
    }
}

/// A plain exponential moving average by time, for values that a look measures well, such as a speed.
#[derive(Clone, Debug)]
pub struct Average {
    half_life_ns: f64,
    validity_ns: f64,
    value: f64,
    /// Sum of the weights: nears 1 / (1 - decay), so it counts looks that still matter.
    weight: f64,
    updated_ns: Option<u64>,
}

impl Average {
    pub fn new(half_life: Duration, validity: Duration) -> Self {
        Self {
            half_life_ns: half_life.as_nanos().max(1) as f64,
            validity_ns: validity.as_nanos().max(1) as f64,
            value: 0.0,
            weight: 0.0,
            updated_ns: None,
        }
    }

    /// Take a measured value into account, worth `looks` measurements.
    pub fn add(&mut self, now_ns: u64, value: f64, looks: f64) {
        let passed_ns = self.updated_ns.map_or(0, |then| now_ns.saturating_sub(then));
        let kept = self.weight * 0.5f64.powf(passed_ns as f64 / self.half_life_ns);
        self.weight = kept + looks;
        if self.weight > 0.0 {
            self.value += (value - self.value) * looks / self.weight;
            self.updated_ns = Some(now_ns);
        }
    }

    /// The average; confidence 0.5 from one look on.
    pub fn estimate(&self, now_ns: u64) -> Option<Estimate> {
        let age_ns = now_ns.saturating_sub(self.updated_ns?) as f64;
        let confidence = self.weight / (self.weight + 1.0);
        Some(Estimate {
            value: self.value,
            age_s: age_ns / 1e9,
            confidence: confidence * 0.5f64.powf(age_ns / self.validity_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn estimator() -> ShareEstimator {
        ShareEstimator::new(Duration::from_secs(2), Duration::from_secs(30))
    }

    /// The estimate, or one that equals nothing.
    fn known(estimate: Option<Estimate>) -> Estimate {
        estimate.unwrap_or(Estimate { value: f64::NAN, age_s: f64::NAN, confidence: f64::NAN })
    }

    fn seen(share: f64, looks: f64) -> Observation {
        Observation { wanted_ns: 1e8, stopped_ns: 1e8 * (1.0 - share), looks }
    }

    proptest! {
        /// Equal observations give just that, with a confidence that grows.
        #[test]
        fn steady_observations_converge(share in 0.0..1.0f64, looks in 1.0..100.0f64, n in 1u64..50) {
            let mut estimator = estimator();
            let mut last = 0.0;
            for step in 1..=n {
                prop_assert!(!estimator.add(step * SECOND_NS, seen(share, looks)));
                let now = known(estimator.estimate(step * SECOND_NS));
                prop_assert!((now.value - share).abs() < 1e-9);
                prop_assert!(now.confidence >= last - 1e-9 && now.confidence <= 1.0);
                last = now.confidence;
            }
        }

        /// Whatever is observed, the estimate lies between the extremes of what was seen.
        #[test]
        fn the_estimate_stays_within_what_was_seen(
            shares in prop::collection::vec((0.0..1.0f64, 0.1..200.0f64), 1..60),
        ) {
            let mut estimator = estimator();
            for (step, (share, looks)) in shares.iter().enumerate() {
                estimator.add(step as u64 * SECOND_NS / 4, seen(*share, *looks));
            }
            let (low, high) = shares.iter().fold((1.0f64, 0.0f64), |(low, high), (share, _)| {
                (low.min(*share), high.max(*share))
            });
            let now = known(estimator.estimate(60 * SECOND_NS));
            prop_assert!(now.value >= low - 1e-9 && now.value <= high + 1e-9);
            prop_assert!((0.0..=1.0).contains(&now.confidence));
        }

        #[test]
        fn an_average_forgets_half_in_a_half_life(first in 0.0..1e6f64, second in 0.0..1e6f64) {
            let mut average = Average::new(Duration::from_secs(2), Duration::from_secs(30));
            average.add(0, first, 1.0);
            average.add(2 * SECOND_NS, second, 1.0);
            let now = known(average.estimate(2 * SECOND_NS));
            prop_assert!((now.value - (first * 0.5 + second) / 1.5).abs() < 1e-6);
        }
    }

    #[test]
    fn a_clear_change_is_taken_at_once() {
        let mut estimator = estimator();
        for step in 0..20 {
            estimator.add(step * SECOND_NS / 4, seen(1.0, 30.0));
        }
        assert!(estimator.add(6 * SECOND_NS, seen(0.5, 30.0)));
        assert_eq!(estimator.estimate(6 * SECOND_NS).map(|now| now.value), Some(0.5));
    }

    #[test]
    fn noise_is_averaged() {
        let mut estimator = estimator();
        for step in 0..20 {
            let share = if step % 2 == 0 { 0.45 } else { 0.55 };
            assert!(!estimator.add(step * SECOND_NS / 4, seen(share, 30.0)));
        }
    }

    #[test]
    fn seldom_looks_are_remembered_for_longer_than_many() {
        let after = |looks: f64| {
            let mut estimator = estimator();
            for (step, share) in [0.4, 0.4, 0.6].into_iter().enumerate() {
                estimator.add(step as u64 * 20 * SECOND_NS, seen(share, looks));
            }
            known(estimator.estimate(40 * SECOND_NS)).value
        };
        assert!(after(10.0) < 0.5, "{}", after(10.0));
        assert!(after(100.0) > 0.59, "{}", after(100.0));
    }

    #[test]
    fn what_is_confirmed_is_fresh() {
        let mut estimator = estimator();
        estimator.confirm(0);
        assert!(estimator.estimate(0).is_none());
        estimator.add(0, seen(0.5, 100.0));
        let before = known(estimator.estimate(60 * SECOND_NS));
        estimator.confirm(60 * SECOND_NS);
        let after = known(estimator.estimate(60 * SECOND_NS));
        assert!(before.trusted().is_none() && after.trusted() == Some(0.5));
    }

    #[test]
    fn few_looks_are_no_certainty_and_age_takes_it_away() {
        let mut estimator = estimator();
        estimator.add(0, seen(1.0, 1.0));
        assert!(estimator.estimate(0).is_some_and(|now| now.trusted().is_none()));
        estimator.add(1, seen(1.0, 100.0));
        assert!(estimator.estimate(1).is_some_and(|now| now.trusted().is_some()));
        let later = estimator.estimate(60 * SECOND_NS);
        assert!(later.is_some_and(|now| now.trusted().is_none() && now.value == 1.0));
    }
}
