// SPDX-License-Identifier: GPL-2.0-only
//! sched_ext: a task's way through the scheduler's callbacks, in the order and by the rules of
//! kernel/sched/ext.c (as of 7.2). The names in brackets are the kernel's.

use std::collections::VecDeque;

use super::core::resched;
use super::dsq::ENQ_DSQ_PRIQ;
use super::task::{OpsState, Place, TaskId};
use super::vcpu::VcpuId;
use crate::bpf::call::{self, Callback};
use crate::exec::{Lock, lock, spend, unlock};
use crate::record::What;
use crate::sim::{Ns, Sim, sim};

pub const DSQ_BUILTIN: u64 = 1 << 63;
pub const DSQ_LOCAL_ON: u64 = 1 << 63 | 1 << 62;
pub const DSQ_GLOBAL: u64 = DSQ_BUILTIN | 1;
pub const DSQ_LOCAL: u64 = DSQ_BUILTIN | 2;
pub const SLICE_DFL: Ns = 20_000_000;
const SLICE_INF: u64 = u64::MAX;
pub const TASK_QUEUED: u32 = 1;
const ENQ_HEAD: u64 = 1 << 4;
const ENQ_PREEMPT: u64 = 1 << 32;
pub const ENQ_LAST: u64 = 1 << 41;
pub const OPS_KEEP_BUILTIN_IDLE: u64 = 1;
pub const OPS_ENQ_LAST: u64 = 1 << 1;
const OPS_ENQ_MIGRATION_DISABLED: u64 = 1 << 4;

/// The sched_ext part of a runqueue.
#[derive(Default)]
pub struct ScxRq {
    pub local: VecDeque<TaskId>,
    pub in_balance: bool,
    /// The callback that its vCPU is in, for what may be called there.
    pub callback: Option<Callback>,
    pub work: call::Work,
    /// The task that ops.select_cpu or ops.enqueue may insert now (direct_dispatch_task).
    pub direct: Option<TaskId>,
    /// What ops.dispatch has inserted and not flushed yet: task, queue, flags, insertion order.
    pub buffer: Vec<(TaskId, u64, u64)>,
    /// Insertions into another vCPU's local queue that wait for the runqueue lock (ddsp_deferred_locals).
    pub deferred: Vec<TaskId>,
    /// Kicks that wait until interrupts are on: vCPU and flags.
    pub kicks: Vec<(VcpuId, u64)>,
    pub exec_start: Ns,
}

/// Choose a vCPU for `t` [select_task_rq_scx].
pub fn select_cpu(t: TaskId, prev: VcpuId, wake_flags: u64) -> VcpuId {
    if sim(|s| s.guest.bypass) || !call::has(Callback::SelectCpu) {
        return sim(|s| s.pick_idle(t)).unwrap_or(prev);
    }
    let v = sim(|s| {
        let v = s.current;
        s.vcpu(v).scx.direct = Some(t);
        v
    });
    let args = [call::pointer(t), prev as u64, wake_flags];
    let cpu = call::call(Callback::SelectCpu, &args) as i32;
    sim(|s| {
        s.vcpu(v).scx.direct = None;
        s.task(t).raw.scx.selected_cpu = cpu;
        if cpu < 0 || cpu as usize >= s.vcpus.len() {
            s.violate(format!("ops.select_cpu returned vCPU {cpu} for task {t}"));
            return prev;
        }
        cpu as usize
    })
}

/// `t` becomes runnable on `cpu` [enqueue_task_scx].
pub fn enqueue_task(t: TaskId, cpu: VcpuId, flags: u64) {
    let runnable = sim(|s| {
        let jiffies = s.guest.jiffies(s.now);
        let scx = &mut s.task(t).raw.scx;
        if scx.flags & TASK_QUEUED != 0 {
            return false;
        }
        scx.flags |= TASK_QUEUED;
        scx.runnable_at = jiffies;
        true
    });
    if runnable {
        call::call(Callback::Runnable, &[call::pointer(t), flags]);
        do_enqueue(t, cpu, flags);
    }
}

