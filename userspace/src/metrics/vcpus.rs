// SPDX-License-Identifier: GPL-2.0-only
//! Each vCPU, by its kernel number (label `cpu`, as in node_exporter), and the VM as their sum. The
//! most important families come first: on VMs with very many vCPUs the last ones may not fit.

use std::fmt::Result;
use std::time::Duration;

use probers::snapshot::{CAPACITY_SCALE, Estimate, Group, Vcpu, VcpuSnapshot, Verdict};
use prometheus_client::registry::Unit;

use super::page::Page;
use super::{NS_PER_S, Sample};
use crate::activity::Activity;
use crate::stats::VcpuStats;

/// The unit of values from 0 to 1, as Prometheus names it.
fn ratio() -> Option<Unit> {
    Some(Unit::Other("ratio".into()))
}

pub fn encode(sample: &Sample, page: &mut Page<'_>) -> Result {
    encode_vm(sample, page)?;
    encode_steal(sample, page)?;
    if let Some(stats) = &sample.stats {
        let each = |value: fn(&VcpuStats) -> f64| {
            let possible = sample.vcpus.possible.iter();
            let known = possible.filter_map(|&cpu| Some((cpu, stats.vcpus.get(cpu as usize)?)));
            known.map(|(cpu, stats)| ([("cpu", cpu)], value(stats))).collect()
        };
        page.counters(
            (
                "vcpu_run",
                Some(Unit::Seconds),
                "Run time of the tasks of each vCPU, without steal time",
            ),
            each(|vcpu| vcpu.run_ns.iter().sum::<u64>() as f64 / NS_PER_S),
        )?;
        page.counters(
            ("vcpu_wait", Some(Unit::Seconds), "Waits of the tasks that each vCPU has run"),
            each(|vcpu| vcpu.wait_ns.iter().sum::<u64>() as f64 / NS_PER_S),
        )?;
        page.counters(
            ("vcpu_switches", None, "Waits that ended with the task on this vCPU"),
            each(|vcpu| vcpu.switches as f64),
        )?;
    }
    encode_activity(sample, page)?;
    match &sample.snapshot {
        Some(snapshot) => encode_probed(snapshot, page),
        None => Ok(()),
    }
}

/// Steal time by what the vCPU did: tasks are not charged for the part while running.
fn encode_steal(sample: &Sample, page: &mut Page<'_>) -> Result {
    let running =
        |cpu: usize| Some(sample.stats.as_ref()?.vcpus.get(cpu)?.stolen_ns as f64 / NS_PER_S);
    let waking = |cpu: usize| Some(sample.activity.get(cpu)?.stolen_waking.as_secs_f64());
    let series = sample.vcpus.possible.iter().flat_map(|&cpu| {
        let states = [("running", running(cpu as usize)), ("waking", waking(cpu as usize))];
        let known = states.into_iter().filter_map(|(state, value)| Some((state, value?)));
        known.map(move |(state, value)| {
            ([("cpu", cpu.to_string()), ("state", state.to_string())], value)
        })
    });
    page.counters(
        (
            "vcpu_steal",
            Some(Unit::Seconds),
            "Steal time of each vCPU, while a task ran and while it woke up from idle",
        ),
        series.collect(),
    )
}

fn encode_activity(sample: &Sample, page: &mut Page<'_>) -> Result {
    let possible = sample.vcpus.possible.iter();
    let known: Vec<_> =
        possible.filter_map(|&cpu| Some((cpu, sample.activity.get(cpu as usize)?))).collect();
    let each = |value: fn(&Activity) -> f64| {
        known.iter().map(|(cpu, activity)| ([("cpu", *cpu)], value(activity))).collect()
    };
    page.counters(
        ("vcpu_idle", Some(Unit::Seconds), "Time in which each vCPU had nothing to run"),
        each(|activity| activity.idle.as_secs_f64()),
    )?;
    page.counters(
        (
            "vcpu_preemptions",
            None,
            "Times that the host stopped each vCPU for 50 us or more while it had work",
        ),
        each(|activity| activity.preemptions as f64),
    )?;
    let banned = sample.bans.iter().map(|(cpu, ban)| ([("cpu", *cpu)], f64::from(ban.now)));
    page.gauges(
        ("vcpu_banned", None, "1 while normal work is kept away from the vCPU, else 0"),
        banned.collect(),
    )?;
    let banned = sample.bans.iter().map(|(cpu, ban)| ([("cpu", *cpu)], ban.total.as_secs_f64()));
    page.counters(
        (
            "vcpu_banned",
            Some(Unit::Seconds),
            "Time for which normal work was kept away from the vCPU",
        ),
        banned.collect(),
    )?;

    let typical = |seen: fn(&Activity) -> Option<Duration>,
                   probed: fn(&Vcpu) -> Option<Estimate>| {
        let found = |cpu| sample.snapshot.as_ref().and_then(|snapshot| snapshot.vcpu(cpu));
        let seconds = known.iter().filter_map(|(cpu, activity)| {
            let probed = || Some(probed(found(*cpu)?)?.value / NS_PER_S);
            let seconds = seen(activity).map(|typical| typical.as_secs_f64()).or_else(probed)?;
            Some(([("cpu", *cpu)], seconds))
        });
        seconds.collect()
    };
    page.gauges(
        (
            "vcpu_inactive_typical",
            Some(Unit::Seconds),
            "Median time for which the host stops the vCPU while it has work",
        ),
        typical(|seen| seen.inactive_typical, |probed| probed.inactive_p50_ns),
    )?;
    page.gauges(
        (
            "vcpu_active_typical",
            Some(Unit::Seconds),
            "Median time that the vCPU runs until the host stops it for long",
        ),
        typical(|seen| seen.active_typical, |probed| probed.active_p50_ns),
    )
}

