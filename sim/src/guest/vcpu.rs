// SPDX-License-Identifier: GPL-2.0-only
//! A vCPU: what its code waits for, and its runqueue.

use std::collections::VecDeque;

use super::scx::ScxRq;
use super::task::TaskId;
use crate::bpf::shim;
use crate::host::PcpuId;
use crate::sim::{Event, Ns, Sim};

/// SCX_RQ_CLK_VALID.
const CLOCK_VALID: u32 = 1 << 5;

pub type VcpuId = usize;

/// What the code of a vCPU waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A task computes; interrupts end it.
    User,
    /// The kernel works; interrupts wait.
    Kernel,
    /// The kernel spins for a lock; interrupts wait.
    Spin,
    /// The kernel spins with interrupts on, for other vCPUs to answer a call.
    CallWait,
    /// The vCPU has halted; an interrupt wakes it.
    Halted,
}

impl Mode {
    /// Return true if an interrupt is handled at once.
    pub fn interruptible(self) -> bool {
        matches!(self, Self::User | Self::CallWait)
    }

    /// Return true if the wait ends by the passing of time.
    pub fn is_timed(self) -> bool {
        matches!(self, Self::User | Self::Kernel)
    }
}

/// Interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Irq {
    Resched,
    /// Activate the tasks that wakers have left to this vCPU.
    Woken,
    Tick,
    /// A timer of this number has expired.
    Timer(u64),
    /// Run a function for this vCPU (a TLB shootdown), which waits for the answer.
    Call(VcpuId),
}

/// Counts of one vCPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct VcpuCounts {
    /// Time spent waiting for locks, stops included.
    pub spin_ns: Ns,
}

/// One vCPU of the guest.
pub struct Vcpu {
    pub id: VcpuId,
    pub mode: Mode,
    /// Work that its code asked for and has not had, at full speed.
    pub left_ns: Ns,
    /// When `left_ns` was right.
    pub since: Ns,
    /// Changes whenever its code goes on or its speed changes: older events are void.
    pub r#gen: u64,
    /// Time that its code used without a point where others could see it.
    pub debt_ns: Ns,
    /// Where it runs; none if it was stopped or has halted.
    pub on_pcpu: Option<PcpuId>,
    pub pending: Vec<Irq>,
    /// Tasks that wakers have left to this vCPU to activate (rq->wake_list).
    pub woken: VecDeque<TaskId>,

    pub online: bool,
    pub curr: Option<TaskId>,
    pub need_resched: bool,
    /// The runqueue's clock, and whether it was read since the lock was taken.
    pub clock: Ns,
    pub clock_valid: bool,
    pub tick_on: bool,
    pub tick_gen: u64,
    /// Vcpus that have not answered this one's call yet.
    pub calls_open: usize,
    /// Where the last search for an idle vCPU ended, as in cpumask_any_and_distribute().
    pub distribute: usize,
    /// A running task that is to be moved away by the stopper.
    pub evict: Option<TaskId>,
    pub scx: ScxRq,
    pub counts: VcpuCounts,
}

impl Vcpu {
    pub fn new(id: VcpuId) -> Self {
        Self {
            id,
            mode: Mode::Halted,
            left_ns: 0,
            since: 0,
            r#gen: 0,
            debt_ns: 0,
            on_pcpu: None,
            pending: Vec::new(),
            woken: VecDeque::new(),
            online: true,
            curr: None,
            need_resched: false,
            clock: 0,
            clock_valid: false,
            tick_on: false,
            tick_gen: 0,
            calls_open: 0,
            distribute: 0,
            evict: None,
            scx: ScxRq::default(),
            counts: VcpuCounts::default(),
        }
    }
}

impl Sim {
    /// An interrupt arrives at `v`. It is handled when `v` runs and lets it.
    pub fn raise(&mut self, v: VcpuId, irq: Irq) {
        let vcpu = self.vcpu(v);
        if !vcpu.pending.contains(&irq) {
            vcpu.pending.push(irq);
        }
        match (vcpu.mode, vcpu.on_pcpu) {
            (Mode::Halted, None) => self.host_wake(v),
            (mode, Some(_)) if mode.interruptible() => {
                let r#gen = vcpu.r#gen;
                self.after(0, Event::Resume { v, r#gen });
            }
            _ => {}
        }
    }

    /// Let the code of `v`, which has begun to run or changed its speed, go on by what it waits for.
    pub fn go_on(&mut self, v: VcpuId) {
        let vcpu = self.vcpu(v);
        let r#gen = vcpu.r#gen;
        let at_once = match vcpu.mode {
            Mode::Spin | Mode::Halted => true,
            Mode::CallWait => vcpu.calls_open == 0 || !vcpu.pending.is_empty(),
            Mode::User => !vcpu.pending.is_empty(),
            Mode::Kernel => false,
        };
        if at_once {
            self.after(0, Event::Resume { v, r#gen });
        }
        self.schedule_work(v);
    }

    /// A tick is due on `v`.
    pub fn tick_due(&mut self, v: VcpuId, r#gen: u64) {
        if self.vcpu(v).tick_on && self.vcpu(v).tick_gen == r#gen {
            self.raise(v, Irq::Tick);
        }
    }

    /// Let the next tick of `v` come at the next multiple of the period. Ticks are skewed between
    /// vCPUs, as Linux does.
    pub fn arm_tick(&mut self, v: VcpuId) {
        let period = self.guest.config.tick_ns;
        let skew = period / 2 * v as u64 / self.vcpus.len().max(1) as u64;
        let next = (self.now.saturating_sub(skew) / period + 1) * period + skew;
        let vcpu = self.vcpu(v);
        vcpu.tick_on = true;
        vcpu.tick_gen += 1;
        let r#gen = vcpu.tick_gen;
        self.at(next, Event::Tick { v, r#gen });
    }

    /// Ticks stop on an idle vCPU.
    pub fn stop_tick(&mut self, v: VcpuId) {
        self.vcpu(v).tick_on = false;
    }

    /// Read the runqueue's clock anew: its lock was taken.
    pub fn update_clock(&mut self, v: VcpuId) {
        let now = self.now;
        let vcpu = self.vcpu(v);
        vcpu.clock = vcpu.clock.max(now);
        self.set_clock_valid(v, true);
    }

    /// Note, for the scheduler too, whether the clock of the runqueue counts as read for this event.
    pub fn set_clock_valid(&mut self, v: VcpuId, valid: bool) {
        self.vcpu(v).clock_valid = valid;
        let rq = self.per_cpu((&raw const shim::runqueues) as usize, size_of::<shim::rq>(), v);
        // SAFETY: the symbol's value is of this type.
        unsafe { (*rq.cast::<shim::rq>()).scx.flags = if valid { CLOCK_VALID } else { 0 } };
    }
}
