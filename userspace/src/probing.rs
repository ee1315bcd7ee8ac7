// SPDX-License-Identifier: GPL-2.0-only
//! Probing while the scheduler runs. What a busy vCPU does, the kernel half counts anyway: it is told to
//! the prober, which then works on idle vCPUs only.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use probers::service::Service;
use probers::snapshot::VcpuSnapshot;
use probers::vcap::Settings;
use probers::vcap::passive::{Times, TimesSource};
use probers::vtop::watch::Watch;

use crate::stats::Stats;

/// A prober and what it is told. Dropping it ends it.
pub struct Probing {
    service: Service,
    /// `None` if nothing may be probed actively.
    topology: Option<Watch>,
    counted: Counted,
}

impl Probing {
    /// Start to probe.
    ///
    /// # Errors
    /// If /sys does not tell the vCPUs, or the kernel grants no threads.
    pub fn start(settings: Settings) -> anyhow::Result<Self> {
        let counted = Counted::default();
        let topology = (settings.budget_ratio > 0.0)
            .then(|| Watch::start(settings.topology_interval, settings.budget_ratio))
            .transpose()
            .context("starting to probe the topology")?;
        let service = Service::start(settings, Box::new(counted.clone()))
            .context("starting to probe the vCPUs")?;
        Ok(Self { service, topology, counted })
    }

    /// Tell the counters since load, `elapsed_ns` after it, and which vCPUs are online.
    pub fn tell(&self, stats: &Stats, online: &[u32], elapsed_ns: u64) {
        *lock(&self.counted.0) = times(stats, online, elapsed_ns);
    }

    /// The youngest snapshot, with the topology as far as it is known.
    pub fn latest(&self) -> Option<Arc<VcpuSnapshot>> {
        let found = self.service.latest()?;
        let Some(topology) = self.topology.as_ref().and_then(|watch| watch.latest(Duration::ZERO))
        else {
            return Some(found);
        };
        Some(Arc::new(VcpuSnapshot { topology, ..VcpuSnapshot::clone(&found) }))
    }
}

/// The times as they were last told.
#[derive(Clone, Default)]
struct Counted(Arc<Mutex<Vec<(u32, Times)>>>);

impl TimesSource for Counted {
    fn name(&self) -> &'static str {
        "scheduler and probe"
    }

    fn sees_all_stolen(&self) -> bool {
        true
    }

    fn read(&mut self) -> Result<Vec<(u32, Times)>, String> {
        Ok(lock(&self.0).clone())
    }
}

fn lock(times: &Mutex<Vec<(u32, Times)>>) -> std::sync::MutexGuard<'_, Vec<(u32, Times)>> {
    times.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the vCPUs did since load: whatever was neither run nor stolen, they were idle.
fn times(stats: &Stats, online: &[u32], elapsed_ns: u64) -> Vec<(u32, Times)> {
    online
        .iter()
        .filter_map(|id| {
            let vcpu = stats.vcpus.get(*id as usize)?;
            let run_ns = vcpu.run_ns.iter().sum::<u64>();
            let idle_ns = elapsed_ns.saturating_sub(run_ns + vcpu.stolen_ns);
            Some((*id, Times { run_ns, stolen_ns: vcpu.stolen_ns, idle_ns }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::VcpuStats;

    #[test]
    fn what_was_neither_run_nor_stolen_was_idle() {
        let busy = VcpuStats { run_ns: [1, 2, 3, 4], stolen_ns: 30, ..VcpuStats::default() };
        let stats = Stats { vcpus: vec![VcpuStats::default(), busy] };
        let expected = [
            (0, Times { run_ns: 0, stolen_ns: 0, idle_ns: 100 }),
            (1, Times { run_ns: 10, stolen_ns: 30, idle_ns: 60 }),
        ];
        assert_eq!(times(&stats, &[0, 1, 7], 100), expected);
    }
}
