// SPDX-License-Identifier: GPL-2.0-only
//! The host's scheduler: who runs on a pCPU, by virtual run time, with slices and wake-up
//! preemption; real-time threads before all others.

use super::{HostEvent, PcpuId, ThreadId, ThreadKind, ThreadState};
use crate::sim::{Event, Sim};

impl Sim {
    fn thread(&mut self, t: ThreadId) -> &mut super::Thread {
        &mut self.host.threads[t]
    }

    /// Account the run time of what runs on `p`.
    pub fn account(&mut self, p: PcpuId) {
        let now = self.now;
        let Some(t) = self.host.pcpus[p].curr else { return };
        let thread = self.thread(t);
        let ran = now - thread.since;
        thread.since = now;
        thread.run_ns += ran;
        thread.vruntime += ran;
        let vruntime = thread.vruntime;
        let waiting = self.host.pcpus[p].queue.iter().map(|t| self.host.threads[*t].vruntime);
        let least = waiting.fold(vruntime, u64::min);
        let pcpu = &mut self.host.pcpus[p];
        pcpu.min_vruntime = pcpu.min_vruntime.max(least);
    }

    /// Put `next` on `p`, or nothing, instead of what runs there.
    fn set_curr(&mut self, p: PcpuId, next: Option<ThreadId>) {
        let sibling_vcpu = self.host.pcpus[p].sibling.and_then(|sibling| self.vcpu_on(sibling));
        if let Some(v) = sibling_vcpu {
            self.settle(v); // at the old speed
        }
        let pcpu = &mut self.host.pcpus[p];
        pcpu.last = pcpu.curr.or(pcpu.last);
        pcpu.curr = next;
        pcpu.r#gen += 1;
        pcpu.slice_armed = false;
        if let Some(v) = sibling_vcpu {
            self.vcpu(v).r#gen += 1;
            self.go_on(v);
        }
    }

    /// Take what runs on `p` off it; it goes into `state`.
    pub fn take_off(&mut self, p: PcpuId, state: ThreadState) {
        self.account(p);
        let Some(t) = self.host.pcpus[p].curr else { return };
        let wants = state != ThreadState::Sleeping;
        let now = self.now;
        let thread = self.thread(t);
        thread.state = state;
        if wants {
            thread.stops += 1;
            thread.waits_since.get_or_insert(now);
        }
        if let ThreadKind::Vcpu(v) = thread.kind {
            self.vcpu_stops(v, !wants);
        }
        self.set_curr(p, None);
        if let ThreadState::Ready(_) = state {
            self.host.pcpus[p].queue.push(t);
        }
    }

    fn put_on(&mut self, p: PcpuId, t: ThreadId) {
        let now = self.now;
        self.host.pcpus[p].queue.retain(|other| *other != t);
        let thread = self.thread(t);
        thread.state = ThreadState::Running(p);
        let away_ns = now - thread.since;
        thread.since = now;
        if let Some(since) = thread.waits_since.take() {
            thread.wait_ns += now - since;
        }
        let moved = std::mem::replace(&mut thread.last_pcpu, p) != p;
        let kind = thread.kind;
        let cold = moved || self.host.pcpus[p].last.is_some_and(|last| last != t);
        self.set_curr(p, Some(t));
        if let ThreadKind::Vcpu(v) = kind {
            self.vcpu_runs(v, p, if cold { away_ns } else { 0 });
        }
        if !self.host.pcpus[p].queue.is_empty() {
            self.arm_slice(p);
        }
    }

