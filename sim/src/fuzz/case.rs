// SPDX-License-Identifier: GPL-2.0-only
//! A case, and how it is run.

use serde::{Deserialize, Serialize};

use crate::bpf::state::{absurd_process, absurd_vcpu};
use crate::costs::Costs;
use crate::guest::GuestConfig;
use crate::guest::attrs::Change;
use crate::guest::task::{NewTask, Policy, TaskId};
use crate::guest::vcpu::VcpuId;
use crate::host::{Host, HostConfig, Load, Thread, ThreadKind};
use crate::run::{Outcome, run};
use crate::script::Action;
use crate::sim::{MS, Sim, US};
use crate::work::{Op, Program};

/// How much longer than the wait bound a task may wait while its vCPU runs: for slices that have
/// begun, and for the search, which runs four times a bound only.
const WAIT_SLACK_MS: u64 = 200;

/// One case. Times are in us or ms since the beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    pub seed: u64,
    pub length_ms: u64,
    pub vcpus: usize,
    pub pcpus: usize,
    pub smt: bool,
    pub floating: bool,
    pub host_slice_us: u64,
    pub steal_clock: bool,
    pub policies: u64,
    pub wait_bound_ms: u64,
    /// Idle vCPUs activate what wakes on them.
    #[serde(default)]
    pub queued_wakeup: bool,
    /// From the beginning the daemon says nonsense of all vCPUs.
    #[serde(default)]
    pub absurd_inputs: bool,
    pub tasks: Vec<CaseTask>,
    #[serde(default)]
    pub competitors: Vec<CaseCompetitor>,
    #[serde(default)]
    pub events: Vec<CaseEvent>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseTask {
    pub process: usize,
    pub nice: i32,
    pub best_effort: bool,
    pub kthread: bool,
    /// Empty: all.
    pub allowed: Vec<VcpuId>,
    /// Done over and over.
    pub steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Compute(u64),
    Sleep(u64),
    Down(usize),
    Up(usize),
    UpSync(usize),
    UpAll(usize),
    Yield,
    Flush,
    /// Disable migration, compute, sleep for as long, enable it.
    Pinned(u64),
    Exit,
}

/// A real-time thread of the host that stops what runs on a pCPU, in turns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseCompetitor {
    pub pcpu: usize,
    pub on_us: u64,
    pub off_us: u64,
    pub random: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseEvent {
    pub at_us: u64,
    pub by: VcpuId,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    Affinity {
        task: TaskId,
        allowed: Vec<VcpuId>,
    },
    Nice {
        task: TaskId,
        nice: i32,
    },
    Policy {
        task: TaskId,
        best_effort: bool,
    },
    Online {
        vcpu: VcpuId,
        online: bool,
    },
    Policies {
        bits: u64,
    },
    /// The daemon says of a vCPU what these bytes mean, by chance.
    Inputs {
        vcpu: VcpuId,
        seed: u64,
    },
    /// The host moves a vCPU.
    Move {
        vcpu: VcpuId,
        pcpu: usize,
    },
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    Violation(String),
    /// The same case gave two traces.
    NotReproducible,
}

pub const SEMAPHORES: usize = 4;

struct Steps {
    steps: Vec<Step>,
    at: usize,
    /// What is left of a step of several operations.
    rest: Vec<Op>,
}

impl Program for Steps {
    fn next(&mut self, s: &mut Sim) -> Op {
        if let Some(op) = self.rest.pop() {
            return match op {
                Op::SleepUntil(ns) => Op::SleepUntil(s.now + ns),
                other => other,
            };
        }
        let Some(step) = self.steps.get(self.at % self.steps.len().max(1)).copied() else {
            return Op::Exit;
        };
        self.at += 1;
        let up = |semaphore, count, sync| Op::Up { semaphore, count, sync };
        match step {
            Step::Compute(us) => Op::Compute(us * US),
            Step::Sleep(us) => Op::SleepUntil(s.now + us * US),
            Step::Down(semaphore) => Op::Down(semaphore),
            Step::Up(semaphore) => up(semaphore, 1, false),
            Step::UpSync(semaphore) => up(semaphore, 1, true),
            Step::UpAll(semaphore) => up(semaphore, 8, false),
            Step::Yield => Op::Yield,
            Step::Flush => Op::Flush,
            Step::Pinned(us) => {
                self.rest =
                    vec![Op::MigrateDisable(false), Op::SleepUntil(us * US), Op::Compute(us * US)];
                Op::MigrateDisable(true)
            }
            Step::Exit => Op::Exit,
        }
    }
}

