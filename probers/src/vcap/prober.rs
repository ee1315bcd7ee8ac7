// SPDX-License-Identifier: GPL-2.0-only
//! Probing on schedule: who is looked at, when and how, and what is known afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, SystemTime};

use super::passive::{TimesSource, with_lost_ticks};
use super::plan::{self, Agenda, GLANCES_PER_LIGHT, Told};
use super::state::{State, Wanted};
use super::worker::{BurstOrder, BurstReport, Worker};
use super::{ProbeError, Settings};
use crate::snapshot::{Estimate, VcpuSnapshot};
use crate::thread::{Priority, monotonic_ns};
use crate::vcpus::Vcpus;

/// What a sleeping burst thread needs to be woken and to warm up before the common begin.
const BURST_LEAD_NS: u64 = 5_000_000;

/// The longest wait between two steps.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The threads of one vCPU.
struct Workers {
    when_idle: Worker,
    when_busy: Worker,
    /// Whether an order has not been reported on yet.
    ordered: bool,
}

impl Workers {
    fn are_alive(&self) -> bool {
        self.when_idle.is_alive() && self.when_busy.is_alive()
    }
}

/// Probes all vCPUs of this VM. Dropping it ends its threads.
pub struct Prober {
    settings: Settings,
    source: Box<dyn TimesSource>,
    states: BTreeMap<u32, State>,
    workers: BTreeMap<u32, Workers>,
    reports: Receiver<BurstReport>,
    /// What ended the last wait.
    reported: Option<BurstReport>,
    report_to: Sender<BurstReport>,
    stop: Arc<AtomicBool>,
    agenda: Agenda,
    source_error: Option<String>,
    without_realtime: bool,
}

impl Prober {
    /// Find the vCPUs and start the threads; [`step`](Self::step) then does the work.
    ///
    /// # Errors
    /// If /sys does not tell the vCPUs, or the kernel grants no threads.
    pub fn new(settings: Settings, source: Box<dyn TimesSource>) -> Result<Self, ProbeError> {
        let now_ns = monotonic_ns();
        let (report_to, reports) = channel();
        let mut prober = Self {
            agenda: Agenda::new(&settings, now_ns),
            settings,
            source,
            states: BTreeMap::new(),
            workers: BTreeMap::new(),
            reports,
            reported: None,
            report_to,
            stop: Arc::default(),
            source_error: None,
            without_realtime: false,
        };
        prober.find_vcpus(now_ns)?;
        prober.read_times(now_ns);
        Ok(prober)
    }

    /// Wait until the next step is due: a second at most, or until a vCPU reports.
    pub fn wait(&mut self) {
        let limit = (self.settings.light_interval / GLANCES_PER_LIGHT).min(WAIT_MAX);
        self.reported = self.reports.recv_timeout(limit).ok();
    }

    /// Do what is due. Returns whether a new snapshot is worth taking.
    ///
    /// # Errors
    /// If /sys does not tell the vCPUs any more.
    pub fn step(&mut self) -> Result<bool, ProbeError> {
        let now_ns = monotonic_ns();
        let changed = self.absorb(now_ns);
        if changed {
            self.agenda.changed(now_ns);
        }
        let light = self.agenda.light_is_due(now_ns);
        if light {
            self.find_vcpus(now_ns)?;
            self.read_times(now_ns);
        }
        if self.agenda.heavy_is_due(now_ns) {
            for state in self.states.values_mut() {
                state.wanted.get_or_insert(Wanted::Scheduled);
            }
        }
        self.order_heavy(now_ns);
        let glance = self.agenda.glance_is_due(now_ns);
        if light || glance {
            self.order_light(now_ns, light, glance);
        }
        Ok(light || changed)
    }

    /// Read which vCPUs are online, and start threads for those that are new.
    fn find_vcpus(&mut self, now_ns: u64) -> Result<(), ProbeError> {
        let vcpus = Vcpus::read()?;
        for id in vcpus.possible {
            let online = vcpus.online.binary_search(&id).is_ok();
            let settings = &self.settings;
            let state = self.states.entry(id).or_insert_with(|| State::new(settings, now_ns));
            if state.online != online {
                state.forget(settings, now_ns);
                state.online = online;
                self.agenda.changed(now_ns);
            }
            // Those of a thread that has died are replaced. One that does not get to run is not:
            // another would not either.
            let works = self.workers.get(&id).is_some_and(Workers::are_alive);
            if online && settings.budget_ratio > 0.0 && !works {
                let workers = self.start_workers(id)?;
                self.workers.insert(id, workers);
            }
        }
        Ok(())
    }

