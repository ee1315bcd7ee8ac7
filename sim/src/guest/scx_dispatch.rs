// SPDX-License-Identifier: GPL-2.0-only
//! sched_ext: what a vCPU runs next, moves between queues, idle vCPUs and kicks. The names in
//! brackets are those of kernel/sched/ext.c.

use super::core::{resched, unlock_rq};
use super::scx::{self, OPS_ENQ_LAST, OPS_KEEP_BUILTIN_IDLE, SLICE_DFL, TASK_QUEUED};
use super::task::{OpsState, Place, TaskId};
use super::vcpu::VcpuId;
use super::{mask_next_and, mask_set, mask_test};
use crate::bpf::call::{self, Callback};
use crate::exec::{Lock, current, lock, spend, unlock};
use crate::record::What;
use crate::sim::{Sim, sim};

/// How often ops.dispatch is called again while it inserts and nothing is runnable here.
const DISPATCH_LOOPS: u32 = 32;
const KICK_IDLE: u64 = 1;
const KICK_PREEMPT: u64 = 2;

/// Choose what `v` runs next, and let the callbacks know [pick_task_scx].
pub fn pick(v: VcpuId, prev: Option<TaskId>) -> Option<TaskId> {
    let keeps = balance(v, prev);
    let next = sim(|s| {
        s.vcpu(v).scx.in_balance = false;
        let next = if keeps { prev } else { s.vcpu(v).scx.local.front().copied() };
        if let Some(t) = next
            && s.tasks[t].raw.scx.slice == 0
        {
            s.task(t).raw.scx.slice = SLICE_DFL;
        }
        next
    });
    if next == prev {
        if next.is_none() {
            update_idle(v, true, false);
        }
        return next;
    }
    match prev {
        Some(t) => scx::put_prev(v, t, next),
        None => update_idle(v, false, true),
    }
    // What put_prev inserted may be ahead of it by now, but the choice stands.
    match next {
        Some(t) => scx::set_next(v, t),
        None => update_idle(v, true, true),
    }
    next
}

/// Find something to run for `v`. Return true if `prev` goes on [balance_one].
fn balance(v: VcpuId, prev: Option<TaskId>) -> bool {
    let queued = |t: TaskId| sim(|s| s.tasks[t].raw.scx.flags & TASK_QUEUED != 0);
    let goes_on = |t: TaskId| queued(t) && sim(|s| s.tasks[t].raw.scx.slice > 0);
    sim(|s| s.vcpu(v).scx.in_balance = true);
    let bypass = sim(|s| s.guest.bypass);
    if let Some(t) = prev {
        sim(|s| s.update_curr(v));
        if !bypass && goes_on(t) {
            return true;
        }
    }
    if has_local(v) || consume(v, Place::Global) {
        return false;
    }
    if !bypass && call::has(Callback::Dispatch) && sim(|s| s.vcpu(v).online) {
        for _ in 0..DISPATCH_LOOPS {
            let task = prev.map_or(0, call::pointer);
            call::call(Callback::Dispatch, &[v as u64, task]);
            let inserted = flush(v);
            if prev.is_some_and(goes_on) {
                return true;
            }
            if has_local(v) || consume(v, Place::Global) {
                return false;
            }
            if inserted == 0 {
                break;
            }
        }
    }
    prev.is_some_and(queued) && (bypass || call::ops_flags() & OPS_ENQ_LAST == 0)
}

fn has_local(v: VcpuId) -> bool {
    sim(|s| !s.vcpu(v).scx.local.is_empty())
}

/// Put what ops.dispatch inserted where it goes [flush_dispatch_buf]. Return how many there were.
pub fn flush(v: VcpuId) -> usize {
    let buffer = sim(|s| std::mem::take(&mut s.vcpu(v).scx.buffer));
    for &(t, id, flags) in &buffer {
        // Somebody else may have taken it since.
        let queued = sim(|s| {
            let queued = s.tasks[t].ops_state == OpsState::Queued;
            if queued {
                s.task(t).ops_state = OpsState::None;
            }
            queued
        });
        if !queued {
            continue;
        }
        match sim(|s| s.place_of(id, v)) {
            Some(Place::Local(to)) => to_local(v, t, to, flags),
            Some(place) => scx::insert(t, place, flags),
            None => sim(|s| s.violate(format!("non-existent DSQ {id:#x} for task {t}"))),
        }
    }
    buffer.len()
}

/// Put `t`, which is in no queue, into the local queue of `to`; the lock of `v` is held, and is
/// dropped on the way [dispatch_to_local_dsq].
fn to_local(v: VcpuId, t: TaskId, to: VcpuId, flags: u64) {
    if sim(|s| s.tasks[t].cpu == to && to == v) {
        return scx::insert(t, Place::Local(to), flags);
    }
    if !sim(|s| s.accepts(to, t)) {
        return sim(|s| s.violate(format!("SCX_DSQ_LOCAL_ON: vCPU {to} is not for task {t}")));
    }
    sim(|s| s.task(t).holding = Some(v));
    unlock_rq(v);
    migrate(v, t, to, flags);
    lock(Lock::Rq(v));
    sim(|s| s.update_clock(v));
}

