// SPDX-License-Identifier: GPL-2.0-only
//! Messages between pairs of tasks, and tasks that sleep for a set time.

use super::{Op, Program};
use crate::guest::task::NewTask;
use crate::sim::{Ns, Sim};

#[derive(Clone, Copy)]
enum Step {
    Receive,
    Work,
    Send,
}

/// One of a pair: waits for a message, works, answers. A full round of the first one is tallied.
struct Partner {
    tally: Option<String>,
    work_ns: Ns,
    inbox: usize,
    outbox: usize,
    step: Step,
    since: Ns,
}

impl Program for Partner {
    fn next(&mut self, s: &mut Sim) -> Op {
        match self.step {
            Step::Receive => {
                self.step = Step::Work;
                Op::Down(self.inbox)
            }
            Step::Work => {
                self.step = Step::Send;
                Op::Compute(self.work_ns.max(1))
            }
            Step::Send => {
                self.step = Step::Receive;
                if let Some(tally) = &self.tally {
                    s.tally(tally, s.now - self.since);
                    self.since = s.now;
                }
                Op::Up { semaphore: self.outbox, count: 1, sync: true }
            }
        }
    }
}

/// Pairs of tasks that send each other one message in turns.
pub fn ping_pong(
    s: &mut Sim,
    tally: &str,
    pairs: usize,
    work_ns: Ns,
    process: usize,
) -> Vec<NewTask> {
    let mut tasks = Vec::new();
    for pair in 0..pairs {
        let boxes = [s.world.semaphore(1), s.world.semaphore(0)];
        for side in 0..2 {
            let program = Partner {
                tally: (side == 0).then(|| tally.to_owned()),
                work_ns,
                inbox: boxes[side],
                outbox: boxes[1 - side],
                step: Step::Receive,
                since: 0,
            };
            tasks.push(NewTask::new(format!("{tally}-{pair}.{side}"), process, program));
        }
    }
    tasks
}

/// Sleeps until a set time, and tallies how late it went on.
struct Timer {
    tally: String,
    interval_ns: Ns,
    due: Ns,
}

impl Program for Timer {
    fn next(&mut self, s: &mut Sim) -> Op {
        if self.due > 0 {
            s.tally(&self.tally, s.now - self.due);
        }
        self.due = s.now + self.interval_ns;
        Op::SleepUntil(self.due)
    }
}

pub fn timers(tally: &str, tasks: usize, interval_ns: Ns, process: usize) -> Vec<NewTask> {
    (0..tasks)
        .map(|n| {
            let program = Timer { tally: tally.to_owned(), interval_ns, due: 0 };
            NewTask::new(format!("{tally}-{n}"), process, program)
        })
        .collect()
}
