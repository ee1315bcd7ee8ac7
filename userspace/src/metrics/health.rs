// SPDX-License-Identifier: GPL-2.0-only
//! Whether the daemon and the scheduler are well, and what they are set to do.

use std::fmt::Result;

use prometheus_client::registry::Unit;

use super::Sample;
use super::page::Page;
use crate::health::State;
use crate::policy::POLICIES;

pub fn encode(sample: &Sample, page: &mut Page<'_>) -> Result {
    let health = &sample.health;
    let kvm = sample.announced.kvm_steal_clock;
    let steal_source = if kvm { intf::VAWARE_STEAL_KVM } else { intf::VAWARE_STEAL_BEATS };
    let steal_source = intf::STEAL_SOURCES[steal_source as usize];
    page.infos(
        "build",
        "The program's version",
        vec![[("version", env!("CARGO_PKG_VERSION").to_string())]],
    )?;
    page.infos(
        "vm",
        "What the hypervisor says of itself, and where stolen time is read from",
        vec![[("hypervisor", sample.announced.hypervisor.name()), ("steal_source", steal_source)]],
    )?;
    let states = State::ALL
        .map(|state| ([("state", state.name())], if state == health.state { 1.0 } else { 0.0 }));
    page.gauges(("state", None, "1 for the state that the scheduler is in"), states.into())?;
    page.gauge(
        (
            "kernel_sched_ext_enabled",
            None,
            "1 if the kernel says that sched_ext is enabled with this scheduler",
        ),
        f64::from(u8::from(health.enabled_as_us)),
    )?;
    page.counters(
        ("restarts", None, "Times that the scheduler was loaded again, by cause"),
        vec![
            ([("cause", "kernel")], health.restarts_asked as f64),
            ([("cause", "pause")], health.restarts_paused as f64),
        ],
    )?;
    page.counter(
        ("ejections", None, "Times since boot that the kernel has ejected the scheduler"),
        health.ejections as f64,
    )?;
    page.counter(
        ("vm_pauses", None, "Times that the whole VM did not run for 5 s and more"),
        health.pauses.count as f64,
    )?;
    page.counter(
        ("vm_paused", Some(Unit::Seconds), "Time that these pauses took"),
        health.pauses.total.as_secs_f64(),
    )?;
    page.counters(
        ("config_reloads", None, "Times that the configuration was read again"),
        vec![
            ([("outcome", "applied")], health.reloads_applied as f64),
            ([("outcome", "refused")], health.reloads_refused as f64),
        ],
    )?;
    page.gauge(
        (
            "config_last_reload_success",
            None,
            "0 if the configuration that was read last was wrong, or has keys that were ignored",
        ),
        f64::from(u8::from(health.last_reload_ok)),
    )?;
    page.counter(
        (
            "config_keys_ignored",
            None,
            "Changed keys that a reload has left for the next start of the daemon",
        ),
        health.keys_ignored as f64,
    )?;
    page.gauge(
        ("control_loop_age", Some(Unit::Seconds), "Time since the control loop last went round"),
        health.loop_age.as_secs_f64(),
    )?;
    page.gauge(
        (
            "snapshot_age",
            Some(Unit::Seconds),
            "Time since probing last told of the vCPUs, or since load; after 10 s they are unknown",
        ),
        health.snapshot_age.as_secs_f64(),
    )?;
    let restarts =
        health.probe_restarts.iter().map(|(name, count)| ([("prober", *name)], *count as f64));
    page.counters(
        ("probe_restarts", None, "Times that a prober has failed or hung, and was begun anew"),
        restarts.collect(),
    )?;
    let lost = health.lines_lost.iter().map(|(name, count)| ([("output", *name)], *count as f64));
    page.counters(
        ("output_lines_lost", None, "Lines of the daemon that could not be written, by output"),
        lost.collect(),
    )?;
    page.gauges(
        ("cgroups_ignored", None, "Cgroups in use whose CPU control does not hold"),
        vec![
            ([("control", "cpu.max")], health.cgroups_limited as f64),
            ([("control", "cpu.weight")], health.cgroups_weighted as f64),
        ],
    )?;
    let policies = POLICIES.iter().map(|policy| {
        let on = sample.config.policies.has(policy);
        ([("policy", policy.name)], f64::from(u8::from(on)))
    });
    page.gauges(("policy_enabled", None, "1 if the policy is on"), policies.collect())?;
    page.gauge(
        ("open_vcpus", None, "Online vCPUs that work of short bursts may use"),
        health.open_vcpus as f64,
    )?;
    let timeout = health.halt_poll.map(|timeout| ([("policy", "retain")], timeout.as_secs_f64()));
    page.gauges(
        (
            "halt_poll",
            Some(Unit::Seconds),
            "How long an idle vCPU polls before it halts, at most, as the policy has chosen",
        ),
        timeout.into_iter().collect(),
    )
}
