// SPDX-License-Identifier: GPL-2.0-only
//! Stages with bounded queues in between (dedup, ferret), and a parent that forks and joins.

use super::{Op, Program};
use crate::guest::task::NewTask;
use crate::sim::{Ns, Sim};

#[derive(Clone, Copy)]
enum Step {
    Take,
    FreeSlot,
    Work,
    WaitSlot,
    Put,
}

/// A thread of a stage: takes an item, frees its slot, works, waits for a slot in the next queue and
/// puts it there. The first stage makes items, the last one counts them.
struct Stage {
    tally: String,
    work_ns: Ns,
    /// Items and free slots of the queue before and the one after.
    before: Option<(usize, usize)>,
    after: Option<(usize, usize)>,
    step: Step,
}

impl Program for Stage {
    fn next(&mut self, s: &mut Sim) -> Op {
        match self.step {
            Step::Take => {
                self.step = Step::FreeSlot;
                match self.before {
                    Some((items, _)) => Op::Down(items),
                    None => self.next(s),
                }
            }
            Step::FreeSlot => {
                self.step = Step::Work;
                match self.before {
                    Some((_, slots)) => Op::Up { semaphore: slots, count: 1, sync: false },
                    None => self.next(s),
                }
            }
            Step::Work => {
                self.step = Step::WaitSlot;
                let jitter = s.below(self.work_ns);
                Op::Compute((self.work_ns / 2 + jitter).max(1))
            }
            Step::WaitSlot => {
                self.step = Step::Put;
                match self.after {
                    Some((_, slots)) => Op::Down(slots),
                    None => self.next(s),
                }
            }
            Step::Put => {
                self.step = Step::Take;
                match self.after {
                    Some((items, _)) => Op::Up { semaphore: items, count: 1, sync: false },
                    None => {
                        s.tally(&self.tally, self.work_ns);
                        self.next(s)
                    }
                }
            }
        }
    }
}

/// `stages` stages of `threads` threads, with queues of `queue` slots.
pub fn tasks(
    s: &mut Sim,
    tally: &str,
    stages: usize,
    threads: usize,
    work_ns: Ns,
    queue: usize,
    process: usize,
) -> Vec<NewTask> {
    let between: Vec<(usize, usize)> =
        (1..stages).map(|_| (s.world.semaphore(0), s.world.semaphore(queue as u64))).collect();
    let mut tasks = Vec::new();
    for stage in 0..stages {
        for thread in 0..threads {
            let program = Stage {
                tally: tally.to_owned(),
                work_ns,
                before: stage.checked_sub(1).map(|before| between[before]),
                after: between.get(stage).copied(),
                step: Step::Take,
            };
            tasks.push(NewTask::new(format!("{tally}-{stage}.{thread}"), process, program));
        }
    }
    tasks
}

/// Forks `tasks` children, waits for all, and begins again; each round is tallied.
struct Parent {
    tally: String,
    tasks: usize,
    work_ns: Ns,
    done: usize,
    process: usize,
    forked: usize,
    joined: usize,
    since: Ns,
}

impl Program for Parent {
    fn next(&mut self, s: &mut Sim) -> Op {
        if self.forked < self.tasks {
            if self.forked == 0 {
                self.since = s.now;
            }
            self.forked += 1;
            let child = Child { work_ns: self.work_ns, done: self.done, step: 0 };
            let name = format!("{}-child", self.tally);
            return Op::Fork(Box::new(NewTask::new(name, self.process, child)));
        }
        if self.joined < self.tasks {
            self.joined += 1;
            return Op::Down(self.done);
        }
        s.tally(&self.tally, s.now - self.since);
        (self.forked, self.joined) = (0, 0);
        Op::Compute(self.work_ns)
    }
}

struct Child {
    work_ns: Ns,
    done: usize,
    step: u8,
}

impl Program for Child {
    fn next(&mut self, _s: &mut Sim) -> Op {
        self.step += 1;
        match self.step {
            1 => Op::Compute(self.work_ns),
            2 => Op::Up { semaphore: self.done, count: 1, sync: false },
            _ => Op::Exit,
        }
    }
}

pub fn fork_join(s: &mut Sim, tally: &str, tasks: usize, work_ns: Ns, process: usize) -> NewTask {
    let done = s.world.semaphore(0);
    let program = Parent {
        tally: tally.to_owned(),
        tasks,
        work_ns,
        done,
        process,
        forked: 0,
        joined: 0,
        since: 0,
    };
    NewTask::new(format!("{tally}-parent"), process, program)
}
