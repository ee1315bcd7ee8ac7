// SPDX-License-Identifier: GPL-2.0-only
//! Scenarios with a reference, side by side: the figure of a paper or of a lab VM, and the twin's.

use std::fmt::Write;
use std::path::Path;

use anyhow::Context;

use crate::scenario::{Metric, Scenario, parse};
use crate::{arm, report, run};

/// The value of a scenario's main metric under a scheduler, one for each seed.
///
/// # Errors
/// A violation, or nothing to measure.
pub fn values(scenario: &Scenario, scheduler: &str, seeds: u64) -> anyhow::Result<Vec<f64>> {
    let metric = scenario.metric.first().context("it has no [[metric]]; add one")?;
    let counted = scenario.length_ns() - scenario.warm_up_ms * 1_000_000;
    (1..=seeds)
        .map(|seed| {
            let class = arm::parse(scheduler).map_err(anyhow::Error::msg)?;
            let (sim, tasks) = scenario.build(class, seed);
            let outcome = run::run(sim, tasks, scenario.length_ns())?;
            if let Some(violation) = report::violation(&outcome) {
                anyhow::bail!("{scheduler}, seed {seed}: {violation}");
            }
            report::value(&outcome, metric, counted).context("nothing was counted; run it longer")
        })
        .collect()
}

/// How much better `new` is than `old`: more than 1 is better.
fn better(metric: &Metric, old: f64, new: f64) -> f64 {
    if metric.higher_is_better() { new / old } else { old / new }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// The median of the ratios of pairs of runs with the same seed, the least and the greatest.
fn ratios(metric: &Metric, old: &[f64], new: &[f64]) -> (f64, f64, f64) {
    let mut ratios: Vec<f64> =
        old.iter().zip(new).map(|(old, new)| better(metric, *old, *new)).collect();
    ratios.sort_by(f64::total_cmp);
    let of = |ratio: Option<&f64>| ratio.copied().unwrap_or(f64::NAN);
    (median(&ratios), of(ratios.first()), of(ratios.last()))
}

fn shown(metric: &Metric, value: f64) -> String {
    use crate::scenario::Stat;
    match metric.stat {
        Stat::Rate => format!("{:.1} ms/s", value / 1e6),
        Stat::Count => format!("{value:.0} /s"),
        _ => format!("{:.1} us", value / 1e3),
    }
}

/// A table in Markdown of all scenarios in a folder that have a reference.
///
/// # Errors
/// A file that cannot be read, and those of [`values`].
pub fn table(folder: &Path, seeds: u64) -> anyhow::Result<String> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .with_context(|| format!("reading {}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    let mut out = String::from(
        "| scenario | measured elsewhere | ratio there | twin, old | twin, scx_vaware | \
         twin's ratio (seeds) | of it by the policy | |\n|---|---|---|---|---|---|---|---|\n",
    );
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let in_file = || format!("{}", file.display());
        let scenario = parse(&text).map_err(anyhow::Error::msg).with_context(in_file)?;
        let (Some(reference), Some(metric)) = (&scenario.reference, scenario.metric.first()) else {
            continue;
        };
        let old = values(&scenario, &reference.baseline, seeds).with_context(in_file)?;
        let new = values(&scenario, "scx_vaware", seeds).with_context(in_file)?;
        let (ratio, low, high) = ratios(metric, &old, &new);
        let by_policy = match &reference.policy {
            Some(policy) => {
                let off = if policy == "all" {
                    "scx_vaware:none"
                } else {
                    &format!("scx_vaware:-{policy}")
                };
                let without = values(&scenario, off, seeds).with_context(in_file)?;
                let (ratio, low, high) = ratios(metric, &without, &new);
                format!("{policy}: {ratio:.2} ({low:.2} to {high:.2})")
            }
            None => String::new(),
        };
        let there = match (reference.ratio, reference.low, reference.high) {
            (Some(ratio), Some(low), Some(high)) => format!("{ratio:.2} ({low:.2} to {high:.2})"),
            (Some(ratio), ..) => format!("{ratio:.2}"),
            _ => "none given".into(),
        };
        let verdict = match (reference.low, reference.high) {
            (Some(from), Some(to)) if low <= to && high >= from => "agrees",
            (Some(_), Some(_)) => "**differs**",
            _ => "",
        };
        let _ = writeln!(
            out,
            "| {}: {} | {}: {} | {there} | {} | {} | {ratio:.2} ({low:.2} to {high:.2}) | {by_policy} | {} {} |",
            file.file_stem().unwrap_or_default().to_string_lossy(),
            scenario.about,
            reference.source,
            reference.arms,
            shown(metric, median(&old)),
            shown(metric, median(&new)),
            verdict,
            reference.note,
        );
    }
    Ok(out)
}
