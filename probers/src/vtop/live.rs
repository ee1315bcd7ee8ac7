// SPDX-License-Identifier: GPL-2.0-only
//! Probes the vCPUs of this VM, by a thread that is pinned to each.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::idle::Idle;
use super::pingpong::{BATCHES, Game, Seen, latency_ns};
use super::readings::{LatencySource, Pair, Patience, Reading};
use super::stacking::Evidence;
use crate::pulse::Pulse;
use crate::thread::{
    Priority, current_vcpu, let_others_begin, monotonic_ns, pin, run_ns, set_priority,
};

/// Time for a pair that can run together to do so; most take under a millisecond of it.
const GLANCE: Duration = Duration::from_millis(15);

/// How long a pair that does not run together is watched before the next look at the evidence, and in
/// all. A window holds some slices of the host, and real-time threads leave the vCPU between two.
const WINDOW: Duration = Duration::from_millis(60);
const WINDOWS_MAX: u64 = 30;

/// Duties below this would make rests of minutes.
const DUTY_MIN_RATIO: f64 = 0.001;

/// A vCPU that is stopped for longer after the end of a window is left out of this probe.
const GRACE: Duration = Duration::from_secs(1);

/// A latency from fewer batches than this is asked for again while there is time.
const BATCHES_ENOUGH: usize = BATCHES / 3;

/// Why nothing can be probed.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    #[error(
        "cannot start a thread for vCPU {vcpu}: {source}; raise the limit of tasks (ulimit -u)"
    )]
    NoThread { vcpu: u32, source: io::Error },
    #[error(
        "this process may run on {allowed} of {asked} vCPUs, two are needed to compare; \
         start it outside of the cpuset that restricts it"
    )]
    TooFew { asked: usize, allowed: usize },
}

/// The vCPUs of this VM as a source of latencies.
pub struct Live {
    /// The vCPUs that can be probed, in the order in which pairs count them.
    vcpus: Vec<u32>,
    workers: Vec<Worker>,
    /// Pairs that have been watched and did not run together yet.
    evidence: HashMap<Pair, Evidence>,
    /// Those that were proven in this pass.
    proven: HashSet<Pair>,
    idle: Idle,
    deadline: Option<Instant>,
    /// Set: nothing more is asked.
    stop: Arc<AtomicBool>,
    pulse: Pulse,
    /// How much of the time vCPUs may be in use.
    duty_ratio: f64,
    /// The same while the VM has little to do.
    quiet_duty_ratio: f64,
    load: Idle,
    is_realtime: bool,
}

struct Worker {
    jobs: Sender<Job>,
    results: Receiver<(u64, Option<Seen>)>,
    /// The number of the last job.
    nr_jobs: u64,
    /// Run time of the thread, as of its last job, and that of it which has been told.
    run_ns: Arc<AtomicU64>,
    told_run_ns: u64,
}

struct Job {
    number: u64,
    game: Arc<Game>,
    is_first: bool,
    until_ns: u64,
}

impl Live {
    /// Start a thread on each of these vCPUs on which this process may run.
    ///
    /// # Errors
    /// See [`LiveError`].
    pub fn start(vcpus: &[u32]) -> Result<Self, LiveError> {
        let mut live = Self {
            vcpus: Vec::new(),
            workers: Vec::new(),
            evidence: HashMap::new(),
            proven: HashSet::new(),
            idle: Idle::default(),
            deadline: None,
            stop: Arc::default(),
            pulse: Pulse::default(),
            duty_ratio: 1.0,
            quiet_duty_ratio: 1.0,
            load: Idle::default(),
            is_realtime: true,
        };
        for vcpu in vcpus {
            let started = Worker::start(*vcpu);
            let (worker, is_realtime) =
                started.map_err(|source| LiveError::NoThread { vcpu: *vcpu, source })?;
            if let Some(is_realtime) = is_realtime {
                live.vcpus.push(*vcpu);
                live.workers.push(worker);
                live.is_realtime &= is_realtime;
            }
        }
        if live.vcpus.len() < 2 && vcpus.len() >= 2 {
            return Err(LiveError::TooFew { asked: vcpus.len(), allowed: live.vcpus.len() });
        }
        Ok(live)
    }

    /// The vCPUs that can be probed: those asked for, without the offline ones and those that a cpuset
    /// keeps this process from.
    pub fn vcpus(&self) -> &[u32] {
        &self.vcpus
    }

    /// Whether the threads run before the VM's other work. Without, busy vCPUs take longer to compare.
    pub fn is_realtime(&self) -> bool {
        self.is_realtime
    }