/// Move `t`, which `v` holds, to the local queue of `to`. Return true unless somebody was faster.
fn migrate(v: VcpuId, t: TaskId, to: VcpuId, flags: u64) -> bool {
    let from = sim(|s| s.tasks[t].cpu);
    lock(Lock::Rq(from));
    let ours = sim(|s| {
        let ours = s.tasks[t].holding == Some(v) && s.tasks[t].cpu == from;
        if ours {
            s.task(t).holding = None;
            if from != to {
                s.task(t).cpu = to;
                // Whoever looks for the task now finds it where it goes.
                s.task(t).holding = Some(v);
            }
        }
        ours
    });
    if from != to {
        // The kernel takes the task out with a clock that it reads, and does not take that back.
        if ours {
            sim(|s| s.update_clock(from));
        }
        unlock(Lock::Rq(from));
    }
    if ours {
        if from != to {
            lock(Lock::Rq(to));
        }
        let still = sim(|s| {
            s.update_clock(to);
            let still = from == to || s.tasks[t].holding == Some(v);
            if still {
                s.task(t).holding = None;
            }
            still && s.tasks[t].raw.scx.flags & TASK_QUEUED != 0
        });
        if still {
            scx::insert(t, Place::Local(to), flags);
        }
        unlock_rq(to);
        return still;
    }
    if from == to {
        unlock_rq(from);
    }
    false
}

/// Move the first task that may run on `v` from a queue to its local one [consume_dispatch_q].
pub fn consume(v: VcpuId, place: Place) -> bool {
    if sim(|s| s.queue_of(place).is_none_or(|queue| queue.is_empty())) {
        return false;
    }
    let queue_lock = match place {
        Place::User(id) => Lock::Dsq(id),
        _ => Lock::Dsq(scx::DSQ_GLOBAL),
    };
    // As the kernel does, begin again when another vCPU was faster; it got one, so this ends.
    loop {
        lock(queue_lock);
        spend(sim(|s| s.costs.queue_ns));
        let found = sim(|s| {
            let queue: Vec<TaskId> = s.queue_of(place).map(|q| q.iter().copied().collect())?;
            let t = queue.into_iter().find(|t| s.accepts(v, *t))?;
            s.queue_remove(t);
            s.task(t).holding = Some(v);
            Some((t, s.tasks[t].cpu))
        });
        unlock(queue_lock);
        let Some((t, from)) = found else { return false };
        if from == v {
            sim(|s| s.task(t).holding = None);
            scx::insert(t, Place::Local(v), 0);
            return true;
        }
        unlock_rq(v);
        // migrate() inserts under the lock of `v`.
        let ours = migrate(v, t, v, 0);
        lock(Lock::Rq(v));
        sim(|s| s.update_clock(v));
        if ours {
            return true;
        }
    }
}

/// Move `t` from the queue that an iterator goes through to another [scx_dsq_move]. Return false if
/// it is not there any more.
pub fn move_task(from: u64, insertion_limit: u64, t: TaskId, to: u64, flags: u64) -> bool {
    let v = current();
    let in_dispatch = sim(|s| s.vcpu(v).scx.callback == Some(Callback::Dispatch));
    if in_dispatch {
        unlock_rq(v);
    }
    let moved = move_unlocked(v, from, insertion_limit, t, to, flags);
    if in_dispatch {
        lock(Lock::Rq(v));
        sim(|s| s.update_clock(v));
    }
    moved
}

fn move_unlocked(v: VcpuId, from: u64, limit: u64, t: TaskId, to: u64, flags: u64) -> bool {
    let home = sim(|s| s.tasks[t].cpu);
    lock(Lock::Rq(home));
    lock(Lock::Dsq(from));
    spend(sim(|s| s.costs.queue_ns));
    let place = sim(|s| {
        let task = &s.tasks[t];
        if task.place != Place::User(from) || task.insertion > limit || task.cpu != home {
            return None;
        }
        let place = s.place_of(to, v);
        if place.is_none() {
            s.violate(format!("non-existent DSQ {to:#x} for task {t}"));
            return None;
        }
        s.queue_remove(t);
        s.task(t).holding = Some(v);
        place
    });
    unlock(Lock::Dsq(from));
    let Some(place) = place else {
        unlock_rq(home);
        return false;
    };
    let Place::Local(to) = place else {
        sim(|s| s.task(t).holding = None);
        scx::insert(t, place, flags);
        unlock_rq(home);
        return true;
    };
    unlock_rq(home);
    if !sim(|s| s.accepts(to, t)) {
        sim(|s| s.violate(format!("task {t} is moved to vCPU {to}, where it may not run")));
        return false;
    }
    migrate(v, t, to, flags)
}