fn encode_vm(sample: &Sample, page: &mut Page<'_>) -> Result {
    let (online, possible) = (sample.vcpus.online.len(), sample.vcpus.possible.len());
    page.gauges(
        ("vcpus", None, "vCPUs of the VM, by state"),
        vec![
            ([("state", "online")], online as f64),
            ([("state", "offline")], possible.saturating_sub(online) as f64),
        ],
    )?;
    page.gauge(
        ("banned_vcpus", None, "vCPUs that normal work is kept away from"),
        sample.bans.values().filter(|ban| ban.now).count() as f64,
    )?;
    if let Some(snapshot) = &sample.snapshot {
        page.gauge(
            ("straggler_vcpus", None, "vCPUs that are far slower than the others"),
            snapshot.stragglers().count() as f64,
        )?;
        page.gauge(
            ("stacked_vcpus", None, "vCPUs that share a hardware thread with another vCPU"),
            snapshot.topology.nr_stacked() as f64,
        )?;
    }

    if !sample.activity.is_empty() {
        let sum = |value: fn(&Activity) -> Duration| {
            sample.activity.iter().map(value).sum::<Duration>().as_secs_f64()
        };
        page.counter(
            (
                "idle_periods",
                None,
                "Times that a vCPU had nothing more to run, most of which halt it",
            ),
            sample.activity.iter().map(|activity| activity.idle_periods).sum::<u64>() as f64,
        )?;
        page.counter(
            (
                "stolen_by_beats",
                Some(Unit::Seconds),
                "Steal time of all vCPUs, by late heartbeats alone",
            ),
            sum(|activity| activity.stolen_by_beats),
        )?;
        page.counter(
            (
                "stolen_by_clock",
                Some(Unit::Seconds),
                "Steal time of all vCPUs, by the kernel's steal clock alone; 0 where there is none",
            ),
            sum(|activity| activity.stolen_by_clock),
        )?;
    }
    let Some(snapshot) = &sample.snapshot else { return Ok(()) };
    if let Some(effective) = snapshot.effective_vcpus {
        page.gauge(
            ("effective_vcpus", None, "Sum of the known shares of the vCPUs, in whole cores"),
            effective.value,
        )?;
    }
    let levels = snapshot.topology.levels();
    page.gauges(
        ("topology_groups", None, "Groups of two or more vCPUs that share a level of the topology"),
        levels.map(|(level, groups)| ([("level", level)], groups.len() as f64)).into(),
    )
}

fn encode_probed(snapshot: &VcpuSnapshot, page: &mut Page<'_>) -> Result {
    let each = |value: fn(&Vcpu) -> Option<Estimate>, scale: f64| {
        let known = snapshot.vcpus.iter().filter_map(|vcpu| Some((vcpu.id, value(vcpu)?)));
        known.map(|(cpu, estimate)| ([("cpu", cpu)], estimate.value * scale)).collect()
    };
    page.gauges(
        ("vcpu_capacity", ratio(), "Capacity of the vCPU: share times speed, 0 to 1"),
        each(|vcpu| vcpu.capacity, 1.0 / CAPACITY_SCALE),
    )?;
    let straggler = |vcpu: &Vcpu| f64::from(u8::from(vcpu.verdict == Verdict::Straggler));
    page.gauges(
        ("vcpu_straggler", None, "1 if the vCPU is far slower than the others, else 0"),
        snapshot.vcpus.iter().map(|vcpu| ([("cpu", vcpu.id)], straggler(vcpu))).collect(),
    )?;
    page.gauges(
        ("vcpu_share", ratio(), "Part of the time it wanted to run in which the vCPU ran, 0 to 1"),
        each(|vcpu| vcpu.share_ratio, 1.0),
    )?;
    page.gauges(
        (
            "vcpu_speed",
            ratio(),
            "Speed of the vCPU while it runs, relative to the best of the VM, 0 to 1",
        ),
        each(|vcpu| vcpu.speed_ratio, 1.0),
    )?;
    page.gauges(
        (
            "vcpu_wakeup_latency",
            Some(Unit::Seconds),
            "Median time from the wake-up of the halted vCPU until it runs",
        ),
        each(|vcpu| vcpu.wakeup_latency_ns, 1.0 / NS_PER_S),
    )?;
    let groups = snapshot.topology.levels();
    let infos = snapshot.vcpus.iter().map(|vcpu| {
        let mut labels = vec![("cpu".to_string(), vcpu.id.to_string())];
        labels.extend(groups.map(|(level, groups)| (level.to_string(), group_of(groups, vcpu.id))));
        labels
    });
    page.infos(
        "vcpu",
        "Topology groups of the vCPU, each named by its lowest vCPU; always 1",
        infos.collect(),
    )
}

fn group_of(groups: &[Group], vcpu: u32) -> String {
    let group = groups.iter().find(|group| group.members.contains(&vcpu));
    group.and_then(|group| group.members.first()).unwrap_or(&vcpu).to_string()
}