    /// Run time since this was last asked, of the thread that ran most. Without a steal clock what was
    /// stolen meanwhile is in it.
    pub fn used(&mut self) -> Duration {
        let most_ns = self.workers.iter_mut().map(Worker::used_ns).max();
        Duration::from_nanos(most_ns.unwrap_or(0))
    }

    /// Ask no more once `stop` is set; whoever sets it unparks the thread that probes. `pulse` tells
    /// that it is alive.
    pub fn stop_with(&mut self, stop: Arc<AtomicBool>, pulse: Pulse) {
        (self.stop, self.pulse) = (stop, pulse);
    }

    /// Use vCPUs in no more than this part of the time (0 to 1), or that while the VM has little to do, and
    /// rest in between: nothing else runs on a vCPU while it is compared. To begin with there is no limit.
    pub fn keep_duty(&mut self, ratio: f64, quiet_ratio: f64) {
        self.duty_ratio = ratio;
        self.quiet_duty_ratio = quiet_ratio;
        self.load.update(monotonic_ns());
    }

    /// A new pass begins. Ask no more after this time: the next probe is the last.
    pub fn begin_pass(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
        self.proven.clear();
        self.idle.update(monotonic_ns());
    }

    /// Let all pairs play for one window, and rest. What each vCPU's thread saw, `None` for a vCPU that is
    /// lost.
    fn window(&mut self, pairs: &[Pair], length: Duration) -> HashMap<usize, Seen> {
        let begin_ns = monotonic_ns();
        let until_ns = begin_ns + length.as_nanos() as u64;
        for (a, b) in pairs {
            let game = Arc::new(Game::default());
            for (vcpu, is_first) in [(*a, true), (*b, false)] {
                self.workers[vcpu].send(Arc::clone(&game), is_first, until_ns);
            }
        }
        let until = Instant::now() + length + GRACE;
        let players = pairs.iter().flat_map(|(a, b)| [*a, *b]);
        let seen =
            players.filter_map(|vcpu| Some((vcpu, self.workers[vcpu].receive(until)?))).collect();
        let end_ns = monotonic_ns();
        self.load.update(end_ns);
        let is_quiet = self.load.is_quiet();
        let duty_ratio = if is_quiet { self.quiet_duty_ratio } else { self.duty_ratio };
        let window = Duration::from_nanos(end_ns.saturating_sub(begin_ns));
        let rest = rest_after(window, duty_ratio);
        self.pulse.rest(Instant::now() + rest, || self.stop.load(Ordering::Relaxed));
        seen
    }

    /// Let one pair play until it is clear whether it can run together, all others being asleep: vCPUs
    /// that take turns on several cores do so in step, so that two on different cores seem stacked.
    fn watch(&mut self, pair: Pair, batches_ns: &mut Vec<f64>) -> Outcome {
        for window in 0..WINDOWS_MAX {
            if batches_ns.len() >= BATCHES_ENOUGH || self.is_exhausted() {
                break;
            }
            // Pauses of different lengths, so as not to fall into step with the host.
            thread::sleep(Duration::from_millis(2 + 3 * (window % 4)));
            let mut seen = self.window(&[pair], WINDOW);
            if self.learn(pair, &mut seen, batches_ns) == Outcome::Stacked {
                return Outcome::Stacked;
            }
        }
        Outcome::Open
    }

    /// Take what was seen of a pair into account.
    fn learn(
        &mut self,
        pair: Pair,
        seen: &mut HashMap<usize, Seen>,
        batches_ns: &mut Vec<f64>,
    ) -> Outcome {
        let (Some(first), Some(second)) = (seen.remove(&pair.0), seen.remove(&pair.1)) else {
            return Outcome::Open;
        };
        batches_ns.extend(&first.batches_ns);
        if first.met || second.met {
            self.evidence.remove(&pair);
            return Outcome::Met;
        }
        let evidence = self.evidence.entry(pair).or_default();
        if !evidence.add(&first.periods, &second.periods) || !evidence.is_proof() {
            return Outcome::Open;
        }
        if self.proven.insert(pair) {
            let was_free = [pair.0, pair.1].iter().any(|v| self.idle.had_rest(self.vcpus[*v]));
            evidence.confirm(monotonic_ns(), was_free);
        }
        Outcome::Stacked
    }
}

/// The rest after a window.
fn rest_after(window: Duration, duty_ratio: f64) -> Duration {
    window.mul_f64(1.0 / duty_ratio.clamp(DUTY_MIN_RATIO, 1.0) - 1.0)
}

/// What a window showed, with all that was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Both ran at the same time.
    Met,
    /// They are on one hardware thread at present.
    Stacked,
    Open,
}

