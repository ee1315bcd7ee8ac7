// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler did, over all vCPUs: decisions, waits, run time by class, lock waits.

use std::fmt::Result;

use prometheus_client::registry::Unit;

use super::page::Page;
use super::{NS_PER_S, Sample};
use crate::stats::VcpuStats;
use intf::{CLASSES, COUNTERS, TARGETS, VAWARE_KICKS, VAWARE_LOCK_WAITS_LONG};

/// Kernel events beyond so many kinds are not exported: their number is the kernel's choice.
const MAX_KERNEL_EVENTS: usize = 40;

/// Whether a counter counts what comes of decisions, and not decisions.
fn is_event(counter: u32) -> bool {
    [VAWARE_KICKS, VAWARE_LOCK_WAITS_LONG].contains(&counter)
}

pub fn encode(sample: &Sample, page: &mut Page<'_>) -> Result {
    let Some(stats) = &sample.stats else { return Ok(()) };
    let total = stats.total();
    let decisions =
        (0..).zip(COUNTERS).zip(total.counters).filter(|((kind, _), _)| !is_event(*kind));
    page.counters(
        (
            "decisions",
            None,
            "Decisions of the scheduler by kind; one task on its way to a vCPU can count in several",
        ),
        decisions.map(|((_, name), count)| ([("decision", name)], count as f64)).collect(),
    )?;
    page.counter(
        ("kicks", None, "Inter-processor interrupts that the scheduler has asked for"),
        total.counters[VAWARE_KICKS as usize] as f64,
    )?;
    page.counter(
        ("long_lock_waits", None, "Waits for kernel spinlocks of 1 ms or more"),
        total.counters[VAWARE_LOCK_WAITS_LONG as usize] as f64,
    )?;
    page.counter(
        (
            "shootdown_wait",
            Some(Unit::Seconds),
            "Time that tasks have waited for other vCPUs at TLB shootdowns of 0.1 ms or more",
        ),
        total.shootdown_ns as f64 / NS_PER_S,
    )?;
    page.counter(
        (
            "bvs_predicted_wait",
            Some(Unit::Seconds),
            "Expected waits of the tasks that the policy bvs has placed",
        ),
        total.bvs_predicted_ns as f64 / NS_PER_S,
    )?;
    page.counter(
        (
            "bvs_actual_wait",
            Some(Unit::Seconds),
            "Actual waits of the tasks that the policy bvs has placed",
        ),
        total.bvs_actual_ns as f64 / NS_PER_S,
    )?;
    page.counter(
        ("switches", None, "Waits of tasks that ended with the task on a vCPU"),
        total.switches as f64,
    )?;
    encode_blocking(&total, page)?;

    let waits = CLASSES.iter().enumerate().map(|(class, name)| {
        let buckets = total.wait_hist[class].iter().enumerate().map(|(bucket, count)| {
            let last = bucket + 1 == total.wait_hist[class].len();
            (if last { f64::INFINITY } else { (1u64 << bucket) as f64 / 1e6 }, *count)
        });
        ([("class", *name)], total.wait_ns[class] as f64 / NS_PER_S, buckets.collect())
    });
    page.histograms(
        ("runqueue_wait", Some(Unit::Seconds), "Time from runnable to running of tasks, by class"),
        waits.collect(),
    )?;
    let by_class = |values: [u64; CLASSES.len()]| {
        CLASSES.iter().zip(values).map(|(name, ns)| ([("class", *name)], ns as f64 / NS_PER_S))
    };
    page.counters(
        ("run", Some(Unit::Seconds), "Run time of tasks by class, without steal time"),
        by_class(total.run_ns).collect(),
    )?;
    let events = sample.kernel_events.iter().take(MAX_KERNEL_EVENTS);
    page.counters(
        ("kernel_events", None, "The kernel's own sched_ext counters since load, by event"),
        events.map(|(name, count)| ([("event", name.as_str())], *count as f64)).collect(),
    )
}

/// How work blocks: measured while a policy goes by it.
fn encode_blocking(total: &VcpuStats, page: &mut Page<'_>) -> Result {
    let by_target = |values: [f64; TARGETS.len()]| {
        TARGETS.iter().zip(values).map(|(name, value)| ([("target", *name)], value)).collect()
    };
    page.counters(
        ("wakes", None, "Wake-ups of tasks, by what the vCPU did to which they were sent"),
        by_target(total.wakes.map(|wakes| wakes as f64)),
    )?;
    page.counters(
        ("wake_wait", Some(Unit::Seconds), "Time that these tasks waited until they ran"),
        by_target(total.wake_wait_ns.map(|ns| ns as f64 / NS_PER_S)),
    )?;
    let together = total.wakes_together.iter().enumerate();
    page.counters(
        (
            "wakes_together",
            None,
            "The same wake-ups, by the least number that one vCPU sent off together",
        ),
        together
            .map(|(bucket, wakes)| ([("together", (1u64 << bucket).to_string())], *wakes as f64))
            .collect(),
    )?;
    page.counter(("sleeps", None, "Bursts of tasks that a sleep ended"), total.sleeps as f64)?;
    page.counter(
        ("slept_burst", Some(Unit::Seconds), "Run time of these bursts"),
        total.slept_burst_ns as f64 / NS_PER_S,
    )
}
