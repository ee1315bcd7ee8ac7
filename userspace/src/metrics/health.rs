// SPDX-License-Identifier: GPL-2.0-only
//! Whether the daemon and the scheduler are well, and what they are set to do.

use std::fmt::Result;

use prometheus_client::registry::Unit;

use super::Sample;
use super::page::Page;
use crate::health::State;
use crate::policy::POLICIES;
use crate::standby::Standby;

pub fn encode(sample: &Sample, page: &mut Page<'_>) -> Result {
    let health = &sample.health;
    let kvm = sample.announced.kvm_steal_clock;
    let steal_source = if kvm { intf::VAWARE_STEAL_KVM } else { intf::VAWARE_STEAL_BEATS };
    let steal_source = intf::STEAL_SOURCES[steal_source as usize];
    page.infos(
        "build",
        "Version of scx_vaware; always 1",
        vec![[("version", env!("CARGO_PKG_VERSION").to_string())]],
    )?;
    page.infos(
        "vm",
        "Hypervisor, and where steal time is read from; always 1",
        vec![[("hypervisor", sample.announced.hypervisor.name()), ("steal_source", steal_source)]],
    )?;
    let states = State::ALL
        .map(|state| ([("state", state.name())], if state == health.state { 1.0 } else { 0.0 }));
    page.gauges(("state", None, "1 for the state that the daemon is in, else 0"), states.into())?;
    let standby = Standby::ALL.map(|reason| {
        ([("reason", reason.name())], f64::from(u8::from(health.standby == Some(reason))))
    });
    page.gauges(
        ("standby", None, "1 for the reason why the daemon has no scheduler loaded, else 0"),
        standby.into(),
    )?;
    page.gauge(
        (
            "kernel_sched_ext_enabled",
            None,
            "1 while the kernel runs scx_vaware as its sched_ext scheduler",
        ),
        f64::from(u8::from(health.enabled_as_us)),
    )?;
    page.counters(
        ("restarts", None, "Times that the daemon has loaded its scheduler again, by cause"),
        vec![
            ([("cause", "kernel")], health.restarts_asked as f64),
            ([("cause", "pause")], health.restarts_paused as f64),
        ],
    )?;
    page.counter(
        ("ejections", None, "Times since boot that the kernel has ejected scx_vaware"),
        health.ejections as f64,
    )?;
    page.counter(
        ("vm_pauses", None, "Times that no vCPU of the VM ran for 5 s or more"),
        health.pauses.count as f64,
    )?;
    page.counter(
        (
            "vm_paused",
            Some(Unit::Seconds),
            "Time in which no vCPU of the VM ran, in pauses of 5 s or more",
        ),
        health.pauses.total.as_secs_f64(),
    )?;
    page.counters(
        ("config_reloads", None, "Times that the configuration was read again, by outcome"),
        vec![
            ([("outcome", "applied")], health.reloads_applied as f64),
            ([("outcome", "refused")], health.reloads_refused as f64),
        ],
    )?;
    page.gauge(
        (
            "config_last_reload_success",
            None,
            "0 if the last reload of the configuration was refused, or left keys for a restart",
        ),
        f64::from(u8::from(health.last_reload_ok)),
    )?;
    page.counter(
        (
            "config_keys_ignored",
            None,
            "Changed configuration keys that reloads have left for a restart of the daemon",
        ),
        health.keys_ignored as f64,
    )?;
    page.gauge(
        (
            "control_loop_timestamp",
            Some(Unit::Seconds),
            "When the daemon's control loop last went round, in seconds since the epoch",
        ),
        health.loop_at.as_secs_f64(),
    )?;
    page.gauge(
        (
            "snapshot_timestamp",
            Some(Unit::Seconds),
            "When probing last told of the vCPUs, or else the load, in seconds since the epoch",
        ),
        health.snapshot_at.as_secs_f64(),
    )?;
    let restarts =
        health.probe_restarts.iter().map(|(name, count)| ([("prober", *name)], *count as f64));
    page.counters(
        ("probe_restarts", None, "Times that a prober has failed or hung and was restarted"),
        restarts.collect(),
    )?;
    let lost = health.lines_lost.iter().map(|(name, count)| ([("output", *name)], *count as f64));
    page.counters(
        ("output_lines_lost", None, "Lines that the daemon could not write, by output"),
        lost.collect(),
    )?;
    let policies = POLICIES.iter().map(|policy| {
        let on = sample.config.policies.has(policy);
        ([("policy", policy.name)], f64::from(u8::from(on)))
    });
    page.gauges(
        ("policy_enabled", None, "1 if the policy is on by configuration, else 0"),
        policies.collect(),
    )?;
    page.gauge(
        ("open_vcpus", None, "Online vCPUs that work of short bursts may use"),
        health.open_vcpus as f64,
    )?;
    let factors = health.gather_factors.iter().flat_map(|&(rho, eta)| [("rho", rho), ("eta", eta)]);
    page.gauges(
        (
            "gather_factor",
            Some(Unit::Other("ratio".into())),
            "How much work the policy gather leaves to fewer vCPUs: load (rho), granularity (eta)",
        ),
        factors.map(|(name, factor)| ([("factor", name)], factor)).collect(),
    )?;
    page.gauge(
        (
            "reserve_vcpus",
            None,
            "vCPUs to keep free of CPU-bound work, while the policy reserve is on",
        ),
        health.reserve_vcpus as f64,
    )?;
    page.gauge(
        (
            "confined_processes",
            None,
            "Processes to keep to steady vCPUs, while the policy shootdown is on",
        ),
        health.confined_processes as f64,
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