/// Hand `t` to the scheduler, or put it where it asked for [do_enqueue_task].
pub fn do_enqueue(t: TaskId, cpu: VcpuId, flags: u64) {
    enum Way {
        Local,
        Direct,
        Ask,
    }
    let way = sim(|s| {
        let pinned_by_kernel = s.tasks[t].raw.migration_disabled != 0
            && call::ops_flags() & OPS_ENQ_MIGRATION_DISABLED == 0;
        if !s.vcpu(cpu).online || s.guest.bypass || pinned_by_kernel {
            Way::Local
        } else if s.tasks[t].ddsp.is_some() {
            Way::Direct
        } else if !call::has(Callback::Enqueue) {
            s.task(t).ddsp = Some((DSQ_GLOBAL, 0));
            Way::Direct
        } else {
            Way::Ask
        }
    });
    match way {
        Way::Local => {
            sim(|s| {
                s.task(t).ddsp = None;
                s.task(t).raw.scx.slice = SLICE_DFL;
            });
            insert(t, Place::Local(cpu), flags);
        }
        Way::Direct => direct(t, cpu, flags),
        Way::Ask => {
            let v = sim(|s| {
                let v = s.current;
                s.task(t).ops_state = OpsState::Queueing;
                s.vcpu(v).scx.direct = Some(t);
                v
            });
            call::call(Callback::Enqueue, &[call::pointer(t), flags]);
            let inserted = sim(|s| {
                s.vcpu(v).scx.direct = None;
                if s.tasks[t].ops_state == OpsState::Queueing {
                    s.task(t).ops_state = OpsState::Queued;
                }
                s.tasks[t].ddsp.is_some()
            });
            if inserted {
                direct(t, cpu, flags);
            }
        }
    }
}

/// Put `t` where ops.select_cpu or ops.enqueue said [direct_dispatch].
fn direct(t: TaskId, cpu: VcpuId, enq_flags: u64) {
    let Some((id, flags)) = sim(|s| s.task(t).ddsp.take()) else { return };
    let place = match sim(|s| s.place_of(id, cpu)) {
        Some(Place::Local(other)) if other != cpu => {
            // Another runqueue's lock is needed: done as soon as this one is dropped.
            sim(|s| {
                s.task(t).ddsp = Some((id, flags | enq_flags));
                let v = s.current;
                s.vcpu(v).scx.deferred.push(t);
            });
            return;
        }
        Some(place) => place,
        None => return sim(|s| s.violate(format!("non-existent DSQ {id:#x} for task {t}"))),
    };
    insert(t, place, flags | enq_flags);
}

/// Put `t` into a queue, under its lock [dispatch_enqueue].
pub fn insert(t: TaskId, place: Place, flags: u64) {
    let cost = sim(|s| s.costs.queue_ns);
    if let Place::User(id) = place {
        lock(Lock::Dsq(id));
        spend(cost);
        sim(|s| s.queue_insert(t, place, flags));
        unlock(Lock::Dsq(id));
    } else {
        spend(cost);
        sim(|s| s.queue_insert(t, place, flags & !ENQ_DSQ_PRIQ | flags & ENQ_DSQ_PRIQ));
    }
    sim(|s| s.note(What::Insert, t as u64, place_code(place)));
    if let Place::Local(cpu) = place {
        after_local_insert(cpu, flags);
    }
}

/// A task joined the local queue of `cpu`: preempt what runs there if that is asked for, wake it if
/// it idles [local_dsq_post_enq].
fn after_local_insert(cpu: VcpuId, flags: u64) {
    let preempts = sim(|s| {
        if s.vcpu(cpu).scx.in_balance {
            return false;
        }
        match s.vcpu(cpu).curr {
            None => true,
            Some(running) if flags & ENQ_PREEMPT != 0 => {
                s.task(running).raw.scx.slice = 0;
                true
            }
            Some(_) => false,
        }
    });
    if preempts {
        resched(cpu);
    }
}

