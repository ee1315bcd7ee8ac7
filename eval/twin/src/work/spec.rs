// SPDX-License-Identifier: GPL-2.0-only
//! [[work]] entries of a scenario.

use serde::Deserialize;

use super::barrier::{self, Phases, Wait};
use super::compute::{Compute, Finite};
use super::pairs;
use super::pipeline;
use super::requests::{self, Service};
use super::shootdown::Unmapper;
use crate::guest::task::{NewTask, Policy};
use crate::guest::vcpu::VcpuId;
use crate::sim::{Sim, US};

/// One process of the guest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// Its results are reported under this name.
    pub name: String,
    pub kind: Kind,
    #[serde(default)]
    pub nice: i32,
    /// SCHED_IDLE.
    #[serde(default)]
    pub best_effort: bool,
    /// vCPUs that its tasks may run on; empty: all.
    #[serde(default)]
    pub allowed: Vec<VcpuId>,
    /// How much of the costs of a migration its tasks pay, in percent: the size of the working set.
    #[serde(default = "hundred")]
    pub footprint_percent: u64,
}

fn hundred() -> u64 {
    100
}

/// What the tasks do. The comments name the paper workloads that each stands for.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Kind {
    /// sysbench cpu, best-effort background.
    Compute { tasks: usize, chunk_us: u64 },
    /// The same with an end; the time that it takes is reported.
    Finite { tasks: usize, work_us: u64 },
    /// Tailbench, memcached, nginx: an open-loop service.
    Requests {
        workers: usize,
        interval_us: u64,
        service_us: u64,
        #[serde(default)]
        random: bool,
    },
    /// PARSEC with pthread barriers (block), NPB (spin), OpenMP's default (spin, then block).
    Barrier {
        threads: usize,
        work_us: u64,
        #[serde(default)]
        jitter_percent: u64,
        /// Threads take so many pieces of `work_us` as they get done, instead of one each.
        pieces: Option<u64>,
        wait: WaitSpec,
    },
    /// dedup, ferret: stages with bounded queues in between.
    Pipeline { stages: usize, threads: usize, work_us: u64, queue: usize },
    /// Fork-join: a parent that starts `tasks` short tasks and waits for all.
    ForkJoin { tasks: usize, work_us: u64 },
    /// Threads that compute and unmap memory now and then (dedup's munmap, the TLB shootdowns of
    /// demand-based coscheduling).
    Shootdown { threads: usize, work_us: u64 },
    /// hackbench, message passing: pairs that wake each other in turns.
    PingPong { pairs: usize, work_us: u64 },
    /// cyclictest: sleeps that much and reports how late it wakes.
    Timer { tasks: usize, interval_us: u64 },
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WaitSpec {
    Block,
    Spin,
    SpinUs(u64),
}

impl Work {
    /// Refuse what cannot be. Return the field and what is wrong with it.
    pub fn check(&self, nr_vcpus: usize) -> Result<(), (&'static str, String)> {
        if let Some(v) = self.allowed.iter().find(|v| **v >= nr_vcpus) {
            return Err(("allowed", format!("there is no vCPU {v}: the guest has {nr_vcpus}")));
        }
        if !(-20..=19).contains(&self.nice) {
            return Err(("nice", format!("{} is not from -20 to 19", self.nice)));
        }
        let counts = match self.kind {
            Kind::Compute { tasks, chunk_us: us } | Kind::Finite { tasks, work_us: us } => {
                [tasks as u64, us, 1]
            }
            Kind::Requests { workers, interval_us, service_us, .. } => {
                [workers as u64, interval_us, service_us]
            }
            Kind::Barrier { threads, work_us, .. } | Kind::Shootdown { threads, work_us } => {
                [threads as u64, work_us, 1]
            }
            Kind::Pipeline { stages, threads, work_us, queue } => {
                [(stages * threads) as u64, work_us, queue as u64]
            }
            Kind::ForkJoin { tasks, work_us } => [tasks as u64, work_us, 1],
            Kind::PingPong { pairs, .. } => [pairs as u64, 1, 1],
            Kind::Timer { tasks, interval_us } => [tasks as u64, interval_us, 1],
        };
        if counts.contains(&0) {
            return Err(("kind", format!("{:?}: numbers must be at least 1", self.name)));
        }
        Ok(())
    }

    /// Its tasks.
    pub fn tasks(&self, s: &mut Sim, process: usize) -> Vec<NewTask> {
        let name = &self.name;
        let mut tasks: Vec<NewTask> = match self.kind {
            Kind::Compute { tasks, chunk_us } => (0..tasks)
                .map(|n| {
                    let program = Compute::new(name, chunk_us * US);
                    NewTask::new(format!("{name}-{n}"), process, program)
                })
                .collect(),
            Kind::Finite { tasks, work_us } => (0..tasks)
                .map(|n| {
                    let program = Finite::new(name, work_us * US);
                    NewTask::new(format!("{name}-{n}"), process, program)
                })
                .collect(),
            Kind::Requests { workers, interval_us, service_us, random } => {
                let service = Service {
                    workers,
                    interval_ns: interval_us * US,
                    service_ns: service_us * US,
                    random_service: random,
                };
                requests::tasks(s, name, service, process)
            }
            Kind::Barrier { threads, work_us, jitter_percent, pieces, wait } => {
                let wait = match wait {
                    WaitSpec::Block => Wait::Block,
                    WaitSpec::Spin => Wait::Spin,
                    WaitSpec::SpinUs(us) => Wait::SpinThenBlock(us * US),
                };
                let phases =
                    Phases { threads, work_ns: work_us * US, jitter_percent, pieces, wait };
                barrier::tasks(s, name, phases, process)
            }
            Kind::Pipeline { stages, threads, work_us, queue } => {
                pipeline::tasks(s, name, stages, threads, work_us * US, queue, process)
            }
            Kind::ForkJoin { tasks, work_us } => {
                vec![pipeline::fork_join(s, name, tasks, work_us * US, process)]
            }
            Kind::Shootdown { threads, work_us } => (0..threads)
                .map(|n| {
                    let program = Unmapper::new(name, work_us * US);
                    NewTask::new(format!("{name}-{n}"), process, program)
                })
                .collect(),
            Kind::PingPong { pairs, work_us } => {
                pairs::ping_pong(s, name, pairs, work_us * US, process)
            }
            Kind::Timer { tasks, interval_us } => {
                pairs::timers(name, tasks, interval_us * US, process)
            }
        };
        for task in &mut tasks {
            task.nice = self.nice;
            task.footprint_1024 = self.footprint_percent * 1024 / 100;
            if self.best_effort {
                task.policy = Policy::Idle;
            }
            if !self.allowed.is_empty() {
                task.allowed = Some(self.allowed.clone());
            }
        }
        tasks
    }
}