    fn start_workers(&self, vcpu: u32) -> Result<Workers, ProbeError> {
        let start = |priority| {
            Worker::start(vcpu, priority, self.report_to.clone(), Arc::clone(&self.stop))
                .map_err(|source| ProbeError::Thread { vcpu, source })
        };
        Ok(Workers {
            when_idle: start(Priority::BestEffort)?,
            when_busy: start(Priority::Realtime)?,
            ordered: false,
        })
    }

    /// Take the reports of bursts into account. Returns whether something changed.
    fn absorb(&mut self, now_ns: u64) -> bool {
        let mut changed = false;
        while let Some(report) = self.reported.take().or_else(|| self.reports.try_recv().ok()) {
            if let Some(workers) = self.workers.get_mut(&report.vcpu) {
                workers.ordered = false;
            }
            let Some(state) = self.states.get_mut(&report.vcpu).filter(|state| state.online) else {
                continue;
            };
            if !report.in_place {
                state.note = Some(
                    "this process may not run on it: it is outside its cpuset, or went offline"
                        .into(),
                );
                continue;
            }
            state.note = None;
            self.without_realtime |= !report.granted;
            if report.crowded_out {
                continue;
            }
            changed |= state.see_burst(now_ns, &report);
            if !report.order.heavy && state.is_surprised_by(now_ns, &report) {
                state.wanted = Some(Wanted::Surprise);
            }
        }
        changed
    }

    /// Read the accounts, and let those that tell all count as observations.
    fn read_times(&mut self, now_ns: u64) {
        let times = match self.source.read() {
            Ok(times) => times,
            Err(error) => {
                self.source_error = Some(error);
                return;
            }
        };
        self.source_error = None;
        let tells_all = self.source.sees_all_stolen();
        for (id, times) in times {
            let Some(state) = self.states.get_mut(&id).filter(|state| state.online) else {
                continue;
            };
            let Some((wall_ns, since)) = state.see_times(now_ns, times) else { continue };
            let since = if tells_all { since } else { with_lost_ticks(since, wall_ns) };
            let Some(seen) = plan::from_times(since, wall_ns) else { continue };
            match plan::told(&self.settings, tells_all && state.busy, state.share(now_ns), seen) {
                Told::Share(seen) => {
                    state.see_share(now_ns, seen);
                }
                Told::Surprise => state.wanted = Some(Wanted::Surprise),
                Told::Nothing => {}
            }
        }
    }

    /// Let vCPUs of which nothing else tells work for long enough to tell their shares, as soon as their
    /// budgets allow: the busy ones, which compete anyway, at a high priority; the idle ones at the lowest,
    /// and all at the same time, for without the others each would find more than its share.
    fn order_heavy(&mut self, now_ns: u64) {
        let begin_ns = now_ns + BURST_LEAD_NS;
        let (mut orders, mut idle) = (Vec::new(), Vec::new());
        for (id, workers) in &self.workers {
            let Some(state) = self.states.get_mut(id) else { continue };
            if !state.online || workers.ordered || (state.busy && self.source.sees_all_stolen()) {
                continue;
            }
            let available_ns = state.budget.available_ns(now_ns);
            let wanted = state.wanted.unwrap_or(Wanted::Surprise);
            let needed_ns = plan::run_needed_ns(wanted, state.longest_stop_ns());
            if !state.busy {
                idle.push((*id, state.wanted, needed_ns, available_ns));
            } else if state.wanted.is_some() && available_ns >= needed_ns {
                orders.push((
                    *id,
                    plan::heavy(needed_ns, available_ns, false, begin_ns, Arc::default()),
                ));
            }
        }
        if idle.iter().any(|vcpu| vcpu.1.is_some()) && idle.iter().all(|vcpu| vcpu.3 >= vcpu.2) {
            let over = Arc::<AtomicBool>::default();
            let is_calm = idle.iter().all(|vcpu| vcpu.1 != Some(Wanted::Surprise));
            orders.extend(idle.iter().map(|(id, _, needed_ns, available_ns)| {
                (*id, plan::heavy(*needed_ns, *available_ns, is_calm, begin_ns, Arc::clone(&over)))
            }));
        }
        for (id, order) in orders {
            self.send(id, order);
        }
    }

