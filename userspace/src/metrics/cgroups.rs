// SPDX-License-Identifier: GPL-2.0-only
//! Which cgroups suffer.

use std::fmt::Result;
use std::time::Duration;

use prometheus_client::registry::Unit;

use super::Sample;
use super::page::Page;
use crate::cgroups::Cgroup;

/// A family: its name, its help, and the value of a cgroup.
type Family = (&'static str, &'static str, fn(&Cgroup) -> Duration);

const FAMILIES: [Family; 3] = [
    (
        "cgroup_wait",
        "Waits for a vCPU of the tasks of a cgroup, those below it left out, where it is among the longest",
        |cgroup| cgroup.waited,
    ),
    (
        "cgroup_held",
        "Time for which tasks of a cgroup were held by a limit (cpu.max), summed over tasks",
        |cgroup| cgroup.held,
    ),
    ("cgroup_stolen", "Steal time while tasks of a cgroup ran", |cgroup| cgroup.stolen),
];

pub fn encode(sample: &Sample, page: &mut Page<'_>) -> Result {
    for (name, help, value) in FAMILIES {
        let series = sample
            .cgroups
            .iter()
            .map(|cgroup| ([("cgroup", cgroup.path.as_str())], value(cgroup).as_secs_f64()));
        page.counters((name, Some(Unit::Seconds), help), series.collect())?;
    }
    Ok(())
}
