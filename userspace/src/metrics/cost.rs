// SPDX-License-Identifier: GPL-2.0-only
//! What the daemon and the kernel half cost themselves.

use std::fmt::Result;

use prometheus_client::registry::Unit;

use super::Sample;
use super::page::Page;

pub fn encode(sample: &Sample, page: &mut Page<'_>) -> Result {
    let cost = &sample.cost;
    page.gauge(
        (
            "last_scrape_duration",
            Some(Unit::Seconds),
            "Time that the daemon took to write the last page of metrics",
        ),
        cost.last_scrape.as_secs_f64(),
    )?;
    let seconds = cost.programs.iter().map(|(n, time, _)| ([("prog", n)], time.as_secs_f64()));
    page.counters(
        (
            "bpf_run",
            Some(Unit::Seconds),
            "Run time of each BPF program of scx_vaware, while kernel.bpf_stats_enabled is set",
        ),
        seconds.collect(),
    )?;
    let runs = cost.programs.iter().map(|(name, _, runs)| ([("prog", name)], *runs as f64));
    page.counters(
        (
            "bpf_runs",
            None,
            "Runs of each BPF program of scx_vaware, while kernel.bpf_stats_enabled is set",
        ),
        runs.collect(),
    )
}

pub fn encode_process(sample: &Sample, page: &mut Page<'_>) -> Result {
    page.counter(
        ("process_cpu", Some(Unit::Seconds), "CPU time that the daemon has used"),
        sample.cost.cpu.as_secs_f64(),
    )?;
    page.gauge(
        (
            "process_start_time",
            Some(Unit::Seconds),
            "Start of the daemon, in seconds since the epoch",
        ),
        sample.cost.started.as_secs_f64(),
    )?;
    page.gauge(
        ("process_resident_memory", Some(Unit::Bytes), "Memory of the daemon that is in RAM"),
        sample.cost.resident_bytes as f64,
    )
}
