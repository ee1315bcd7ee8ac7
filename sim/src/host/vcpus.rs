// SPDX-License-Identifier: GPL-2.0-only
//! Where host and guest meet: vCPUs that run, stop, halt and wake, and the steal clock.

use super::{HostEvent, PcpuId, ThreadKind, ThreadState};
use crate::bpf::shim;
use crate::guest::vcpu::{Mode, VcpuId};
use crate::record::What;
use crate::sim::{Event, Ns, Sim};

const CPUTIME_STEAL: usize = 7;

impl Sim {
    /// The vCPU that runs on `p`, if any.
    pub fn vcpu_on(&self, p: PcpuId) -> Option<VcpuId> {
        match self.host.threads[self.host.pcpus[p].curr?].kind {
            ThreadKind::Vcpu(v) => Some(v),
            ThreadKind::Competitor(_) => None,
        }
    }

    /// How long `work_ns` of work take on `v`, which runs, at its present speed.
    pub fn wall_ns(&self, v: VcpuId, work_ns: Ns) -> Ns {
        match self.vcpus[v].on_pcpu {
            Some(p) => (work_ns * 1024).div_ceil(self.host.speed_1024(p).max(1)),
            None => work_ns,
        }
    }

    /// How much work `v` does in `wall_ns` at its present speed; none if it does not run.
    pub fn work_ns(&self, v: VcpuId, wall_ns: Ns) -> Ns {
        match self.vcpus[v].on_pcpu {
            Some(p) => wall_ns * self.host.speed_1024(p) / 1024,
            None => 0,
        }
    }

    /// `v` begins to run on `p`. Its caches are cold if something else ran there, or it elsewhere, in
    /// the `away_ns` since it last ran: lines are lost at a quarter of the rate of time at most.
    pub fn vcpu_runs(&mut self, v: VcpuId, p: PcpuId, away_ns: Ns) {
        let now = self.now;
        let refill = match away_ns {
            0 => 0,
            _ => self.costs.host_switch_ns + self.costs.host_refill_ns.min(away_ns / 4),
        };
        let vcpu = self.vcpu(v);
        vcpu.on_pcpu = Some(p);
        vcpu.since = now;
        match vcpu.mode {
            Mode::User | Mode::Kernel => vcpu.left_ns += refill,
            _ => vcpu.debt_ns += refill,
        }
        self.record.add(now, v, What::HostRun, v as u64, p as u64);
        self.show_steal(v, false);
        self.go_on(v);
    }

    /// `v` ceases to run: it has halted, or the host has stopped it.
    pub fn vcpu_stops(&mut self, v: VcpuId, halted: bool) {
        self.settle(v);
        let vcpu = self.vcpu(v);
        vcpu.r#gen += 1;
        vcpu.on_pcpu = None;
        let now = self.now;
        self.record.add(now, v, What::HostStop, v as u64, u64::from(halted));
        self.show_steal(v, !halted);
    }

    /// Let the guest see what was stolen from `v`, as KVM does when it enters and leaves a vCPU.
    fn show_steal(&mut self, v: VcpuId, preempted: bool) {
        if !self.guest.config.steal_clock || self.guest.config.steal_below {
            return;
        }
        let stolen = self.host.stolen_ns(v);
        let clock = (&raw const shim::steal_time) as usize;
        let stat = (&raw const shim::kernel_cpustat) as usize;
        let clock = self.per_cpu(clock, size_of::<shim::kvm_steal_time>(), v);
        let stat = self.per_cpu(stat, size_of::<shim::kernel_cpustat>(), v);
        // SAFETY: per_cpu() returned values of these types.
        unsafe {
            let clock = clock.cast::<shim::kvm_steal_time>();
            (*clock).steal = stolen;
            (*clock).preempted = u8::from(preempted);
            (*stat.cast::<shim::kernel_cpustat>()).cpustat[CPUTIME_STEAL] = stolen;
        }
    }

    /// The code of `v` halts.
    pub fn host_block(&mut self, v: VcpuId) {
        if let ThreadState::Running(p) = self.host.threads[v].state {
            self.take_off(p, ThreadState::Sleeping);
            self.fill(p);
        }
    }

    /// An interrupt has arrived at `v`, which has halted.
    pub fn host_wake(&mut self, v: VcpuId) {
        if self.host.threads[v].state == ThreadState::Sleeping {
            self.host.threads[v].state = ThreadState::Waking;
            let latency = self.costs.halt_wake_ns;
            self.after(latency, Event::Host(HostEvent::Wake { thread: v }));
        }
    }
}