    /// Let the idle vCPUs, or the busy ones of which nothing else tells, work for a moment.
    fn order_light(&mut self, now_ns: u64, idle: bool, busy: bool) {
        let begin_ns = now_ns + BURST_LEAD_NS;
        let ids: Vec<u32> = self.workers.keys().copied().collect();
        for id in ids {
            let Some(state) = self.states.get_mut(&id).filter(|state| state.online) else {
                continue;
            };
            let (is_due, per_light) = match state.busy {
                true => (busy && !self.source.sees_all_stolen(), GLANCES_PER_LIGHT),
                false => (idle, 1),
            };
            let available_ns = state.budget.available_ns(now_ns);
            let order = plan::light(&self.settings, per_light, available_ns, begin_ns);
            if let Some(order) = order.filter(|_| is_due) {
                self.send(id, order);
            }
        }
    }

    /// Give an order to a vCPU that is not at work on one.
    fn send(&mut self, id: u32, order: BurstOrder) {
        let Some(workers) = self.workers.get_mut(&id).filter(|workers| !workers.ordered) else {
            return;
        };
        let Some(state) = self.states.get_mut(&id) else { return };
        if order.heavy {
            state.wanted = None;
        }
        let worker = if state.busy { &workers.when_busy } else { &workers.when_idle };
        workers.ordered = worker.send(order);
    }

    /// What is known now. The topology is not this prober's business.
    pub fn snapshot(&mut self) -> VcpuSnapshot {
        let now_ns = monotonic_ns();
        let best_chunk_ns = self
            .states
            .values()
            .filter(|state| state.online)
            .filter_map(|state| state.chunk_ns(now_ns))
            .min_by(f64::total_cmp);
        let mut vcpus: Vec<_> =
            self.states.iter().map(|(id, state)| state.entry(*id, now_ns, best_chunk_ns)).collect();
        self.settings.straggler.judge(&mut vcpus);
        for vcpu in &vcpus {
            if let Some(state) = self.states.get_mut(&vcpu.id) {
                state.verdict = vcpu.verdict;
            }
        }
        VcpuSnapshot {
            taken_at_unix_ms: SystemTime::UNIX_EPOCH
                .elapsed()
                .map_or(0, |time| time.as_millis() as u64),
            taken_at_ns: now_ns,
            effective_vcpus: effective(vcpus.iter().filter_map(|vcpu| vcpu.share_ratio)),
            vcpus,
            source: self.source.name().into(),
            probe_budget_ratio: self.settings.budget_ratio,
            notes: self.notes(),
            ..VcpuSnapshot::default()
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.source_error.iter().cloned().collect();
        if self.settings.budget_ratio == 0.0 {
            notes.push(
                "active probing is off: shares are upper bounds from the user's own work, idle vCPUs \
                 and speeds are unknown"
                    .into(),
            );
        }
        if self.without_realtime {
            notes.push(
                "no right to real-time priority: busy vCPUs are looked at less exactly; run it as \
                 root or with CAP_SYS_NICE"
                    .into(),
            );
        }
        notes
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        // Those that work see this; those that sleep see their orders end.
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The sum of the shares; as old and as uncertain as the worst of them.
fn effective(shares: impl Iterator<Item = Estimate>) -> Option<Estimate> {
    shares.reduce(|sum, share| Estimate {
        value: sum.value + share.value,
        age_s: sum.age_s.max(share.age_s),
        confidence: sum.confidence.min(share.confidence),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vcap::passive::ProcStat;

    #[test]
    fn a_thread_that_died_is_replaced() -> Result<(), Box<dyn std::error::Error>> {
        let mut prober = Prober::new(Settings::default(), Box::new(ProcStat::new(false)))?;
        let id = *prober.workers.keys().next().ok_or("no vCPU is online")?;
        let (reports, receiver) = channel();
        drop(receiver); // a worker that nobody listens to ends with its first report
        let dying = Worker::start(id, Priority::BestEffort, reports, Arc::default())?;
        dying.send(plan::heavy(0, 0, false, 0, Arc::default()));
        while dying.is_alive() {
            std::thread::sleep(Duration::from_millis(1));
        }
        prober.workers.get_mut(&id).ok_or("it has workers")?.when_idle = dying;
        prober.find_vcpus(monotonic_ns())?;
        assert!(prober.workers[&id].are_alive());
        Ok(())
    }
}
