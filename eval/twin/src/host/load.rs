// SPDX-License-Identifier: GPL-2.0-only
//! What takes time from vCPUs besides each other: competitors that come and go, and quotas.

use super::{HostEvent, Load, ThreadId, ThreadKind, ThreadState};
use crate::sim::{Event, Sim};

impl Sim {
    /// A competitor's running phase begins or ends.
    pub fn toggle(&mut self, t: ThreadId) {
        let ThreadKind::Competitor(load) = self.host.threads[t].kind else { return };
        let on = !self.host.threads[t].on;
        self.host.threads[t].on = on;
        let lasts = match load {
            Load::Always => None,
            Load::Duty { on_ns, off_ns, .. } => Some(if on { on_ns } else { off_ns }),
            Load::Random { on_ns, off_ns } => {
                Some(self.exponential(if on { on_ns } else { off_ns }).max(1))
            }
        };
        if let Some(ns) = lasts {
            self.after(ns, Event::Host(HostEvent::Toggle { thread: t }));
        }
        if on {
            self.host.threads[t].state = ThreadState::Waking;
            return self.thread_ready(t);
        }
        match self.host.threads[t].state {
            ThreadState::Running(p) => {
                self.take_off(p, ThreadState::Sleeping);
                self.fill(p);
            }
            ThreadState::Ready(p) => {
                self.host.pcpus[p].queue.retain(|other| *other != t);
                self.sleeps(t);
            }
            _ => self.sleeps(t),
        }
    }

    fn sleeps(&mut self, t: ThreadId) {
        let now = self.now;
        let thread = &mut self.host.threads[t];
        thread.state = ThreadState::Sleeping;
        if let Some(since) = thread.waits_since.take() {
            thread.wait_ns += now - since;
        }
    }

    fn members(&self, group: usize) -> Vec<ThreadId> {
        (0..self.host.threads.len())
            .filter(|t| self.host.threads[*t].group == Some(group))
            .collect()
    }

    /// Watch for the end of a group's quota, after one of it has begun or ceased to run.
    pub fn arm_quota(&mut self, group: usize) {
        let running: Vec<_> = self
            .members(group)
            .into_iter()
            .filter_map(|t| match self.host.threads[t].state {
                ThreadState::Running(p) => Some(p),
                _ => None,
            })
            .collect();
        for p in &running {
            self.account(*p);
        }
        let state = &mut self.host.groups[group];
        state.r#gen += 1;
        if running.is_empty() || state.throttled {
            return;
        }
        let (r#gen, ns) = (state.r#gen, state.left_ns / running.len() as u64);
        self.after(ns, Event::Host(HostEvent::QuotaOut { group, r#gen }));
    }

    pub fn quota_out(&mut self, group: usize, r#gen: u64) {
        if self.host.groups[group].r#gen != r#gen {
            return;
        }
        self.host.groups[group].throttled = true;
        for t in self.members(group) {
            match self.host.threads[t].state {
                ThreadState::Running(p) => {
                    self.take_off(p, ThreadState::Throttled);
                    self.fill(p);
                }
                ThreadState::Ready(p) => {
                    self.host.pcpus[p].queue.retain(|other| *other != t);
                    self.host.threads[t].state = ThreadState::Throttled;
                }
                _ => {}
            }
        }
    }

    /// A group's period begins: it has its quota again.
    pub fn refill(&mut self, group: usize) {
        let state = &mut self.host.groups[group];
        state.left_ns = state.quota_ns;
        state.throttled = false;
        let period = state.period_ns;
        self.after(period, Event::Host(HostEvent::Refill { group }));
        for t in self.members(group) {
            if self.host.threads[t].state == ThreadState::Throttled {
                let p = self.host.choose_pcpu(t);
                let from = self.host.threads[t].last_pcpu;
                self.rebase(t, from, p);
                self.enqueue_thread(t, p);
            }
        }
        self.arm_quota(group);
    }
}
