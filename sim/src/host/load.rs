// SPDX-License-Identifier: GPL-2.0-only
//! What takes time from vCPUs besides each other: competitors that come and go.

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
}
