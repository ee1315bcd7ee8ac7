// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that sleep for a set time.

use super::{Op, Program};
use crate::guest::task::NewTask;
use crate::sim::{Ns, Sim};

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

/// The tasks, all of one process.
pub fn tasks(tally: &str, tasks: usize, interval_ns: Ns, process: usize) -> Vec<NewTask> {
    (0..tasks)
        .map(|n| {
            let program = Timer { tally: tally.to_owned(), interval_ns, due: 0 };
            NewTask::new(format!("{tally}-{n}"), process, program)
        })
        .collect()
}
