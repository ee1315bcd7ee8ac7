// SPDX-License-Identifier: GPL-2.0-only
//! What a decision costs at 12 to 1024 vCPUs. On the wake-up path it must not grow with their number.

use std::fmt::Write;

use crate::bpf::call::{Callback, CallbackCounts};
use crate::guest::Class;
use crate::run::{Outcome, run};
use crate::scenario::parse;
use crate::{arm, sim};

/// Half of the vCPUs serve requests, a quarter computes, on half as many cores.
///
/// # Errors
/// A violation, or those of [`run`].
pub fn measure(vcpus: usize, length_ms: u64) -> anyhow::Result<Outcome> {
    let text = format!(
        "length_ms = {length_ms}\n\
         guest = {{ vcpus = {vcpus} }}\n\
         host = {{ cores = {cores} }}\n\
         [[work]]\n\
         name = \"requests\"\n\
         kind = {{ requests = {{ workers = {cores}, interval_us = {interval}, service_us = 400 }} }}\n\
         [[work]]\n\
         name = \"compute\"\n\
         kind = {{ compute = {{ tasks = {tasks}, chunk_us = 1000 }} }}\n",
        cores = vcpus / 2,
        interval = (2000 / vcpus).max(1),
        tasks = vcpus / 4,
    );
    let scenario = parse(&text).map_err(anyhow::Error::msg)?;
    let (s, tasks) = scenario.build(Class::Scx { policies: arm::all_policies() }, 1);
    let outcome = run(s, tasks, length_ms * sim::MS)?;
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
         loop turns: mean, most |\n|---|---|---|---|---|---|---|\n",
    );
    for vcpus in [12, 32, 128, 512, 1024] {
        let length_ms = if vcpus > 128 { 100 } else { 500 };
        let began = std::time::Instant::now();
        let outcome = measure(vcpus, length_ms)?;
        let wall = began.elapsed().as_secs_f64();
        for callback in [Callback::SelectCpu, Callback::Enqueue, Callback::Dispatch] {
            let c = counts(&outcome, callback);
            let per_call = |sum: u64| sum as f64 / c.calls.max(1) as f64;
            let _ = writeln!(
                out,
                "| {vcpus} | {:.2} | {:.0} | {callback:?} | {} | {:.1}, {} | {:.1}, {} |",
                length_ms as f64 / 1e3 / wall,
                outcome.events as f64 / wall,
                c.calls,
                per_call(c.kfuncs),
                c.kfuncs_max,
                per_call(c.iterations),
                c.iterations_max,
            );
        }
    }
    Ok(out)
}
