// SPDX-License-Identifier: GPL-2.0-only
//! Each vCPU, by its kernel number (label `cpu`, as in node_exporter), and the VM as their sum. The
//! most important families come first: on VMs with very many vCPUs the last ones may not fit.

use std::fmt::Result;

use probers::snapshot::{CAPACITY_SCALE, Estimate, Group, Vcpu, VcpuSnapshot, Verdict};
use prometheus_client::registry::Unit;

use super::page::Page;
use super::{NS_PER_S, Sample};
use crate::stats::VcpuStats;

/// The unit of values from 0 to 1, as Prometheus names it.
fn ratio() -> Option<Unit> {
    Some(Unit::Other("ratio".into()))
}

pub fn encode(sample: &Sample, page: &mut Page<'_>) -> Result {
    encode_vm(sample, page)?;
    if let Some(stats) = &sample.stats {
        let each = |value: fn(&VcpuStats) -> f64| {
            let possible = sample.vcpus.possible.iter();
            let known = possible.filter_map(|&cpu| Some((cpu, stats.vcpus.get(cpu as usize)?)));
            known.map(|(cpu, stats)| ([("cpu", cpu)], value(stats))).collect()
        };
        page.counters(
            ("vcpu_stolen", Some(Unit::Seconds), "Time that the hypervisor took from its tasks"),
            each(|vcpu| vcpu.stolen_ns as f64 / NS_PER_S),
        )?;
        page.counters(
            ("vcpu_run", Some(Unit::Seconds), "Time that its tasks ran, stolen time not counted"),
            each(|vcpu| vcpu.run_ns.iter().sum::<u64>() as f64 / NS_PER_S),
        )?;
        page.counters(
            ("vcpu_wait", Some(Unit::Seconds), "Time that the tasks it ran had waited for it"),
            each(|vcpu| vcpu.wait_ns.iter().sum::<u64>() as f64 / NS_PER_S),
        )?;
        page.counters(
            ("vcpu_switches", None, "Tasks put on it"),
            each(|vcpu| vcpu.switches as f64),
        )?;
    }
    match &sample.snapshot {
        Some((snapshot, _)) => encode_probed(snapshot, page),
        None => Ok(()),
    }
}

fn encode_vm(sample: &Sample, page: &mut Page<'_>) -> Result {
    let mut conditions = vec![
        ([("condition", "online")], sample.vcpus.online.len() as f64),
        ([("condition", "possible")], sample.vcpus.possible.len() as f64),
    ];
    if let Some((snapshot, _)) = &sample.snapshot {
        let stacked = snapshot.topology.nr_stacked();
        conditions.push(([("condition", "straggler")], snapshot.stragglers().count() as f64));
        conditions.push(([("condition", "stacked")], stacked as f64));
    }
    page.gauges(("vcpus", None, "vCPUs by condition; one can be in several"), conditions)?;

    let Some((snapshot, _)) = &sample.snapshot else { return Ok(()) };
    if let Some(effective) = snapshot.effective_vcpus {
        page.gauge(
            ("effective_vcpus", None, "So many whole cores does the VM get: the sum of the shares"),
            effective.value,
        )?;
    }
    let levels = snapshot.topology.levels();
    page.gauges(
        ("topology_groups", None, "Groups of two and more vCPUs that were found, by level"),
        levels.map(|(level, groups)| ([("level", level)], groups.len() as f64)).into(),
    )
}

fn encode_probed(snapshot: &VcpuSnapshot, page: &mut Page<'_>) -> Result {
    let each = |value: fn(&Vcpu) -> Option<Estimate>, scale: f64| {
        let known = snapshot.vcpus.iter().filter_map(|vcpu| Some((vcpu.id, value(vcpu)?)));
        known.map(|(cpu, estimate)| ([("cpu", cpu)], estimate.value * scale)).collect()
    };
    page.gauges(
        ("vcpu_capacity", ratio(), "Share of a core times its speed, 0 to 1"),
        each(|vcpu| vcpu.capacity, 1.0 / CAPACITY_SCALE),
    )?;
    let straggler = |vcpu: &Vcpu| f64::from(u8::from(vcpu.verdict == Verdict::Straggler));
    page.gauges(
        ("vcpu_straggler", None, "1 if normal work should stay away from it"),
        snapshot.vcpus.iter().map(|vcpu| ([("cpu", vcpu.id)], straggler(vcpu))).collect(),
    )?;
    page.gauges(
        ("vcpu_share", ratio(), "Part of the time it wanted to run that it ran, 0 to 1"),
        each(|vcpu| vcpu.share_ratio, 1.0),
    )?;
    page.gauges(
        ("vcpu_speed", ratio(), "Speed while it runs, relative to the best vCPU"),
        each(|vcpu| vcpu.speed_ratio, 1.0),
    )?;
    page.gauges(
        ("vcpu_inactive_typical", Some(Unit::Seconds), "Median time for which it was stopped"),
        each(|vcpu| vcpu.inactive_p50_ns, 1.0 / NS_PER_S),
    )?;
    page.gauges(
        ("vcpu_wakeup_latency", Some(Unit::Seconds), "Median time to wake it when it is halted"),
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
        "The groups that it is in, each named by its lowest vCPU; its own number if in none",
        infos.collect(),
    )
}

fn group_of(groups: &[Group], vcpu: u32) -> String {
    let group = groups.iter().find(|group| group.members.contains(&vcpu));
    group.and_then(|group| group.members.first()).unwrap_or(&vcpu).to_string()
}
