// SPDX-License-Identifier: GPL-2.0-only
//! What a decision costs at 12 to 1024 vCPUs. On the wake-up path it must not grow with their number.

use std::fmt::Write;

use crate::bpf::call::{Callback, CallbackCounts};
use crate::bpf::lines::COUNTED;
use crate::costs::Costs;
use crate::guest::GuestConfig;
use crate::guest::task::NewTask;
use crate::host::{Host, HostConfig, Thread, ThreadKind};
use crate::run::{Outcome, run};
use crate::sim::{MS, Sim, US};
use crate::work::compute::Compute;
use crate::work::requests::{self, Service};
use intf::ALL_POLICIES;

/// Of virtual time, for each size.
const LENGTH_MS: u64 = 100;

/// A service for each four vCPUs, with two workers, and a task that computes, on half as many cores.
fn build(vcpus: usize) -> (Sim, Vec<NewTask>) {
    let mut host = Host::new(HostConfig::default(), vcpus / 2, 1);
    for v in 0..vcpus {
        host.threads.push(Thread::new(ThreadKind::Vcpu(v), vec![v % (vcpus / 2)]));
    }
    let mut s = Sim::new(1, Costs::default(), host, GuestConfig::new(vcpus, ALL_POLICIES));
    let services = vcpus / 4;
    let mut tasks: Vec<_> = (0..services)
        .map(|n| NewTask::new(format!("compute-{n}"), 0, Compute::new("compute", MS)))
        .collect();
    let service =
        Service { workers: 2, interval_ns: 500 * US, service_ns: 400 * US, random_service: false };
    for process in 1..=services {
        tasks.extend(requests::tasks(&mut s, "requests", service, process));
    }
    (s, tasks)
}

/// Run the services of [`build`]. Cache lines of decisions are counted if asked for; that takes longer.
///
/// # Errors
/// A violation, or those of [`run`].
pub fn measure(vcpus: usize, length_ms: u64, counts_lines: bool) -> anyhow::Result<Outcome> {
    let (s, tasks) = build(vcpus);
    COUNTED.set(counts_lines);
    let outcome = run(s, tasks, length_ms * MS);
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
