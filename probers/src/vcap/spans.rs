// SPDX-License-Identifier: GPL-2.0-only
//! The lengths of recent periods, and their quantiles.

use std::collections::VecDeque;
use std::time::Duration;

use crate::snapshot::Estimate;

/// Enough for a p95, and few enough to be recent.
const KEPT: usize = 256;

/// The latest lengths of one kind of period of one vCPU.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    /// Length in ns, and how many such periods it stands for.
    recent: VecDeque<(u64, f64)>,
    updated_ns: u64,
}

impl Spans {
    /// Add one length. `weight` is one over the probability that such a period is noticed at all.
    pub fn add(&mut self, now_ns: u64, length_ns: u64, weight: f64) {
        self.updated_ns = now_ns;
        if self.recent.len() == KEPT {
            self.recent.pop_front();
        }
        self.recent.push_back((length_ns, weight));
    }

    /// Forget all: they are of a time that is over.
    pub fn clear(&mut self) {
        self.recent.clear();
    }

    /// The same as an estimate that loses half of its confidence in `validity`.
    pub fn estimate(&self, now_ns: u64, quantile: f64, validity: Duration) -> Option<Estimate> {
        let age_ns = now_ns.saturating_sub(self.updated_ns) as f64;
        let lengths = self.recent.len() as f64;
        Some(Estimate {
            value: self.quantile_ns(quantile)? as f64,
            age_s: age_ns / 1e9,
            confidence: lengths / (lengths + 2.0)
                * 0.5f64.powf(age_ns / validity.as_nanos().max(1) as f64),
        })
    }

    /// The length that `quantile` (0 to 1) of the periods do not exceed.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let mut sorted: Vec<_> = self.recent.iter().copied().collect();
        sorted.sort_by_key(|(length_ns, _)| *length_ns);
        let total: f64 = sorted.iter().map(|(_, weight)| weight).sum();
        let mut seen = 0.0;
        for (length_ns, weight) in &sorted {
            seen += weight;
            if seen >= total * quantile {
                return Some(*length_ns);
            }
        }
        sorted.last().map(|(length_ns, _)| *length_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_quantile_is_one_of_the_latest_lengths_and_grows(
            lengths in prop::collection::vec(1u64..1_000_000, 1..600),
            low in 0.0..1.0f64,
            high in 0.0..1.0f64,
        ) {
            let mut spans = Spans::default();
            lengths.iter().for_each(|length| spans.add(0, *length, 1.0));
            let kept = &lengths[lengths.len().saturating_sub(KEPT)..];
            let (low, high) = (low.min(high), low.max(high));
            let (low_ns, high_ns) = (spans.quantile_ns(low), spans.quantile_ns(high));
            prop_assert!(low_ns.is_some_and(|length| kept.contains(&length)));
            prop_assert!(low_ns <= high_ns);
        }
    }

    #[test]
    fn weights_count_as_repetitions() {
        let mut spans = Spans::default();
        spans.add(0, 1, 9.0);
        spans.add(0, 100, 1.0);
        assert_eq!(spans.quantile_ns(0.5), Some(1));
        assert_eq!(spans.quantile_ns(0.95), Some(100));
    }

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!(Spans::default().quantile_ns(0.5), None);
    }
}
