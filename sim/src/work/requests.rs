// SPDX-License-Identifier: GPL-2.0-only
//! An open-loop request service, as Tailbench's (vSched 5.5): requests arrive at random whether or
//! not the last is done; a pool of workers serves them. The time from arrival to end is tallied.

use std::collections::VecDeque;

use super::{Op, Program};
use crate::guest::task::NewTask;
use crate::sim::{Ns, Sim};

/// How requests come, and what each takes.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    pub workers: usize,
    /// Mean time between arrivals at the whole service; exponential.
    pub interval_ns: Ns,
    /// Mean work for each.
    pub service_ns: Ns,
    /// Work is exponentially distributed, instead of always the same.
    pub random_service: bool,
}

/// Receives requests: an interrupt-driven task that hands each to a worker.
struct Source {
    service: Service,
    queue: usize,
    semaphore: usize,
    due: Ns,
    hand_over: bool,
}

impl Program for Source {
    fn next(&mut self, s: &mut Sim) -> Op {
        if std::mem::take(&mut self.hand_over) {
            // All that have come by now: each was due at its own time, however late we are.
            let mut count = 0;
            while self.due <= s.now {
                s.world.queues[self.queue].push_back(self.due);
                self.due += s.exponential(self.service.interval_ns).max(1);
                count += 1;
            }
            return Op::Up { semaphore: self.semaphore, count, sync: false };
        }
        self.hand_over = true;
        Op::SleepUntil(self.due)
    }
}

#[derive(Clone, Copy)]
enum Step {
    Wait,
    Serve,
    Done { arrived: Ns },
}

struct Worker {
    service: Service,
    tally: String,
    queue: usize,
    semaphore: usize,
    step: Step,
}

impl Program for Worker {
    fn next(&mut self, s: &mut Sim) -> Op {
        if let Step::Done { arrived } = self.step {
            if arrived >= s.world.warm_up_ns {
                s.tally(&self.tally, s.now - arrived);
            }
            self.step = Step::Wait;
        }
        match self.step {
            Step::Serve => {
                let Some(arrived) = s.world.queues[self.queue].pop_front() else {
                    self.step = Step::Wait;
                    return self.next(s);
                };
                self.step = Step::Done { arrived };
                let mean = self.service.service_ns;
                let work = if self.service.random_service { s.exponential(mean) } else { mean };
                Op::Compute(work.max(1))
            }
            _ => {
                self.step = Step::Serve;
                Op::Down(self.semaphore)
            }
        }
    }
}

/// The tasks of a service, all of one process.
pub fn tasks(s: &mut Sim, tally: &str, service: Service, process: usize) -> Vec<NewTask> {
    let semaphore = s.world.semaphore(0);
    s.world.queues.push(VecDeque::new());
    let queue = s.world.queues.len() - 1;
    let due = s.exponential(service.interval_ns).max(1);
    let source = Source { service, queue, semaphore, due, hand_over: false };
    let mut tasks = vec![NewTask::new(format!("{tally}-source"), process, source)];
    for worker in 0..service.workers {
        let program =
            Worker { service, tally: tally.to_owned(), queue, semaphore, step: Step::Wait };
        tasks.push(NewTask::new(format!("{tally}-{worker}"), process, program));
    }
    tasks
}