impl LatencySource for Live {
    fn probe(&mut self, pairs: &[Pair], patience: Patience) -> Vec<Reading> {
        for pair in pairs.iter().filter(|pair| self.proven.contains(pair)) {
            if let Some(evidence) = self.evidence.get_mut(pair) {
                evidence.doubt();
            }
        }
        let mut seen = self.window(pairs, GLANCE);
        let mut reading = |pair: &Pair| {
            let mut batches_ns = Vec::new();
            let mut outcome = self.learn(*pair, &mut seen, &mut batches_ns);
            if patience == Patience::Proof || outcome == Outcome::Met {
                outcome = self.watch(*pair, &mut batches_ns);
            }
            match (latency_ns(&batches_ns), self.evidence.get(pair)) {
                (Some(ns), _) => Reading::Latency { ns },
                (None, Some(evidence)) if outcome == Outcome::Stacked => {
                    Reading::NeverTogether { confidence: evidence.confidence() }
                }
                _ => Reading::Undecided,
            }
        };
        pairs.iter().map(&mut reading).collect()
    }

    fn is_exhausted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

impl Worker {
    /// Start the thread of a vCPU. `None` if it may not run there, else whether it has real-time
    /// priority. It ends when its `Worker` is dropped.
    fn start(vcpu: u32) -> io::Result<(Self, Option<bool>)> {
        let (jobs, todo) = channel::<Job>();
        let (done, results) = channel();
        let (ready, is_ready) = channel();
        let ran_ns = Arc::<AtomicU64>::default();
        let its_run_ns = Arc::clone(&ran_ns);
        let work = move || {
            let is_realtime = pin(vcpu).is_ok().then(|| set_priority(Priority::Realtime).is_ok());
            let _ = ready.send(is_realtime);
            for job in todo {
                if is_realtime == Some(true) {
                    let_others_begin();
                }
                // A vCPU that goes offline hands its threads to others: what they see there is nothing.
                let was_there = current_vcpu() == Some(vcpu);
                let seen = was_there.then(|| job.game.play(job.is_first, job.until_ns));
                let seen = seen.filter(|_| current_vcpu() == Some(vcpu));
                its_run_ns.store(run_ns(), Ordering::Relaxed);
                if done.send((job.number, seen)).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new().name(format!("vtop/{vcpu}")).spawn(work)?;
        let is_realtime = is_ready.recv().ok().flatten();
        Ok((Self { jobs, results, nr_jobs: 0, run_ns: ran_ns, told_run_ns: 0 }, is_realtime))
    }

    /// Run time since this was last asked.
    fn used_ns(&mut self) -> u64 {
        let run_ns = self.run_ns.load(Ordering::Relaxed);
        run_ns.saturating_sub(std::mem::replace(&mut self.told_run_ns, run_ns))
    }

    fn send(&mut self, game: Arc<Game>, is_first: bool, until_ns: u64) {
        self.nr_jobs += 1;
        // If the thread is gone, so is its result: `receive` tells.
        let _ = self.jobs.send(Job { number: self.nr_jobs, game, is_first, until_ns });
    }

    /// The result of the last job, unless it does not come in time.
    fn receive(&self, until: Instant) -> Option<Seen> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.results.recv_timeout(left) {
                Ok((number, seen)) if number == self.nr_jobs => return seen,
                Ok(_) => {} // of a job that was given up
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vcpus::Vcpus;

    fn online() -> Vec<u32> {
        Vcpus::read().map(|vcpus| vcpus.online).unwrap_or_default()
    }

    #[test]
    fn two_vcpus_answer_in_bounded_time() {
        let Ok(mut live) = Live::start(&online()) else { return };
        if live.vcpus().len() >= 2 {
            let start = Instant::now();
            let readings = live.probe(&[(0, 1)], Patience::Glance);
            assert_eq!(readings.len(), 1);
            assert!(start.elapsed() < GLANCE + GRACE + Duration::from_secs(5));
        }
    }

    #[test]
    fn rests_keep_the_duty() {
        for percent in 1..=100 {
            let duty_ratio = f64::from(percent) / 100.0;
            let whole = WINDOW + rest_after(WINDOW, duty_ratio);
            assert!((WINDOW.as_secs_f64() / whole.as_secs_f64() - duty_ratio).abs() < 1e-6);
        }
        assert!(rest_after(WINDOW, 0.0) <= WINDOW.mul_f64(1.0 / DUTY_MIN_RATIO));
    }

    #[test]
    fn vcpus_that_are_not_there_are_left_out() {
        let mut asked = online();
        asked.push(100_000);
        if let Ok(live) = Live::start(&asked) {
            assert!(!live.vcpus().contains(&100_000));
        }
    }
}