fn place_code(place: Place) -> u64 {
    match place {
        Place::Local(v) => DSQ_LOCAL_ON | v as u64,
        Place::Global => DSQ_GLOBAL,
        Place::User(id) => id,
        Place::Nowhere => 0,
    }
}

/// `t` leaves the runqueue of `cpu` [dequeue_task_scx].
pub fn dequeue_task(t: TaskId, cpu: VcpuId, flags: u64) {
    if sim(|s| s.tasks[t].raw.scx.flags & TASK_QUEUED == 0) {
        return;
    }
    if sim(|s| s.tasks[t].ops_state == OpsState::Queued) {
        call::call(Callback::Dequeue, &[call::pointer(t), flags]);
        sim(|s| s.task(t).ops_state = OpsState::None);
    }
    if sim(|s| s.vcpu(cpu).curr == Some(t)) {
        sim(|s| {
            s.update_curr(cpu);
            s.task(t).raw.__state = u32::from(flags & super::core::DEQ_SLEEP != 0);
        });
        call::call(Callback::Stopping, &[call::pointer(t), 0]);
    }
    call::call(Callback::Quiescent, &[call::pointer(t), flags]);
    take_out(t);
    sim(|s| {
        let task = s.task(t);
        task.raw.scx.flags &= !TASK_QUEUED;
        task.holding = None;
        task.ddsp = None;
    });
}

/// Take `t` out of the queue that it may be in, under that queue's lock [dispatch_dequeue].
pub fn take_out(t: TaskId) {
    let place = sim(|s| s.tasks[t].place);
    if let Place::User(id) = place {
        lock(Lock::Dsq(id));
        spend(sim(|s| s.costs.queue_ns));
        sim(|s| s.queue_remove(t));
        unlock(Lock::Dsq(id));
    } else {
        sim(|s| s.queue_remove(t));
    }
}

/// The running task was taken off its runqueue for a change and comes back: by way of the local
/// queue, whatever the scheduler thinks [enqueue_task_scx, ENQUEUE_RESTORE].
pub fn restore_running(t: TaskId, cpu: VcpuId) {
    sim(|s| {
        let jiffies = s.guest.jiffies(s.now);
        let task = s.task(t);
        task.on_rq = true;
        task.raw.scx.flags |= TASK_QUEUED;
        task.raw.scx.runnable_at = jiffies;
    });
    call::call(Callback::Runnable, &[call::pointer(t), 0]);
    set_next(cpu, t);
}

/// `t` is switched out while runnable [put_prev_task_scx].
pub fn put_prev(v: VcpuId, t: TaskId, next: Option<TaskId>) {
    sim(|s| s.update_curr(v));
    if sim(|s| s.tasks[t].raw.scx.flags & TASK_QUEUED == 0) {
        return;
    }
    call::call(Callback::Stopping, &[call::pointer(t), 1]);
    let slice = sim(|s| {
        let jiffies = s.guest.jiffies(s.now);
        s.task(t).raw.scx.runnable_at = jiffies;
        if s.guest.bypass { 0 } else { s.tasks[t].raw.scx.slice }
    });
    if slice > 0 {
        // Preempted with slice left: it stays at the head.
        insert(t, Place::Local(v), ENQ_HEAD);
    } else {
        do_enqueue(t, v, if next.is_none() { ENQ_LAST } else { 0 });
    }
}

/// `t` is about to run [set_next_task_scx].
pub fn set_next(v: VcpuId, t: TaskId) {
    take_out(t);
    sim(|s| {
        let clock = s.vcpus[v].clock;
        s.vcpu(v).scx.exec_start = clock;
    });
    call::call(Callback::Running, &[call::pointer(t)]);
}

