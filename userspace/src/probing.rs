// SPDX-License-Identifier: GPL-2.0-only
//! Probing while the scheduler runs. What a busy vCPU does, the kernel half counts anyway: it is told to
//! the prober, which then works on idle vCPUs only.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use probers::hypervisor;
use probers::service::Service;
use probers::snapshot::VcpuSnapshot;
use probers::thread::monotonic_ns;
use probers::vcap::Settings;
use probers::vcap::passive::{ProcStat, Times, TimesSource};
use probers::vtop::watch::Watch;

use crate::stats::Stats;
use crate::supervise::{Prober, Supervised};

/// A snapshot that is older counts for nothing: whoever took it has failed, or hangs.
pub(crate) const STALE: Duration = Duration::from_secs(10);

/// The probers by name: what vCPUs are worth, and how they lie to each other.
pub const PROBERS: [&str; 2] = ["vcap", "vtop"];

/// A prober that has failed.
#[derive(Debug, PartialEq, Eq)]
pub struct Failed {
    pub prober: &'static str,
    /// A sentence.
    pub news: String,
}

/// The probers, and what they are told. Dropping it ends them.
pub struct Probing {
    capacity: Supervised<Service>,
    /// `None` if nothing may be probed actively.
    topology: Option<Supervised<Watch>>,
    counted: Counted,
}

impl Probing {
    /// Probers that begin with the first call of [`tend`](Self::tend).
    pub fn new(settings: Settings) -> Self {
        let counted = Counted::default();
        let source = counted.clone();
        Self::with_source(settings, counted, move || Box::new(source.clone()))
    }

    /// The same without a scheduler to tell them of busy vCPUs: they go by the kernel's accounting.
    pub fn on_their_own(settings: Settings) -> Self {
        let steal_clock = hypervisor::announced().kvm_steal_clock;
        let source = move || -> Box<dyn TimesSource> { Box::new(ProcStat::new(steal_clock)) };
        Self::with_source(settings, Counted::default(), source)
    }

    fn with_source(
        settings: Settings,
        counted: Counted,
        source: impl Fn() -> Box<dyn TimesSource> + 'static,
    ) -> Self {
        let (interval, budget_ratio) = (settings.topology_interval, settings.budget_ratio);
        let topology = (budget_ratio > 0.0).then(|| {
            Supervised::new(PROBERS[1], move || {
                Watch::start(interval, budget_ratio).map_err(|why| why.to_string())
            })
        });
        let capacity = Supervised::new(PROBERS[0], move || {
            let begun = Service::start(settings.clone(), source());
            begun.map_err(|why| why.to_string())
        });
        Self { capacity, topology, counted }
    }

    /// Look after the probers, once a round. Return those that have failed since.
    pub fn tend(&mut self, now: Instant) -> Vec<Failed> {
        fn tend<P: Prober>(prober: &mut Supervised<P>, now: Instant) -> Option<Failed> {
            prober.tend(now).map(|news| Failed { prober: prober.name(), news })
        }
        let capacity = tend(&mut self.capacity, now);
        let topology = self.topology.as_mut().and_then(|topology| tend(topology, now));
        capacity.into_iter().chain(topology).collect()
    }

    /// Why the topology cannot be looked at, though its prober is at work.
    pub fn topology_problem(&self) -> Option<String> {
        self.topology.as_ref().and_then(Supervised::at_work)?.problem()
    }

    /// Tell the counters since load, `elapsed_ns` after it, and which vCPUs are online.
    pub fn tell(&self, stats: &Stats, online: &[u32], elapsed_ns: u64) {
        *lock(&self.counted.0) = times(stats, online, elapsed_ns);
    }

    /// The youngest snapshot, with the topology as far as it is known; `None` if it is stale.
    pub fn latest(&self) -> Option<Arc<VcpuSnapshot>> {
        let found = self.capacity.at_work()?.latest()?;
        if is_stale(found.taken_at_ns, monotonic_ns()) {
            return None;
        }
        let watch = self.topology.as_ref().and_then(Supervised::at_work);
        let Some(topology) = watch.and_then(|watch| watch.latest(Duration::ZERO)) else {
            return Some(found);
        };
        Some(Arc::new(VcpuSnapshot { topology, ..VcpuSnapshot::clone(&found) }))
    }
}

fn is_stale(taken_at_ns: u64, now_ns: u64) -> bool {
    Duration::from_nanos(now_ns.saturating_sub(taken_at_ns)) > STALE
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
    fn a_snapshot_counts_for_ten_seconds() {
        let second_ns = 1_000_000_000;
        assert!(!is_stale(second_ns, 11 * second_ns));
        assert!(is_stale(second_ns, 11 * second_ns + 1));
        assert!(!is_stale(second_ns, 0), "taken after the clock was read");
    }

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
