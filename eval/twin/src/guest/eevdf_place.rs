// SPDX-License-Identifier: GPL-2.0-only
//! The model of the kernel's own scheduler: where a task wakes, and how load is balanced. It knows
//! nothing of vCPUs but the stolen time that lowers their capacity where the kernel accounts it
//! (scale_rt_capacity with CONFIG_PARAVIRT_TIME_ACCOUNTING).

use super::core::{activate, deactivate, resched, send_ipi, unlock_rq};
use super::task::TaskId;
use super::vcpu::{Irq, VcpuId};
use super::{mask_next_and, mask_test};
use crate::exec::{Lock, lock, spend};
use crate::sim::{MS, Ns, Sim, US, sim};

/// sysctl_sched_migration_cost: a task that ran this recently is cache-hot.
const MIGRATION_COST_NS: Ns = 500 * US;
/// sd->imbalance_pct within an LLC domain.
const IMBALANCE_PCT: u64 = 117;
/// What the search through one runqueue costs, ns.
const LOOK_NS: Ns = 20;
const WAKE_SYNC: u64 = 16;

fn load(s: &Sim, v: VcpuId) -> usize {
    s.vcpus[v].fair.queue.len() + usize::from(s.vcpus[v].curr.is_some())
}

fn idle(s: &Sim, v: VcpuId) -> bool {
    mask_test(&s.guest.idle, v) && load(s, v) == 0
}

/// select_task_rq_fair: the waker's or the previous vCPU (wake_affine), an idle one near it.
pub fn select_cpu(t: TaskId, prev: VcpuId, wake_flags: u64) -> VcpuId {
    spend(sim(|s| s.costs.kfunc_ns * 3));
    sim(|s| {
        let this = s.current;
        let allowed = |s: &Sim, v: VcpuId| s.tasks[t].may_run_on(v) && s.vcpus[v].online;
        let sync_alone = wake_flags & WAKE_SYNC != 0 && load(s, this) == 1;
        let target = if !allowed(s, this) || idle(s, prev) {
            prev
        } else if sync_alone || load(s, this) + 1 < load(s, prev) {
            this
        } else {
            prev
        };
        for candidate in [target, prev] {
            if allowed(s, candidate) && idle(s, candidate) {
                return candidate;
            }
        }
        // From the target on: select_idle_cpu().
        let nr = s.vcpus.len();
        let mut candidates = (1..nr).map(|i| (target + i) % nr);
        candidates.find(|v| allowed(s, *v) && idle(s, *v)).unwrap_or(target)
    })
}

/// Fold stolen time into the capacity of `v`, if the kernel accounts it.
pub fn update_capacity(s: &mut Sim, v: VcpuId) {
    if !s.guest.config.paravirt_time || !s.guest.config.steal_clock {
        return;
    }
    let (now, stolen) = (s.now, s.host.stolen_ns(v));
    let fair = &mut s.vcpu(v).fair;
    let elapsed = (now - fair.stolen_at).max(1);
    let share = ((stolen - fair.stolen_seen_ns) * 1024 / elapsed).min(1024);
    fair.stolen_at = now;
    fair.stolen_seen_ns = stolen;
    // PELT: half of the past is forgotten in 32 ms.
    let weight = (elapsed * 1024 / (32 * MS) / 2).min(512);
    fair.stolen_1024 = (fair.stolen_1024 * (1024 - weight) + share * weight) / 1024;
}

fn capacity(s: &Sim, v: VcpuId) -> u64 {
    (1024 - s.vcpus[v].fair.stolen_1024).max(1)
}

/// Take a waiting task from the busiest vCPU to `v`, whose lock is held and is dropped on the way.
/// Return true if there was one.
pub fn pull_one(v: VcpuId, newly_idle: bool) -> bool {
    spend(sim(|s| LOOK_NS * s.vcpus.len() as u64));
    let Some(from) = sim(|s| busiest(s, v, newly_idle)) else { return false };
    unlock_rq(v);
    lock(Lock::Rq(from));
    let taken = sim(|s| {
        s.update_clock(from);
        let now = s.now;
        let queue = s.vcpus[from].fair.queue.clone();
        queue.into_iter().find(|t| {
            let hot = now.saturating_sub(s.tasks[*t].fair.last_ran) < MIGRATION_COST_NS;
            s.accepts(v, *t) && !hot
        })
    });
    if let Some(t) = taken {
        deactivate_for_move(t, from);
        sim(|s| s.task(t).cpu = v);
    }
    unlock_rq(from);
    lock(Lock::Rq(v));
    sim(|s| s.update_clock(v));
    if let Some(t) = taken {
        sim(|s| s.task(t).counts.migrations += 1);
        activate(t, v, 0);
    }
    taken.is_some()
}

