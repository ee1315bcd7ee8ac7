// SPDX-License-Identifier: GPL-2.0-only
//! On which pCPU a thread of the host runs: on waking, when a pCPU idles, once in a while, and when an
//! operator moves it.

use super::{Host, HostEvent, PcpuId, ThreadId, ThreadState};
use crate::sim::{Event, Sim};

impl Host {
    /// A pCPU for a thread that wakes: its last one if idle, an idle core, an idle hardware thread,
    /// else the shortest queue.
    pub fn choose_pcpu(&self, t: ThreadId) -> PcpuId {
        let thread = &self.threads[t];
        let allowed = &thread.allowed;
        let idle = |p: &PcpuId| self.pcpus[*p].curr.is_none();
        let last = thread.last_pcpu;
        if allowed.contains(&last) && self.whole_core_idle(last) {
            return last;
        }
        allowed
            .iter()
            .find(|p| self.whole_core_idle(**p))
            .or_else(|| allowed.iter().find(|p| **p == last && idle(p)))
            .or_else(|| allowed.iter().find(|p| idle(p)))
            .or_else(|| {
                allowed.iter().min_by_key(|p| (self.pcpus[**p].queue.len(), **p != last, **p))
            })
            .copied()
            .unwrap_or(last)
    }
}

impl Sim {
    fn waiting_for(&self, from: PcpuId, to: PcpuId) -> Option<ThreadId> {
        self.host.pcpus[from]
            .queue
            .iter()
            .copied()
            .find(|t| self.host.threads[*t].allowed.contains(&to))
    }

    /// Take a thread that waits elsewhere to `p`, which idles: from the longest queue. Return it.
    pub fn pull_to(&mut self, p: PcpuId) -> Option<ThreadId> {
        let from = (0..self.host.pcpus.len())
            .filter(|from| *from != p && self.waiting_for(*from, p).is_some())
            .max_by_key(|from| (self.host.pcpus[*from].queue.len(), usize::MAX - from))?;
        let t = self.waiting_for(from, p)?;
        self.host.pcpus[from].queue.retain(|other| *other != t);
        self.rebase(t, from, p);
        self.host.pcpus[p].queue.push(t);
        self.host.threads[t].state = ThreadState::Ready(p);
        Some(t)
    }

    /// Move one thread from the longest queue to the shortest. Where they differ by one thread only,
    /// do so once in a while: the odd thread goes round.
    pub fn host_balance(&mut self) {
        let interval = self.host.config.balance_ns;
        self.after(interval, Event::Host(HostEvent::Balance));
        self.host.balances += 1;
        let rotates = self.host.balances.is_multiple_of(self.host.config.rotate_every.max(1));
        let load = |s: &Self, p: PcpuId| {
            s.host.pcpus[p].queue.len() + usize::from(s.host.pcpus[p].curr.is_some())
        };
        let mut best: Option<(usize, PcpuId, PcpuId)> = None;
        for from in 0..self.host.pcpus.len() {
            if self.host.pcpus[from].queue.is_empty() {
                continue;
            }
            for to in 0..self.host.pcpus.len() {
                let more = load(self, from).saturating_sub(load(self, to));
                if more > usize::from(!rotates)
                    && best.is_none_or(|(most, ..)| more > most)
                    && self.waiting_for(from, to).is_some()
                {
                    best = Some((more, from, to));
                }
            }
        }
        if let Some((_, from, to)) = best
            && let Some(t) = self.waiting_for(from, to)
        {
            self.host.pcpus[from].queue.retain(|other| *other != t);
            self.rebase(t, from, to);
            self.enqueue_thread(t, to);
        }
    }

    /// Let `t` run on `allowed` only, from now on: it leaves at once where it may not stay.
    pub fn pin_thread(&mut self, t: ThreadId, allowed: Vec<PcpuId>) {
        self.host.threads[t].allowed = allowed;
        match self.host.threads[t].state {
            ThreadState::Running(p) if !self.host.threads[t].allowed.contains(&p) => {
                self.take_off(p, ThreadState::Ready(p));
                self.requeue(t, p);
                self.fill(p);
            }
            ThreadState::Ready(p) if !self.host.threads[t].allowed.contains(&p) => {
                self.requeue(t, p);
            }
            _ => {}
        }
    }

    fn requeue(&mut self, t: ThreadId, from: PcpuId) {
        self.host.pcpus[from].queue.retain(|other| *other != t);
        let to = self.host.choose_pcpu(t);
        self.rebase(t, from, to);
        self.enqueue_thread(t, to);
    }
}
