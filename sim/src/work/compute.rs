// SPDX-License-Identifier: GPL-2.0-only
//! CPU-bound work: threads that compute in chunks without end (sysbench cpu, best-effort background).

use super::{Op, Program};
use crate::sim::{Ns, Sim};

/// Computes for ever; each chunk done counts under `tally`.
pub struct Compute {
    pub tally: String,
    pub chunk_ns: Ns,
    begun: bool,
}

impl Compute {
    pub fn new(tally: impl Into<String>, chunk_ns: Ns) -> Self {
        Self { tally: tally.into(), chunk_ns, begun: false }
    }
}

impl Program for Compute {
    fn next(&mut self, s: &mut Sim) -> Op {
        if std::mem::replace(&mut self.begun, true) {
            s.tally(&self.tally, self.chunk_ns);
        }
        Op::Compute(self.chunk_ns)
    }
}
