// SPDX-License-Identifier: GPL-2.0-only
//! What the guest's tasks do. A program is asked for its next step whenever the last is done.

pub mod barrier;
pub mod compute;
pub mod requests;
pub mod timers;

use std::collections::{BTreeMap, VecDeque};

use crate::guest::task::{State, TaskId};
use crate::sim::{Ns, Sim};

/// A step of a program.
pub enum Op {
    /// Use this much of a vCPU's time, at full speed.
    Compute(Ns),
    SleepUntil(Ns),
    /// Take a token from a semaphore, or wait for one.
    Down(usize),
    /// Give `count` tokens to a semaphore; `sync`: the giver is about to wait itself.
    Up {
        semaphore: usize,
        count: u32,
        sync: bool,
    },
    Yield,
    /// Disable (true) or enable migration, as kernel code does around per-CPU data.
    MigrateDisable(bool),
    /// Keep interrupts off for so long, as some drivers do.
    IrqsOff(Ns),
    /// Unmap memory: all vCPUs that run the process must answer.
    Flush,
    Exit,
}

/// What a task does.
pub trait Program {
    /// The next step.
    fn next(&mut self, s: &mut Sim) -> Op;
}

#[derive(Default)]
struct Semaphore {
    tokens: u64,
    waiters: VecDeque<TaskId>,
}

/// Durations or rates that a workload reports, by name.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub count: u64,
    pub sum: u64,
    pub max: u64,
}

/// What tasks share, and what they report.
#[derive(Default)]
pub struct World {
    semaphores: Vec<Semaphore>,
    pub tallies: BTreeMap<String, Tally>,
    /// What happened before this is warm-up, and is not tallied.
    pub warm_up_ns: Ns,
    pub barriers: Vec<barrier::State>,
    /// Arrival times of requests that nobody serves yet.
    pub queues: Vec<VecDeque<Ns>>,
}

impl World {
    pub fn semaphore(&mut self, tokens: u64) -> usize {
        self.semaphores.push(Semaphore { tokens, waiters: VecDeque::new() });
        self.semaphores.len() - 1
    }

    /// Give a token. Return the task that is to be woken for it, if one waits.
    pub fn give(&mut self, semaphore: usize) -> Option<TaskId> {
        let semaphore = &mut self.semaphores[semaphore];
        let waiter = semaphore.waiters.pop_front();
        if waiter.is_none() {
            semaphore.tokens += 1;
        }
        waiter
    }
}

impl Sim {
    /// Take a token for `t`; or let it wait, and return false.
    pub fn take_or_wait(&mut self, semaphore: usize, t: TaskId) -> bool {
        let semaphore = &mut self.world.semaphores[semaphore];
        if semaphore.tokens > 0 {
            semaphore.tokens -= 1;
            return true;
        }
        semaphore.waiters.push_back(t);
        self.task(t).state = State::Blocked;
        false
    }

    /// Report `value` under `name`.
    pub fn tally(&mut self, name: &str, value: u64) {
        if self.now < self.world.warm_up_ns {
            return;
        }
        if !self.world.tallies.contains_key(name) {
            self.world.tallies.insert(name.to_owned(), Tally::default());
        }
        if let Some(tally) = self.world.tallies.get_mut(name) {
            tally.count += 1;
            tally.sum += value;
            tally.max = tally.max.max(value);
        }
    }
}
