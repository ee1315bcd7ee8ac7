// SPDX-License-Identifier: GPL-2.0-only
//! The topology of this VM in the background, for as long as somebody holds the handle.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::live::Live;
use super::prober::{Finding, Prober};
use crate::budget::Budget;
use crate::pulse::Pulse;
use crate::snapshot::Topology;
use crate::thread::{Priority, monotonic_ns, set_priority};
use crate::vcpus::Vcpus;

/// How long one pass may take without rests. What is open then stays out of the topology.
pub const PASS_LIMIT: Duration = Duration::from_secs(5);

/// What the first passes may use of a vCPU beyond the budget: until they have found the topology it is
/// of no use to anybody, and a stack takes some passes to be sure of. What is left then is given up.
const FIRST_PASSES: Duration = Duration::from_secs(3);

/// Of that credit no more is used at any time than the budget while the VM has work to do, which has to wait
/// meanwhile, and so many times the budget while it has none.
const QUIET_BUDGETS: f64 = 3.0;

/// What was found last.
#[derive(Default)]
struct Found {
    topology: Option<(Topology, Instant)>,
    /// Why nothing can be found at present.
    problem: Option<String>,
}

/// A prober at work. Dropping it ends it, after the window that it is in.
pub struct Watch {
    found: Arc<(Mutex<Found>, Condvar)>,
    stop: Arc<AtomicBool>,
    pulse: Pulse,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Probe once, then validate each `interval`, or less often if that would use more than
    /// `budget_ratio` (0 to 1) of a vCPU.
    ///
    /// # Errors
    /// If no thread is granted.
    pub fn start(interval: Duration, budget_ratio: f64) -> io::Result<Self> {
        let found = Arc::<(Mutex<Found>, Condvar)>::default();
        let stop = Arc::<AtomicBool>::default();
        let (its_found, its_stop) = (Arc::clone(&found), Arc::clone(&stop));
        let pulse = Pulse::default();
        let its_pulse = pulse.clone();
        let work = move || probe(&its_found, &its_stop, &its_pulse, interval, budget_ratio);
        let thread = thread::Builder::new().name("vaware-vtop".into()).spawn(work)?;
        Ok(Self { found, stop, pulse, thread })
    }

    /// The last result with its age; waits at most `limit` for the first one.
    pub fn latest(&self, limit: Duration) -> Option<Topology> {
        let (found, bell) = &*self.found;
        let is_open = |found: &mut Found| found.topology.is_none() && found.problem.is_none();
        let (found, _) = bell
            .wait_timeout_while(lock(found), limit, is_open)
            .unwrap_or_else(PoisonError::into_inner);
        found.topology.as_ref().map(|(topology, at)| Topology {
            age_s: Some(at.elapsed().as_secs_f64()),
            ..topology.clone()
        })
    }

    /// Why there is no result, or no new one.
    pub fn problem(&self) -> Option<String> {
        lock(&self.found.0).problem.clone()
    }

    /// Why it has ended by itself, if it has. A [problem](Self::problem) does not end it.
    pub fn failure(&self) -> Option<String> {
        self.thread.is_finished().then(|| "its thread has ended".into())
    }

    /// The sign of life of its thread, which comes every few seconds and more often.
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
    }
}

fn lock(found: &Mutex<Found>) -> MutexGuard<'_, Found> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}

fn probe(
    found: &(Mutex<Found>, Condvar),
    stop: &Arc<AtomicBool>,
    pulse: &Pulse,
    interval: Duration,
    budget_ratio: f64,
) {
    // The thread that asks must not wait for the VM's work either; without the right it does.
    let _ = set_priority(Priority::Realtime);
    // Next to nothing is enough to bring every rest to an end.
    let budget_ratio = budget_ratio.max(0.001);
    let mut budget = Budget::with_credit(budget_ratio, FIRST_PASSES, monotonic_ns());
    let mut prober: Option<(Vec<u32>, Prober<Live>)> = None;
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        budget.available_ns(monotonic_ns()); // what came in during the rest is not for this pass
        let pass = pass(&mut prober, budget_ratio, stop, pulse);
        let is_open = pass.as_ref().map_or(true, Finding::is_open);
        let mut latest = lock(&found.0);
        match pass {
            Ok(finding) => {
                let topology = Some((finding.topology, Instant::now()));
                *latest = Found { topology, problem: None };
            }
            Err(problem) => *latest = Found { topology: None, problem: Some(problem) },
        }
        drop(latest);
        found.1.notify_all();
        let used = prober.as_mut().map_or(Duration::ZERO, |(_, prober)| prober.source_mut().used());
        budget.spend(used.as_nanos() as u64);
        if !is_open {
            budget.forfeit(); // checks are in no hurry
        }
        // From begin to begin, but never without a rest.
        let rest = interval.saturating_sub(begin.elapsed()).max(interval / 2);
        let next = Instant::now() + rest.max(budget.rest(monotonic_ns()));
        pulse.rest(next, || stop.load(Ordering::Relaxed));
    }
}

/// One pass over the vCPUs that are online now.
fn pass(
    prober: &mut Option<(Vec<u32>, Prober<Live>)>,
    budget_ratio: f64,
    stop: &Arc<AtomicBool>,
    pulse: &Pulse,
) -> Result<Finding, String> {
    let quiet_ratio = (QUIET_BUDGETS * budget_ratio).min(1.0);
    let online = Vcpus::read().map_err(|why| why.to_string())?.online;
    if prober.as_ref().is_none_or(|(known, _)| *known != online) {
        let mut live = Live::start(&online).map_err(|why| why.to_string())?;
        live.keep_duty(budget_ratio, quiet_ratio);
        live.stop_with(Arc::clone(stop), pulse.clone());
        let ids = live.vcpus().to_vec();
        *prober = Some((online, Prober::new(live, ids)));
    }
    let Some((_, prober)) = prober else {
        return Err("no vCPU is online; report this kernel".into());
    };
    let limit = PASS_LIMIT.mul_f64(1.0 / quiet_ratio);
    prober.source_mut().begin_pass(Some(Instant::now() + limit));
    Ok(prober.validate())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_rests_ends_soon() {
        let Ok(watch) = Watch::start(Duration::from_secs(1), 0.0001) else { return };
        thread::sleep(Duration::from_millis(200)); // into the rest after its first window, on most
        let found = Arc::downgrade(&watch.found);
        drop(watch);
        let begin = Instant::now();
        while found.strong_count() > 0 && begin.elapsed() < Duration::from_secs(30) {
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(found.strong_count(), 0);
    }

    #[test]
    fn there_is_a_result_or_a_reason() {
        let Ok(watch) = Watch::start(Duration::from_secs(1), 1.0) else { return };
        let found = watch.latest(Duration::from_secs(120));
        assert!(found.is_some() != watch.problem().is_some());
        assert!(found.is_none_or(|topology| topology.age_s.is_some()));
    }
}
