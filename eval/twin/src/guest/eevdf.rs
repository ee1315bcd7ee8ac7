// SPDX-License-Identifier: GPL-2.0-only
//! A model of the kernel's own scheduler, to compare with: EEVDF's pick, slice protection and lag,
//! from the behaviour of kernel/sched/fair.c (7.2). Placement and balancing are in eevdf_place.rs.
//! What it leaves out: group scheduling, NUMA, delayed dequeue, and load averages (it counts tasks).

use super::core::resched;
pub use super::eevdf_place::{balance_on_tick, select_cpu};
use super::task::TaskId;
use super::vcpu::VcpuId;
use crate::exec::spend;
use crate::guest::eevdf_place;
use crate::sim::{Ns, Sim, US, sim};

/// sysctl_sched_base_slice before scaling.
const BASE_SLICE_NS: Ns = 700 * US;
const NICE_0: i64 = 1024;

/// The fair part of a runqueue.
#[derive(Default)]
pub struct FairRq {
    /// Those that wait; the running one is not among them.
    pub queue: Vec<TaskId>,
    pub min_vruntime: i64,
    /// Virtual time until which the running task is not preempted by one that wakes.
    pub protected_until: i64,
    pub exec_start: Ns,
    pub next_balance: Ns,
    /// Share of stolen time, in 1/1024, decaying; lowers its capacity.
    pub stolen_1024: u64,
    pub stolen_seen_ns: Ns,
    pub stolen_at: Ns,
    /// An idle vCPU was asked to balance (nohz kick).
    pub balance_asked: bool,
    /// The running task is to move to this vCPU (active balance).
    pub push_to: Option<VcpuId>,
}

/// The fair part of a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct FairEntity {
    pub vruntime: i64,
    pub deadline: i64,
    pub weight: u32,
    /// How far it lagged behind the average when it left its queue.
    pub lag: i64,
    pub last_ran: Ns,
}

fn scaled(ns: Ns, weight: u32) -> i64 {
    (ns as i64) * NICE_0 / i64::from(weight.max(1))
}

fn slice(s: &Sim) -> Ns {
    BASE_SLICE_NS * (1 + u64::from(s.vcpus.len().clamp(1, 8).ilog2()))
}

/// The weighted mean virtual run time of all that are runnable on `v` (avg_vruntime()).
fn average(s: &Sim, v: VcpuId) -> i64 {
    let fair = &s.vcpus[v].fair;
    let base = fair.min_vruntime;
    let (mut sum, mut load) = (0i128, 0i128);
    for t in fair.queue.iter().copied().chain(s.vcpus[v].curr) {
        let entity = &s.tasks[t].fair;
        let weight = i128::from(entity.weight);
        sum += i128::from(entity.vruntime - base) * weight;
        load += weight;
    }
    if load == 0 { base } else { base + (sum / load) as i64 }
}

/// Charge the running task, and ask for another when its slice is used up (update_curr).
pub fn update_curr(s: &mut Sim, v: VcpuId) {
    let clock = s.task_clock(v);
    let Some(t) = s.vcpu(v).curr else { return };
    let ran = clock.saturating_sub(s.vcpu(v).fair.exec_start);
    s.vcpu(v).fair.exec_start = clock;
    let slice = slice(s);
    let entity = &mut s.task(t).fair;
    entity.vruntime += scaled(ran, entity.weight);
    entity.last_ran = clock;
    if entity.vruntime >= entity.deadline {
        entity.deadline = entity.vruntime + scaled(slice, entity.weight);
        if !s.vcpu(v).fair.queue.is_empty() {
            s.vcpu(v).need_resched = true;
        }
    }
    advance_min(s, v);
}

fn advance_min(s: &mut Sim, v: VcpuId) {
    let vcpu = &s.vcpus[v];
    let least =
        vcpu.fair.queue.iter().copied().chain(vcpu.curr).map(|t| s.tasks[t].fair.vruntime).min();
    if let Some(least) = least {
        let fair = &mut s.vcpu(v).fair;
        fair.min_vruntime = fair.min_vruntime.max(least);
    }
}

/// `t` becomes runnable on `v`: at the average, less the lag that it left with (place_entity).
pub fn enqueue(s: &mut Sim, v: VcpuId, t: TaskId) {
    update_curr(s, v);
    let (average, slice) = (average(s, v), slice(s));
    let load: i64 = s.vcpus[v]
        .fair
        .queue
        .iter()
        .copied()
        .chain(s.vcpus[v].curr)
        .map(|t| i64::from(s.tasks[t].fair.weight))
        .sum();
    let entity = &mut s.task(t).fair;
    let weight = i64::from(entity.weight);
    // Joining moves the average; the lag is enlarged so that it is what it was afterwards.
    let lag = if load == 0 { 0 } else { entity.lag.saturating_mul(load + weight) / load };
    entity.vruntime = average - lag;
    entity.deadline = entity.vruntime + scaled(slice, entity.weight);
    s.vcpu(v).fair.queue.push(t);
    advance_min(s, v);
}

