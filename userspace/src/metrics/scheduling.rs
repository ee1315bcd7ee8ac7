// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler did, over all vCPUs: decisions, waits, run time by class, lock waits.

use std::fmt::Result;

use prometheus_client::registry::Unit;

use super::page::Page;
use super::{NS_PER_S, Sample};
use crate::stats::VcpuStats;
use intf::{CLASSES, COUNTERS, TARGETS};

/// Kernel events beyond so many kinds are not exported: their number is the kernel's choice.
const MAX_KERNEL_EVENTS: usize = 40;

pub fn encode(sample: &Sample, page: &mut Page<'_>) -> Result {
    let Some(stats) = &sample.stats else { return Ok(()) };
    let total = stats.total();
    let decisions = COUNTERS.iter().zip(total.counters);
    page.counters(
        ("decisions", None, "Decisions that the scheduler took, by kind"),
        decisions.map(|(name, count)| ([("decision", *name)], count as f64)).collect(),
    )?;
    page.counter(
        (
            "bvs_predicted_wait",
            Some(Unit::Seconds),
            "Waits of the tasks that bvs placed, as foreseen",
        ),
        total.bvs_predicted_ns as f64 / NS_PER_S,
    )?;
    page.counter(
        ("bvs_actual_wait", Some(Unit::Seconds), "Waits of the same tasks, as they were"),
        total.bvs_actual_ns as f64 / NS_PER_S,
    )?;
    let trial = |policy: &'static str, values: [f64; 2]| {
        ["off", "on"].iter().zip(values).map(move |(on, value)| ([(policy, *on)], value)).collect()
    };
    let seconds = |ns: [u64; 2]| ns.map(|ns| ns as f64 / NS_PER_S);
    page.counters(
        (
            "ivh_trial_run",
            Some(Unit::Seconds),
            "Run time of CPU-bound tasks in epochs of ivh's trial",
        ),
        trial("ivh", seconds(total.ivh_run_ns)),
    )?;
    page.counters(
        (
            "ivh_trial_wall",
            Some(Unit::Seconds),
            "Time in which these tasks had work, in the same epochs",
        ),
        trial("ivh", seconds(total.ivh_wall_ns)),
    )?;
    page.counters(
        (
            "rescue_trial_wait",
            Some(Unit::Seconds),
            "Time that tasks woken on idle vCPUs waited in epochs of rescue's trial",
        ),
        trial("rescue", seconds(total.rescue_wait_ns)),
    )?;
    page.counters(
        ("rescue_trial_wakes", None, "Those tasks"),
        trial("rescue", total.rescue_wakes.map(|wakes| wakes as f64)),
    )?;
    page.counter(("switches", None, "Waits for a vCPU that ended"), total.switches as f64)?;
    encode_blocking(&total, page)?;

    let waits = CLASSES.iter().enumerate().map(|(class, name)| {
        let buckets = total.wait_hist[class].iter().enumerate().map(|(bucket, count)| {
            let last = bucket + 1 == total.wait_hist[class].len();
            (if last { f64::INFINITY } else { (1u64 << bucket) as f64 / 1e6 }, *count)
        });
        ([("class", *name)], total.wait_ns[class] as f64 / NS_PER_S, buckets.collect())
    });
    page.histograms(
        (
            "runqueue_wait",
            Some(Unit::Seconds),
            "Time that tasks waited for a vCPU after they became runnable",
        ),
        waits.collect(),
    )?;
    let by_class = |values: [u64; CLASSES.len()]| {
        CLASSES.iter().zip(values).map(|(name, ns)| ([("class", *name)], ns as f64 / NS_PER_S))
    };
    page.gauges(
        ("runqueue_wait_longest", Some(Unit::Seconds), "The longest wait since load"),
        by_class(total.wait_max_ns).collect(),
    )?;
    page.counters(
        ("run", Some(Unit::Seconds), "Time that tasks ran, stolen time not counted"),
        by_class(total.run_ns).collect(),
    )?;
    page.gauge(
        ("lock_wait_longest", Some(Unit::Seconds), "The longest spinlock wait of 1 ms or more"),
        total.lock_wait_max_ns as f64 / NS_PER_S,
    )?;
    let events = sample.kernel_events.iter().take(MAX_KERNEL_EVENTS);
    page.counters(
        ("kernel_events", None, "Events that the kernel's sched_ext counts, since load"),
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
