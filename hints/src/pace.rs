// SPDX-License-Identifier: GPL-2.0-only
//! How work blocks, over a round of the control loop: what retention, gathering and the
//! reserve go by.

/// The measurements of a round. Means are 0 where there is nothing to take the mean of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// Tasks that woke, per second.
    pub wakes_per_s: f64,
    /// Latency-sensitive ones that began to run after a wait for a vCPU, per second.
    pub latency_wakes_per_s: f64,
    /// How long they waited for a vCPU, on average.
    pub wait_ns: f64,
    /// How long tasks ran between two sleeps, on average (the paper's g_comp).
    pub burst_ns: f64,
    /// How long an open vCPU had something to run without a break, on average (l_comp).
    pub computing_ns: f64,
    /// How long an open vCPU had nothing to run without a break, on average (l_idle).
    pub idle_ns: f64,
    /// Part of the wake-ups, 0 to 1, that come in bursts of at least half as many as there are vCPUs.
    pub together_ratio: f64,
    /// Part of the wake-ups, 0 to 1, for which no open vCPU had time soon.
    pub spilled_ratio: f64,
    /// Part of the time that vCPUs wanted, 0 to 1, that the hypervisor gave to others.
    pub steal_ratio: f64,
    /// How many vCPUs CPU-bound work took, on average: it ran, or they were stopped meanwhile.
    pub cpu_bound_vcpus: f64,
}

impl Pace {
    /// Part of the time, 0 to 1, that open vCPUs had something to run.
    pub fn busy_ratio(&self) -> f64 {
        let all = self.computing_ns + self.idle_ns;
        if all > 0.0 { self.computing_ns / all } else { 0.0 }
    }
}
