// SPDX-License-Identifier: GPL-2.0-only
//! vcap: what each vCPU is worth. The share of a core that it obtains, all vCPUs at the same time, and
//! the speed of that core (vSched, section 3.1).
//!
//! No steal clock is needed. A burst of work on the vCPU sees each stop: at the lowest priority where the
//! vCPU is idle, at real-time priority for a few ms where it is busy. What a scheduler or an honest steal
//! clock knows anyway comes first, and all is kept within a budget.
//!
//! Pinned wake-ups at random instants would be cheaper, but tell of the timer as much as of the vCPU:
//! where a thread of the hypervisor serves timers (QEMU's TCG), they are as late as that thread is.

mod estimate;
mod habit;
pub mod passive;
mod plan;
mod prober;
mod spans;
mod state;
mod trace;
mod verdict;
mod worker;

use std::time::Duration;

pub use prober::Prober;
pub use verdict::StragglerRule;

/// How to probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The most that probing may use of a vCPU, as a part of its time, beside 100 ms that are there at the
    /// start and can be saved up; 0: no active probing.
    pub budget_ratio: f64,
    /// Time between two light looks at an idle vCPU, and between two readings of the kernel's accounts.
    pub light_interval: Duration,
    /// The longest time between two heavy looks; shorter while things change.
    pub heavy_interval_max: Duration,
    /// Time in which an observation loses half of its weight against newer ones.
    pub half_life: Duration,
    /// Time between two checks of the topology; longer where one takes more than the budget allows.
    pub topology_interval: Duration,
    pub straggler: StragglerRule,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            budget_ratio: 0.0025,
            light_interval: Duration::from_secs(1),
            heavy_interval_max: Duration::from_secs(60),
            half_life: Duration::from_secs(2),
            topology_interval: Duration::from_secs(2),
            straggler: StragglerRule::default(),
        }
    }
}

/// Why probing cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error(transparent)]
    VcpuList(#[from] crate::vcpus::VcpuListError),
    #[error("cannot start the threads that probe vCPU {vcpu}: {source}; raise the limit of tasks")]
    Thread { vcpu: u32, source: std::io::Error },
}