/// `t` leaves `v`: asleep, or moved.
pub fn dequeue(s: &mut Sim, v: VcpuId, t: TaskId) {
    update_curr(s, v);
    let (average, slice) = (average(s, v), slice(s));
    let tick = s.guest.config.tick_ns;
    let entity = &mut s.task(t).fair;
    let limit = scaled(slice + tick, entity.weight);
    entity.lag = (average - entity.vruntime).clamp(-limit, limit);
    s.vcpu(v).fair.queue.retain(|other| *other != t);
    advance_min(s, v);
}

/// The one to run next of those that wait on `v` and, if `with_curr`, the running one: of those that
/// are not ahead of the average the one with the earliest deadline (pick_eevdf).
fn best(s: &Sim, v: VcpuId, with_curr: bool) -> Option<TaskId> {
    let average = average(s, v);
    let curr = s.vcpus[v].curr.filter(|_| with_curr);
    let all = s.vcpus[v].fair.queue.iter().copied().chain(curr);
    let eligible = all.clone().filter(|t| s.tasks[*t].fair.vruntime <= average);
    eligible
        .min_by_key(|t| (s.tasks[*t].fair.deadline, *t))
        .or_else(|| all.min_by_key(|t| (s.tasks[*t].fair.vruntime, *t)))
}

/// Return true if `t`, which has woken on `v`, takes it from what runs there. A running task is
/// protected for a slice since it was switched in (RUN_TO_PARITY: protect_slice()), unless it is SCHED_IDLE.
pub fn wakeup_preempts(s: &mut Sim, v: VcpuId, t: TaskId) -> bool {
    let Some(curr) = s.vcpu(v).curr else { return true };
    update_curr(s, v);
    match (s.tasks[curr].best_effort(), s.tasks[t].best_effort()) {
        (true, false) => true,
        (false, true) => false,
        _ => {
            s.tasks[curr].fair.vruntime >= s.vcpus[v].fair.protected_until
                && best(s, v, true) == Some(t)
        }
    }
}

/// Choose what `v`, whose lock is held, runs next.
pub fn pick(v: VcpuId, prev: Option<TaskId>) -> Option<TaskId> {
    let pushed_to = sim(|s| {
        update_curr(s, v);
        s.vcpu(v).fair.push_to.take()
    });
    if let (Some(t), Some(to)) = (prev, pushed_to) {
        eevdf_place::push(v, t, to);
    }
    let runnable = prev.filter(|t| sim(|s| s.tasks[*t].on_rq && s.tasks[*t].cpu == v));
    sim(|s| s.vcpu(v).curr = runnable);
    let nothing = runnable.is_none() && sim(|s| s.vcpu(v).fair.queue.is_empty());
    if nothing && pushed_to.is_none() && sim(|s| s.vcpu(v).online) {
        eevdf_place::pull_one(v, true);
    }
    spend(sim(|s| s.costs.queue_ns));
    sim(|s| {
        let next = best(s, v, runnable.is_some());
        if next != runnable {
            s.vcpu(v).fair.queue.extend(runnable);
            s.vcpu(v).fair.queue.retain(|other| Some(*other) != next);
            if let Some(t) = next {
                let entity = s.tasks[t].fair;
                s.vcpu(v).fair.protected_until = entity.vruntime + scaled(slice(s), entity.weight);
            }
        }
        let clock = s.task_clock(v);
        let idle = next.is_none() && s.vcpus[v].online;
        s.vcpu(v).fair.exec_start = clock;
        s.vcpu(v).curr = next;
        crate::guest::mask_set(&mut s.guest.idle, v, idle);
        next
    })
}

pub fn tick(v: VcpuId) {
    let another = sim(|s| {
        update_curr(s, v);
        eevdf_place::update_capacity(s, v);
        s.vcpu(v).need_resched
    });
    if another {
        resched(v);
    }
}

/// sched_yield: the rest of the slice is given up.
pub fn yield_task(s: &mut Sim, v: VcpuId, t: TaskId) {
    update_curr(s, v);
    let slice = slice(s);
    let entity = &mut s.task(t).fair;
    entity.deadline += scaled(slice, entity.weight);
}
