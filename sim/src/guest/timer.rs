// SPDX-License-Identifier: GPL-2.0-only
//! Timers of a vCPU. They expire on it: late if it is stopped, and they wake it if it has halted.

use super::task::TaskId;
use super::vcpu::{Irq, Mode, VcpuId};
use crate::bpf::shim;
use crate::sim::{Event, Ns, Sim};

/// One hardware interrupt in the kernel's preempt count (include/linux/preempt.h).
const HARDIRQ_OFFSET: u32 = 1 << 16;

/// What an expired timer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    Wake(TaskId),
    /// A bpf_timer, by its address.
    Bpf(usize),
    /// A change of the script, by its number.
    Script(usize),
    /// A task begins.
    Begin(TaskId),
}

pub struct Timer {
    pub v: VcpuId,
    pub due: Ns,
    pub expiry: Expiry,
}

impl Sim {
    /// Arm a timer of `v`. Return its number.
    pub fn arm_timer(&mut self, v: VcpuId, at: Ns, expiry: Expiry) -> u64 {
        self.next_timer += 1;
        let timer = self.next_timer;
        self.timers.insert(timer, Timer { v, due: at, expiry });
        self.at(at, Event::Timer { v, timer });
        timer
    }

    pub fn wake_timer(&mut self, v: VcpuId, t: TaskId, at: Ns) {
        self.arm_timer(v, at, Expiry::Wake(t));
    }

    /// What the scheduler sees of the timer whose function runs on `v`; null: none does.
    pub fn runs_timer(&mut self, v: VcpuId, timer: *mut shim::hrtimer) {
        let bases = (&raw const shim::hrtimer_bases) as usize;
        let bases = self.per_cpu(bases, size_of::<shim::hrtimer_cpu_base>(), v);
        // SAFETY: the symbol's value is of this type.
        unsafe { (*bases.cast::<shim::hrtimer_cpu_base>()).clock_base[0].running = timer };
    }

    /// What the scheduler sees of the kernel's count of interrupts on `v`.
    pub fn set_in_interrupt(&mut self, v: VcpuId, interrupt: bool) {
        let count = self.per_cpu((&raw const shim::__preempt_count) as usize, size_of::<u32>(), v);
        // SAFETY: the symbol's value is of this type.
        unsafe { *count.cast::<u32>() = if interrupt { HARDIRQ_OFFSET } else { 0 } };
    }

    pub fn timer_due(&mut self, v: VcpuId, timer: u64) {
        // A vCPU that went offline has handed its timers to another.
        let Some(armed) = self.timers.get(&timer) else { return };
        let v = if self.vcpus[v].online { v } else { armed.v };
        let v = if self.vcpus[v].online {
            v
        } else {
            (0..self.vcpus.len()).find(|other| self.vcpus[*other].online).unwrap_or(v)
        };
        self.raise(v, Irq::Timer(timer));
    }

    /// A vCPU has answered the call of `from`.
    pub fn answer(&mut self, from: VcpuId) {
        let vcpu = self.vcpu(from);
        vcpu.calls_open = vcpu.calls_open.saturating_sub(1);
        if vcpu.calls_open == 0 && vcpu.mode == Mode::CallWait && vcpu.on_pcpu.is_some() {
            let r#gen = vcpu.r#gen;
            self.after(0, Event::Resume { v: from, r#gen });
        }
    }
}
