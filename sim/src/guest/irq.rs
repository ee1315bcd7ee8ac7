// SPDX-License-Identifier: GPL-2.0-only
//! Interrupts: ticks, timers, inter-processor calls.

use super::core::{activate_left, send_ipi, unlock_rq, wake};
use super::task::TaskId;
use super::timer::Expiry;
use super::vcpu::{Irq, Mode, VcpuId};
use super::{scx, scx_dispatch};
use crate::bpf::shim::hrtimer;
use crate::exec::{Lock, current, lock, spend, suspend};
use crate::record::What;
use crate::sim::sim;

/// Handle all interrupts that have arrived at the present vCPU.
pub fn handle_all() {
    let v = current();
    sim(|s| s.set_in_interrupt(v, true));
    while let Some(irq) = sim(|s| {
        let vcpu = s.vcpu(v);
        (!vcpu.pending.is_empty()).then(|| vcpu.pending.remove(0))
    }) {
        spend(sim(|s| s.costs.interrupt_ns));
        match irq {
            Irq::Resched => {}
            Irq::Woken => activate_left(v),
            Irq::Tick => tick(v),
            Irq::Timer(timer) => expire(v, timer),
            Irq::Call(from) => sim(|s| s.answer(from)),
        }
        scx_dispatch::run_kicks();
    }
    sim(|s| s.set_in_interrupt(v, false));
}

fn tick(v: VcpuId) {
    if sim(|s| s.vcpu(v).curr.is_none()) {
        // About to halt, or to get a task: the switch to that starts ticks again.
        return sim(|s| s.stop_tick(v));
    }
    lock(Lock::Rq(v));
    let curr = sim(|s| {
        s.update_clock(v);
        s.note(What::Tick, 0, 0);
        s.vcpu(v).curr
    });
    if let Some(t) = curr {
        scx::tick(v, t);
    }
    unlock_rq(v);
    sim(|s| s.arm_tick(v));
}

fn expire(v: VcpuId, timer: u64) {
    let Some(timer) = sim(|s| s.timers.remove(&timer)) else { return };
    match timer.expiry {
        Expiry::Wake(t) => {
            let mut sleeper = hrtimer::default();
            sleeper.node.expires = timer.due as i64;
            sim(|s| s.runs_timer(v, &raw mut sleeper));
            wake(t, 0);
            sim(|s| s.runs_timer(v, std::ptr::null_mut()));
        }
        Expiry::Bpf(timer) => crate::bpf::timers::fire(timer),
        Expiry::Script(index) => crate::script::apply(index),
        Expiry::Begin(t) => {
            scx::init_task(t);
            wake(t, 0);
        }
    }
}

/// Flush a mapping of the process of `t` from the TLBs of all vCPUs that run it, and wait for them,
/// with interrupts on: a vCPU that is stopped keeps the caller spinning.
pub fn flush_tlb(v: VcpuId, t: TaskId) {
    let (targets, cost) = sim(|s| {
        let process = s.tasks[t].process;
        let targets: Vec<VcpuId> = (0..s.vcpus.len())
            .filter(|other| {
                *other != v
                    && s.vcpus[*other].curr.is_some_and(|other| s.tasks[other].process == process)
            })
            .collect();
        s.vcpu(v).calls_open = targets.len();
        (targets, s.costs.ipi_send_ns)
    });
    spend(sim(|s| s.costs.syscall_ns));
    for target in targets {
        send_ipi(target, Irq::Call(v));
        spend(cost);
    }
    while sim(|s| s.vcpu(v).calls_open > 0) {
        sim(|s| s.begin(v, Mode::CallWait, 0));
        suspend();
        handle_all();
    }
}