    fn arm_slice(&mut self, p: PcpuId) {
        if std::mem::replace(&mut self.host.pcpus[p].slice_armed, true) {
            return;
        }
        let r#gen = self.host.pcpus[p].r#gen;
        let slice = self.host.config.slice_ns;
        self.after(slice, Event::Host(HostEvent::Slice { p, r#gen }));
    }

    /// The one that should run next on `p`, of those that wait there.
    fn best_waiting(&self, p: PcpuId) -> Option<ThreadId> {
        self.host.pcpus[p].queue.iter().copied().min_by_key(|t| {
            let thread = &self.host.threads[*t];
            (!thread.realtime, thread.vruntime, *t)
        })
    }

    /// If nothing runs on `p`, let something run there: what waits there, else what waits elsewhere.
    pub fn fill(&mut self, p: PcpuId) {
        if self.host.pcpus[p].curr.is_some() {
            return;
        }
        if let Some(t) = self.best_waiting(p).or_else(|| self.pull_to(p)) {
            self.put_on(p, t);
        }
    }

    pub fn slice_ends(&mut self, p: PcpuId, r#gen: u64) {
        if self.host.pcpus[p].r#gen != r#gen {
            return;
        }
        self.account(p);
        self.host.pcpus[p].slice_armed = false;
        let (Some(curr), Some(next)) = (self.host.pcpus[p].curr, self.best_waiting(p)) else {
            return;
        };
        let (curr, next) = (&self.host.threads[curr], &self.host.threads[next]);
        let stays = match (curr.realtime, next.realtime) {
            (true, false) => true,
            (false, true) => false,
            _ => curr.vruntime < next.vruntime,
        };
        if stays {
            return self.arm_slice(p);
        }
        self.take_off(p, ThreadState::Ready(p));
        self.fill(p);
    }

    /// A thread that slept is ready to run.
    pub fn thread_ready(&mut self, t: ThreadId) {
        if self.thread(t).state != ThreadState::Waking {
            return;
        }
        let now = self.now;
        self.thread(t).waits_since = Some(now);
        let p = self.host.choose_pcpu(t);
        let (from, bonus) = (self.host.threads[t].last_pcpu, self.host.config.sleeper_bonus_ns);
        self.rebase(t, from, p);
        let earliest = self.host.pcpus[p].min_vruntime.saturating_sub(bonus);
        let thread = self.thread(t);
        thread.vruntime = thread.vruntime.max(earliest);
        self.enqueue_thread(t, p);
    }

    /// Let `t` wait on `p`, and run if it is its turn.
    pub fn enqueue_thread(&mut self, t: ThreadId, p: PcpuId) {
        self.thread(t).state = ThreadState::Ready(p);
        self.host.pcpus[p].queue.push(t);
        self.account(p);
        let Some(curr) = self.host.pcpus[p].curr else { return self.fill(p) };
        let (new, curr) = (&self.host.threads[t], &self.host.threads[curr]);
        let granularity = self.host.config.wakeup_granularity_ns;
        let preempts = match (new.realtime, curr.realtime) {
            (true, false) => true,
            (false, true) => false,
            _ => new.vruntime + granularity < curr.vruntime,
        };
        if preempts {
            self.take_off(p, ThreadState::Ready(p));
            self.fill(p);
        } else {
            self.arm_slice(p);
        }
    }

    /// Make the virtual run time of `t`, relative to `from`, relative to `to`. Both go on with what runs
    /// there up to now, as in enqueue_entity(): else it would have to pay for what it ran alone.
    pub fn rebase(&mut self, t: ThreadId, from: PcpuId, to: PcpuId) {
        self.account(from);
        self.account(to);
        let (from, to) = (self.host.pcpus[from].min_vruntime, self.host.pcpus[to].min_vruntime);
        let thread = self.thread(t);
        thread.vruntime = (thread.vruntime + to).saturating_sub(from);
    }

    /// Account everything, so that sums can be read.
    pub fn settle_accounts(&mut self) {
        for p in 0..self.host.pcpus.len() {
            self.account(p);
        }
        let now = self.now;
        for thread in &mut self.host.threads {
            if let Some(since) = thread.waits_since.replace(now) {
                thread.wait_ns += now - since;
            } else {
                thread.waits_since = None;
            }
        }
    }
}