/// A tick while `t` runs [task_tick_scx].
pub fn tick(v: VcpuId, t: TaskId) {
    sim(|s| s.update_curr(v));
    if sim(|s| s.guest.bypass) {
        sim(|s| s.task(t).raw.scx.slice = 0);
    } else {
        call::call(Callback::Tick, &[call::pointer(t)]);
    }
    if sim(|s| s.tasks[t].raw.scx.slice == 0) {
        resched(v);
    }
}

/// sched_yield by `t` [yield_task_scx].
pub fn yield_task(v: VcpuId, t: TaskId) {
    sim(|s| s.update_curr(v));
    if call::has(Callback::Yield) && !sim(|s| s.guest.bypass) {
        call::call(Callback::Yield, &[call::pointer(t), 0]);
    } else {
        sim(|s| s.task(t).raw.scx.slice = 0);
    }
}

/// `t` joins the scheduler [scx_init_task, scx_enable_task].
pub fn init_task(t: TaskId) {
    if !sim(|s| !std::mem::replace(&mut s.task(t).enabled, true)) {
        return;
    }
    let args = crate::bpf::shim::scx_init_task_args { fork: true, ..Default::default() };
    let error =
        call::call(Callback::InitTask, &[call::pointer(t), (&raw const args) as u64]) as i32;
    if error != 0 {
        sim(|s| s.violate(format!("ops.init_task of task {t} returned {error}")));
    }
    call::call(Callback::Enable, &[call::pointer(t)]);
}

/// `t` has exited [scx_exit_task].
pub fn exit_task(t: TaskId) {
    if sim(|s| std::mem::take(&mut s.task(t).enabled)) {
        let args = crate::bpf::shim::scx_exit_task_args { cancelled: false };
        call::call(Callback::Disable, &[call::pointer(t)]);
        call::call(Callback::ExitTask, &[call::pointer(t), (&raw const args) as u64]);
        sim(|s| s.bpf.forget_task(t));
    }
}

impl Sim {
    /// The queue that an id means for a task on `cpu`; none if there is none.
    pub fn place_of(&self, id: u64, cpu: VcpuId) -> Option<Place> {
        match id {
            DSQ_LOCAL => Some(Place::Local(cpu)),
            DSQ_GLOBAL => Some(Place::Global),
            _ if id & DSQ_LOCAL_ON == DSQ_LOCAL_ON => {
                let v = (id & 0xffff_ffff) as usize;
                (v < self.vcpus.len()).then_some(Place::Local(v))
            }
            _ => self.guest.dsqs.contains_key(&id).then_some(Place::User(id)),
        }
    }

    /// Charge the running task's slice [update_curr_scx].
    pub fn update_curr(&mut self, v: VcpuId) {
        let clock = self.vcpus[v].clock;
        let Some(t) = self.vcpu(v).curr else { return };
        let start = std::mem::replace(&mut self.vcpu(v).scx.exec_start, clock);
        let ran = clock.saturating_sub(start);
        let raw = &mut self.task(t).raw;
        raw.se.sum_exec_runtime += ran;
        if raw.scx.slice != SLICE_INF {
            raw.scx.slice = raw.scx.slice.saturating_sub(ran);
        }
    }

    /// The kernel's watchdog: no runnable task may wait longer than ops.timeout_ms.
    pub fn watchdog(&mut self) {
        self.after(self.guest.stall_ns / 8, crate::sim::Event::Watchdog);
        let (now, limit) = (self.now, self.guest.stall_ns);
        let stalled = self.tasks.iter().enumerate().find_map(|(t, task)| {
            let waits = now - task.waits_since?;
            (task.on_rq && waits > limit).then_some((t, waits))
        });
        if let Some((t, waits)) = stalled {
            let place = self.tasks[t].place;
            self.violate(format!(
                "runnable task stall: task {t} has waited {} ms in {place:?}",
                waits / crate::sim::MS
            ));
        }
    }
}