/// The vCPU went idle, or is no longer [scx_update_idle].
fn update_idle(v: VcpuId, idle: bool, notify: bool) {
    let has = call::has(Callback::UpdateIdle);
    if has && notify && !sim(|s| s.guest.bypass) {
        call::call(Callback::UpdateIdle, &[v as u64, u64::from(idle)]);
    }
    if !has || call::ops_flags() & OPS_KEEP_BUILTIN_IDLE != 0 {
        sim(|s| {
            let idle = idle && s.vcpu(v).online;
            mask_set(&mut s.guest.idle, v, idle);
        });
    }
}

/// Ask for a reschedule of `cpu` [scx_kick_cpu]. It is done when interrupts are on again.
pub fn kick(cpu: VcpuId, flags: u64) {
    sim(|s| {
        let v = s.current;
        s.note(What::Kick, cpu as u64, flags);
        if flags & KICK_IDLE != 0 && s.vcpu(cpu).curr.is_some() && !s.vcpu(cpu).scx.in_balance {
            return; // it is awake
        }
        let kicks = &mut s.vcpu(v).scx.kicks;
        match kicks.iter_mut().find(|(other, _)| *other == cpu) {
            Some((_, all)) => *all |= flags,
            None => kicks.push((cpu, flags)),
        }
    });
}

/// Interrupts are on: do what waited for that [kick_cpus_irq_workfn, run_deferred].
pub fn run_kicks() {
    let v = current();
    if sim(|s| s.vcpu(v).scx.deferred.is_empty() && s.vcpu(v).scx.kicks.is_empty()) {
        return;
    }
    for t in sim(|s| std::mem::take(&mut s.vcpu(v).scx.deferred)) {
        let to = sim(|s| {
            let (id, flags) = s.task(t).ddsp.take()?;
            let Some(Place::Local(to)) = s.place_of(id, v) else { return None };
            s.task(t).holding = Some(v);
            Some((to, flags))
        });
        if let Some((to, flags)) = to {
            if sim(|s| s.accepts(to, t)) {
                migrate(v, t, to, flags);
            } else {
                sim(|s| s.violate(format!("SCX_DSQ_LOCAL_ON: vCPU {to} is not for task {t}")));
            }
        }
    }
    for (cpu, flags) in sim(|s| std::mem::take(&mut s.vcpu(v).scx.kicks)) {
        lock(Lock::Rq(cpu));
        let go = sim(|s| {
            let vcpu = &s.vcpus[cpu];
            if flags & KICK_PREEMPT != 0
                && let Some(t) = vcpu.curr
            {
                s.task(t).raw.scx.slice = 0;
                return true;
            }
            let idle = vcpu.curr.is_none() || vcpu.scx.in_balance;
            (flags & !KICK_IDLE != 0 || idle) && vcpu.online
        });
        if go {
            resched(cpu);
        }
        unlock_rq(cpu);
    }
}

impl Sim {
    /// Return true if `t` may be brought to `v` [task_can_run_on_remote_rq].
    pub fn accepts(&self, v: VcpuId, t: TaskId) -> bool {
        let task = &self.tasks[t];
        let stays = task.cpu == v;
        let moves = self.vcpus[v].online && task.raw.migration_disabled == 0;
        task.may_run_on(v) && (stays || moves)
    }

    pub fn claim_idle(&mut self, v: VcpuId) -> bool {
        let was = v < self.vcpus.len() && mask_test(&self.guest.idle, v);
        if was {
            mask_set(&mut self.guest.idle, v, false);
        }
        was
    }

    /// Claim an idle vCPU among `allowed`, in turns [scx_pick_idle_cpu].
    pub fn claim_any_idle(&mut self, allowed: &crate::bpf::shim::cpumask) -> Option<VcpuId> {
        let v = self.current;
        let after = self.vcpus[v].distribute;
        let found = mask_next_and(&self.guest.idle, allowed, after, self.vcpus.len())?;
        self.vcpu(v).distribute = found;
        mask_set(&mut self.guest.idle, found, false);
        Some(found)
    }

    /// The built-in choice: the previous vCPU if idle, else another idle one [scx_select_cpu_dfl].
    pub fn pick_idle(&mut self, t: TaskId) -> Option<VcpuId> {
        let prev = self.tasks[t].cpu;
        if self.tasks[t].may_run_on(prev) && self.claim_idle(prev) {
            return Some(prev);
        }
        let allowed = *self.tasks[t].allowed();
        self.claim_any_idle(&allowed)
    }
}