/// As deactivate(), but its wait goes on.
fn deactivate_for_move(t: TaskId, from: VcpuId) {
    let waits = sim(|s| s.tasks[t].waits_since);
    deactivate(t, from, 0);
    sim(|s| s.task(t).waits_since = waits);
}

fn busiest(s: &Sim, v: VcpuId, newly_idle: bool) -> Option<VcpuId> {
    let own = (load(s, v) as u64) * 1024 * 1024 / capacity(s, v);
    (0..s.vcpus.len())
        .filter(|other| *other != v && !s.vcpus[*other].fair.queue.is_empty())
        .filter(|other| s.vcpus[*other].fair.queue.iter().any(|t| s.accepts(v, *t)))
        .map(|other| ((load(s, other) as u64) * 1024 * 1024 / capacity(s, other), other))
        .filter(|(theirs, other)| {
            newly_idle || (load(s, *other) > load(s, v) + 1 && theirs * 100 > own * IMBALANCE_PCT)
        })
        .max_by_key(|(theirs, other)| (*theirs, usize::MAX - other))
        .map(|(_, other)| other)
}

/// Periodic balancing: a busy vCPU now and then, and it asks an idle one to, as idle ones have no tick.
pub fn balance_on_tick(v: VcpuId) {
    let (due, help) = sim(|s| {
        let interval = s.vcpus.len() as u64 * MS;
        let now = s.now;
        let overloaded = load(s, v) >= 2
            || (s.guest.config.paravirt_time && capacity(s, v) * IMBALANCE_PCT < 1024 * 100);
        let due = now >= s.vcpus[v].fair.next_balance;
        if due {
            // sd->busy_factor
            s.vcpu(v).fair.next_balance = now + interval * 16;
        }
        let nr = s.vcpus.len();
        let online = *s.guest.online;
        let helper = mask_next_and(&s.guest.idle, &online, v, nr);
        (due, helper.filter(|_| overloaded))
    });
    if due {
        lock(Lock::Rq(v));
        sim(|s| s.update_clock(v));
        pull_one(v, false);
        unlock_rq(v);
    }
    if let Some(helper) = help {
        ask(v, helper);
    }
}

/// Ask the idle vCPU `helper` to balance (nohz kick): it takes what waits; from a vCPU that has lost
/// much of its capacity it takes even the running task (active balance).
fn ask(v: VcpuId, helper: VcpuId) {
    let cost = sim(|s| {
        s.vcpu(helper).fair.balance_asked = true;
        let alone = load(s, v) == 1;
        let gains = capacity(s, v) * IMBALANCE_PCT < capacity(s, helper) * 100;
        if alone && gains && s.vcpus[v].curr.is_some_and(|t| s.accepts(helper, t)) {
            s.vcpu(v).fair.push_to = Some(helper);
        }
        s.costs.ipi_send_ns
    });
    if sim(|s| s.vcpu(v).fair.push_to.is_some()) {
        return resched(v);
    }
    sim(|s| s.vcpu(helper).need_resched = true);
    send_ipi(helper, Irq::Resched);
    spend(cost);
}

/// Move `t`, which ran on `v`, to `to`.
pub fn push(v: VcpuId, t: TaskId, to: VcpuId) {
    if !sim(|s| s.tasks[t].on_rq && s.accepts(to, t)) {
        return;
    }
    deactivate(t, v, 0);
    sim(|s| {
        s.vcpu(v).curr = None;
        s.task(t).cpu = to;
        s.task(t).counts.migrations += 1;
        s.tasks[t].raw.on_cpu = 0;
        s.unlock(Lock::OnCpu(t));
    });
    unlock_rq(v);
    lock(Lock::Rq(to));
    sim(|s| s.update_clock(to));
    activate(t, to, 0);
    resched(to);
    unlock_rq(to);
    lock(Lock::Rq(v));
    sim(|s| s.update_clock(v));
}
