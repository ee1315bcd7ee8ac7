// SPDX-License-Identifier: GPL-2.0-only
//! What a run showed, as numbers and as text.

use std::fmt::Write;

use crate::arm::COUNTERS;
use crate::run::Outcome;
use crate::scenario::{Metric, Stat};
use crate::work::Tally;

impl Tally {
    /// The value below which `percent` of the samples are.
    pub fn percentile(&self, percent: usize) -> u64 {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(index).copied().unwrap_or(0)
    }

    pub fn mean(&self) -> u64 {
        self.sum / self.count.max(1)
    }
}

/// The value of a metric: ns, or per second for rates. None if there was nothing to count.
pub fn value(outcome: &Outcome, metric: &Metric, counted_ns: u64) -> Option<f64> {
    let tally = outcome.tallies.get(&metric.of)?;
    let per_second = |sum: u64| sum as f64 * 1e9 / counted_ns.max(1) as f64;
    Some(match metric.stat {
        Stat::Rate => per_second(tally.sum),
        Stat::Count => per_second(tally.count),
        Stat::Mean => tally.mean() as f64,
        Stat::P50 => tally.percentile(50) as f64,
        Stat::P95 => tally.percentile(95) as f64,
        Stat::P99 => tally.percentile(99) as f64,
        Stat::Max => tally.percentile(100) as f64,
    })
}

/// A run in full, for people.
pub fn text(outcome: &Outcome, counted_ns: u64) -> String {
    let mut out = String::new();
    let us = |ns: u64| ns as f64 / 1e3;
    let _ = writeln!(
        out,
        "  {:<16} {:>9} {:>10} {:>11} {:>10} {:>10} {:>10} {:>10}",
        "work", "events/s", "sum ms/s", "mean us", "p50 us", "p95 us", "p99 us", "max us"
    );
    for (name, tally) in &outcome.tallies {
        let _ = writeln!(
            out,
            "  {:<16} {:>9.0} {:>10.1} {:>11.1} {:>10.1} {:>10.1} {:>10.1} {:>10.1}",
            name,
            tally.count as f64 * 1e9 / counted_ns.max(1) as f64,
            tally.sum as f64 * 1e3 / counted_ns.max(1) as f64,
            us(tally.mean()),
            us(tally.percentile(50)),
            us(tally.percentile(95)),
            us(tally.percentile(99)),
            us(tally.percentile(100)),
        );
    }
    let total = |f: fn(&(u64, u64, u64)) -> u64| outcome.truth.iter().map(f).sum::<u64>();
    let length = outcome.length_ns.max(1) as f64;
    let _ = writeln!(
        out,
        "  vCPUs: ran {:.2} and lost {:.2} of {} on average; stopped {} times; {} switches, {} halts, \
         {} IPIs",
        total(|t| t.0) as f64 / length,
        total(|t| t.1) as f64 / length,
        outcome.truth.len(),
        total(|t| t.2),
        outcome.vcpus.iter().map(|v| v.switches).sum::<u64>(),
        outcome.vcpus.iter().map(|v| v.halts).sum::<u64>(),
        outcome.vcpus.iter().map(|v| v.ipis_sent).sum::<u64>(),
    );
    let counted: Vec<String> = COUNTERS
        .iter()
        .zip(&outcome.counters)
        .filter(|(_, value)| **value > 0)
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    if !counted.is_empty() {
        let _ = writeln!(out, "  decisions: {}", counted.join(", "));
    }
    out
}

/// A violation with the trace that led to it.
pub fn violation(outcome: &Outcome) -> Option<String> {
    let violation = outcome.violation.as_ref()?;
    let mut out = format!("violation at {} ns: {}\n", violation.at_ns, violation.what);
    for entry in outcome.last.iter().rev().take(200).rev() {
        let _ = writeln!(out, "{entry}");
    }
    Some(out)
}
