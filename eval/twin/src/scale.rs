// SPDX-License-Identifier: GPL-2.0-only
//! What a decision costs at 12 to 1024 vCPUs. On the wake-up path it must not grow with their number.

use std::fmt::Write;

use crate::bpf::call::{Callback, CallbackCounts};
use crate::bpf::lines::COUNTED;
use crate::guest::Class;
use crate::run::{Outcome, run};
use crate::scenario::parse;
use crate::{arm, sim};

/// Of virtual time, for each size.
const LENGTH_MS: u64 = 100;

/// A service for each four vCPUs, with two workers, and a task that computes, on half as many cores.
/// Cache lines of decisions are counted if asked for; that takes longer.
///
/// # Errors
/// A violation, or those of [`run`].
pub fn measure(vcpus: usize, length_ms: u64, counts_lines: bool) -> anyhow::Result<Outcome> {
    let mut text = format!(
        "length_ms = {length_ms}\n\
         guest = {{ vcpus = {vcpus} }}\n\
         host = {{ cores = {cores} }}\n\
         [[work]]\n\
         name = \"compute\"\n\
         kind = {{ compute = {{ tasks = {services}, chunk_us = 1000 }} }}\n",
        cores = vcpus / 2,
        services = vcpus / 4,
    );
    for _ in 0..vcpus / 4 {
        text += "[[work]]\n\
                 name = \"requests\"\n\
                 kind = { requests = { workers = 2, interval_us = 500, service_us = 400 } }\n";
    }
    let scenario = parse(&text).map_err(anyhow::Error::msg)?;
    let (s, tasks) = scenario.build(Class::Scx { policies: arm::all_policies() }, 1);
    COUNTED.set(counts_lines);
    let outcome = run(s, tasks, length_ms * sim::MS);
    COUNTED.set(false);
    let outcome = outcome?;
    match crate::report::violation(&outcome) {
        Some(violation) => anyhow::bail!(violation),
        None => Ok(outcome),
    }
}

/// The costs of one callback.
pub fn counts(outcome: &Outcome, callback: Callback) -> CallbackCounts {
    outcome.callbacks.get(&callback).copied().unwrap_or_default()
}

/// A table in Markdown.
///
/// # Errors
/// Those of [`measure`].
pub fn table() -> anyhow::Result<String> {
    let mut out = String::from(
        "| vCPUs | simulated s per s | events per s | callback | calls | kernel calls: mean, most | \
         loop turns: mean, most | cache lines: mean, most |\n|---|---|---|---|---|---|---|---|\n",
    );
    for vcpus in [12, 32, 128, 512, 1024] {
        let began = std::time::Instant::now();
        let outcome = measure(vcpus, LENGTH_MS, false)?;
        let wall = began.elapsed().as_secs_f64();
        let counted = measure(vcpus, LENGTH_MS, true)?;
        for callback in [Callback::SelectCpu, Callback::Enqueue, Callback::Dispatch] {
            let c = counts(&counted, callback);
            let per_call = |sum: u64| sum as f64 / c.calls.max(1) as f64;
            let _ = writeln!(
                out,
                "| {vcpus} | {:.2} | {:.0} | {callback:?} | {} | {:.1}, {} | {:.1}, {} | {:.1}, {} |",
                LENGTH_MS as f64 / 1e3 / wall,
                outcome.events as f64 / wall,
                c.calls,
                per_call(c.kfuncs),
                c.kfuncs_max,
                per_call(c.iterations),
                c.iterations_max,
                per_call(c.lines),
                c.lines_max,
            );
        }
    }
    Ok(out)
}
