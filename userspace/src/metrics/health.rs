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
    page.infos(
        "build",
        "The program's version",
        vec![[("version", env!("CARGO_PKG_VERSION").to_string())]],
    )?;
    page.infos(
        "vm",
        "What the hypervisor says of itself, and where stolen time is read from",
        vec![[
            ("hypervisor", sample.announced.hypervisor.name()),
            ("steal_source", if sample.announced.kvm_steal_clock { "kvm" } else { "beats" }),
        ]],
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
    page.counter(
        ("restarts", None, "Times that the kernel asked to load the scheduler again"),
        health.restarts as f64,
    )?;
    page.counters(
        ("config_reloads", None, "Times that the configuration was read again"),
        vec![
            ([("outcome", "applied")], health.reloads_applied as f64),
            ([("outcome", "refused")], health.reloads_refused as f64),
        ],
    )?;
    page.gauge(
        ("config_last_reload_success", None, "0 if the configuration that was read last was wrong"),
        f64::from(u8::from(health.last_reload_ok)),
    )?;
    page.gauge(
        ("control_loop_age", Some(Unit::Seconds), "Time since the control loop last went round"),
        health.loop_age.as_secs_f64(),
    )?;
    if let Some((_, age)) = &sample.snapshot {
        page.gauge(
            ("snapshot_age", Some(Unit::Seconds), "Age of what is known of the vCPUs by probing"),
            age.as_secs_f64(),
        )?;
    }
    page.gauges(
        ("cgroups_ignored", None, "Cgroups in use whose CPU control does not hold, at load"),
        vec![
            ([("control", "cpu.max")], health.cgroups_limited as f64),
            ([("control", "cpu.weight")], health.cgroups_weighted as f64),
        ],
    )?;
    let policies = POLICIES.iter().map(|policy| {
        let on = sample.config.policies.has(policy);
        ([("policy", policy.name)], f64::from(u8::from(on)))
    });
    page.gauges(("policy_enabled", None, "1 if the policy is on"), policies.collect())
}
