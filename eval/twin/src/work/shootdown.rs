// SPDX-License-Identifier: GPL-2.0-only
//! Threads of one process that unmap memory now and then: each time all vCPUs that run the process
//! must answer before the caller goes on.

use super::{Op, Program};
use crate::sim::{Ns, Sim};

pub struct Unmapper {
    tally: String,
    work_ns: Ns,
    /// When the last unmapping began, if one has.
    began: Option<Ns>,
    worked: bool,
}

impl Unmapper {
    pub fn new(tally: &str, work_ns: Ns) -> Self {
        Self { tally: tally.to_owned(), work_ns, began: None, worked: false }
    }
}

impl Program for Unmapper {
    fn next(&mut self, s: &mut Sim) -> Op {
        if std::mem::take(&mut self.worked) {
            self.began = Some(s.now);
            return Op::Flush;
        }
        if let Some(began) = self.began.take() {
            s.tally(&self.tally, s.now - began);
        }
        self.worked = true;
        // Half to one and a half times the mean, so that threads do not go in step.
        let jitter = s.below(self.work_ns);
        Op::Compute(self.work_ns / 2 + jitter)
    }
}