impl Case {
    fn build(&self) -> (Sim, Vec<NewTask>) {
        let config = HostConfig { slice_ns: self.host_slice_us * US, ..HostConfig::default() };
        let smt = if self.smt { 2 } else { 1 };
        let mut host = Host::new(config, self.pcpus.div_ceil(smt), smt);
        let pcpus = host.pcpus.len();
        for v in 0..self.vcpus {
            let allowed = if self.floating { (0..pcpus).collect() } else { vec![v % pcpus] };
            host.threads.push(Thread::new(ThreadKind::Vcpu(v), allowed));
        }
        for other in &self.competitors {
            let (on_ns, off_ns) = (other.on_us * US, other.off_us * US);
            let load = if other.random {
                Load::Random { on_ns, off_ns }
            } else {
                Load::Duty { on_ns, off_ns, phase_ns: 0 }
            };
            let pcpu = other.pcpu % pcpus;
            let mut thread = Thread::new(ThreadKind::Competitor(load), vec![pcpu]);
            thread.realtime = true;
            host.threads.push(thread);
        }
        let mut guest = GuestConfig::new(self.vcpus, self.policies);
        guest.steal_clock = self.steal_clock;
        guest.wait_bound_ns = self.wait_bound_ms * MS;
        guest.queued_wakeup = self.queued_wakeup;
        let mut s = Sim::new(self.seed, Costs::default(), host, guest);
        s.guest.stall_ns = self.longest_wait_ms(pcpus) * MS;
        for _ in 0..SEMAPHORES {
            s.world.semaphore(0);
        }
        if self.absurd_inputs {
            (0..self.vcpus).for_each(|v| s.absurd_inputs(v, self.seed + v as u64));
            s.guest.config.hints_flags = u32::MAX;
            s.guest.config.reserve_vcpu = absurd_vcpu(self.seed);
            s.guest.config.confined = absurd_process(self.seed);
        }
        for event in &self.events {
            s.plan(event.at_us * US, self.action(event, pcpus));
        }
        (s, self.tasks.iter().enumerate().map(|(n, task)| self.task(n, task)).collect())
    }

    /// The bound is on waiting for a vCPU that runs: one that has a part of a core only may take as
    /// much longer.
    fn longest_wait_ms(&self, pcpus: usize) -> u64 {
        let vcpus_of_one = self.vcpus.div_ceil(pcpus) as u64;
        let moved = self.events.iter().any(|event| matches!(event.what, What::Move { .. }));
        let vcpus_of_one = if moved { self.vcpus as u64 } else { vcpus_of_one };
        let competes = if self.competitors.is_empty() { 1 } else { 2 };
        let smt = if self.smt { 2 } else { 1 };
        (self.wait_bound_ms + WAIT_SLACK_MS) * vcpus_of_one * competes * smt
    }

    fn action(&self, event: &CaseEvent, pcpus: usize) -> Action {
        let within = |v: VcpuId| v % self.vcpus;
        let change = match event.what.clone() {
            What::Affinity { task, allowed } => {
                let mut allowed: Vec<_> = allowed.into_iter().map(within).collect();
                allowed.sort_unstable();
                allowed.dedup();
                Change::Affinity { task, allowed }
            }
            What::Nice { task, nice } => Change::Nice { task, nice },
            What::Policy { task, best_effort } => Change::Policy { task, idle: best_effort },
            What::Online { vcpu, online } => Change::Online { vcpu: within(vcpu), online },
            What::Policies { bits } => Change::Policies { bits },
            What::Inputs { vcpu, seed } => Change::Inputs { vcpu: within(vcpu), seed },
            What::Move { vcpu, pcpu } => {
                return Action::Pin { thread: within(vcpu), pcpus: vec![pcpu % pcpus] };
            }
        };
        Action::Change { by: within(event.by), change }
    }

    fn task(&self, number: usize, task: &CaseTask) -> NewTask {
        let program = Steps { steps: task.steps.clone(), at: 0, rest: Vec::new() };
        let mut new = NewTask::new(format!("task-{number}"), task.process, program);
        new.nice = task.nice;
        new.kthread = task.kthread;
        if task.best_effort {
            new.policy = Policy::Idle;
        }
        if !task.allowed.is_empty() {
            let mut allowed: Vec<_> = task.allowed.iter().map(|v| v % self.vcpus).collect();
            allowed.sort_unstable();
            allowed.dedup();
            new.allowed = Some(allowed);
        }
        new
    }

    /// Run it once; `keep_trace`: the whole of it, not its end.
    ///
    /// # Errors
    /// Those of [`run`].
    pub fn run(&self, keep_trace: bool) -> anyhow::Result<Outcome> {
        let (mut s, tasks) = self.build();
        s.record.all = keep_trace.then(Vec::new);
        run(s, tasks, self.length_ms * MS)
    }

    /// Run it, and again if all is well. Return what failed, if anything, and the first run's outcome.
    ///
    /// # Errors
    /// Those of [`run`].
    pub fn check(&self) -> anyhow::Result<(Option<Failure>, Outcome)> {
        let (failure, first) = self.check_once()?;
        if failure.is_some() {
            return Ok((failure, first));
        }
        let repeats = self.run(false)?.hash == first.hash;
        Ok(((!repeats).then_some(Failure::NotReproducible), first))
    }

    /// The same without the second run.
    ///
    /// # Errors
    /// Those of [`run`].
    pub fn check_once(&self) -> anyhow::Result<(Option<Failure>, Outcome)> {
        let outcome = self.run(false)?;
        let violation = outcome.violation.as_ref();
        Ok((violation.map(|violation| Failure::Violation(violation.what.clone())), outcome))
    }
}
