// SPDX-License-Identifier: GPL-2.0-only
//! The trace of a simulation: the last events, for reports of violations; a hash over all, by which
//! two runs are compared; and all of them, for pictures.

use std::collections::VecDeque;

use crate::guest::vcpu::VcpuId;
use crate::sim::Ns;

const LAST: usize = 400;

/// What an entry of the trace tells. `a` and `b` are meant as the comments say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// a: next task, b: previous task; u64::MAX is idle.
    Switch,
    /// a: task, b: vCPU.
    Wake,
    /// a: task, b: queue.
    Insert,
    /// a: vCPU, b: flags.
    Kick,
    /// a: vCPU.
    Ipi,
    Tick,
    Halt,
    /// a: vCPU, b: pCPU.
    HostRun,
    /// a: vCPU, b: 1 if it has halted, 0 if it was stopped.
    HostStop,
    /// a: lock.
    SpinBegin,
    SpinEnd,
    /// a: task, b: number of the change.
    Attr,
    /// a: vCPU, b: 1 if it comes.
    Hotplug,
    Violation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at_ns: Ns,
    pub v: VcpuId,
    pub what: What,
    pub a: u64,
    pub b: u64,
}

impl std::fmt::Display for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>14} ns  vCPU {:<4} {:?}", self.at_ns, self.v, self.what)?;
        match self.what {
            What::Switch => {
                let name = |t: u64| if t == u64::MAX { "idle".into() } else { format!("task {t}") };
                write!(f, " {} -> {}", name(self.b), name(self.a))
            }
            What::Wake => write!(f, " task {} on vCPU {}", self.a, self.b),
            What::Insert => write!(f, " task {} into {:#x}", self.a, self.b),
            _ => write!(f, " {} {}", self.a, self.b),
        }
    }
}

/// The trace.
pub struct Record {
    last: VecDeque<Entry>,
    /// FNV-1a over all entries.
    pub hash: u64,
    pub entries: u64,
    /// All entries, if they are kept.
    pub all: Option<Vec<Entry>>,
}

impl Default for Record {
    fn default() -> Self {
        Self { last: VecDeque::new(), hash: 0xcbf2_9ce4_8422_2325, entries: 0, all: None }
    }
}

impl Record {
    pub fn add(&mut self, at_ns: Ns, v: VcpuId, what: What, a: u64, b: u64) {
        let entry = Entry { at_ns, v, what, a, b };
        for word in [at_ns, v as u64, what as u64, a, b] {
            self.hash = (self.hash ^ word).wrapping_mul(0x0100_0000_01b3);
        }
        self.entries += 1;
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back(entry);
        if let Some(all) = &mut self.all {
            all.push(entry);
        }
    }

    /// The last entries, oldest first, at most `n`.
    pub fn last(&self, n: usize) -> impl Iterator<Item = &Entry> {
        self.last.iter().skip(self.last.len().saturating_sub(n))
    }
}
