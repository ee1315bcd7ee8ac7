// SPDX-License-Identifier: GPL-2.0-only
//! Changes of a task's affinity, weight and policy, and vCPUs that come and go (kernel/sched/core.c:
//! set_cpus_allowed_ptr, set_user_nice, sched_setscheduler; kernel/cpu.c).

use super::core::{activate, deactivate, resched, schedule, unlock_rq};
use super::task::{Policy, State, TaskId, load_weight, scx_weight};
use super::vcpu::{Irq, VcpuId};
use super::{mask_set, mask_test};
use crate::bpf::call::{self, Callback};
use crate::bpf::state::{absurd_process, absurd_vcpu};
use crate::exec::{Lock, current, lock, unlock};
use crate::guest::scx;
use crate::record::What;
use crate::sim::{Sim, sim};

/// A change that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Affinity {
        task: TaskId,
        allowed: Vec<VcpuId>,
    },
    Nice {
        task: TaskId,
        nice: i32,
    },
    Policy {
        task: TaskId,
        idle: bool,
    },
    Online {
        vcpu: VcpuId,
        online: bool,
    },
    /// Bits of enum vaware_policy, as the daemon sets them.
    Policies {
        bits: u64,
    },
    /// What the daemon says of a vCPU: bytes by chance.
    Inputs {
        vcpu: VcpuId,
        seed: u64,
    },
}

/// Make a change, on the present vCPU.
pub fn apply(change: Change) {
    match change {
        Change::Affinity { task, allowed } => change_task(task, 0, |s| {
            s.task(task).set_allowed(&allowed);
        }),
        Change::Nice { task, nice } => change_task(task, 1, |s| {
            s.task(task).raw.static_prio = 120 + nice;
            s.reweigh(task);
        }),
        Change::Policy { task, idle } => change_task(task, 2, |s| {
            let policy = if idle { Policy::Idle } else { Policy::Normal };
            s.task(task).raw.policy = policy as u32;
            s.reweigh(task);
        }),
        Change::Online { vcpu, online: true } => bring_up(vcpu),
        Change::Online { vcpu, online: false } => take_down(vcpu),
        // SAFETY: a plain number that the scheduler reads, as the daemon would write it.
        Change::Policies { bits } => unsafe { crate::bpf::shim::policies = bits },
        Change::Inputs { vcpu, seed } => {
            sim(|s| s.absurd_inputs(vcpu, seed));
            // SAFETY: as above.
            unsafe {
                crate::bpf::shim::hints_flags = u32::MAX;
                crate::bpf::shim::reserve_vcpu = absurd_vcpu(seed);
                crate::bpf::shim::confined[0] = absurd_process(seed);
            }
        }
    }
}

/// `t`, which runs on `v`, disables or enables migration. Its affinity may have changed meanwhile.
pub fn migrate_disable(v: VcpuId, t: TaskId, on: bool) {
    sim(|s| {
        s.task(t).set_migration_disabled(on);
        if s.is_misplaced(t, v) {
            s.vcpu(v).evict = Some(t);
        }
    });
}

fn change_task(t: TaskId, number: u64, change: impl FnOnce(&mut Sim)) {
    if sim(|s| t >= s.tasks.len() || s.tasks[t].state == State::Dead) {
        return;
    }
    lock(Lock::Task(t));
    let cpu = lock_home(t);
    sim(|s| {
        s.update_clock(cpu);
        s.note(What::Attr, t as u64, number);
    });
    let (queued, running) = sim(|s| (s.tasks[t].on_rq, s.vcpus[cpu].curr == Some(t)));
    let waits = sim(|s| s.tasks[t].waits_since);
    if queued {
        deactivate(t, cpu, 0);
    }
    sim(change);
    let callback = if number == 0 { Callback::SetCpumask } else { Callback::SetWeight };
    let argument = sim(|s| match callback {
        Callback::SetCpumask => (&raw const s.task(t).raw.cpus_mask) as u64,
        _ => u64::from(s.tasks[t].raw.scx.weight),
    });
    call::call(callback, &[call::pointer(t), argument]);
    if queued {
        if running {
            // It goes back by way of the local queue, and is set running at once.
            scx::restore_running(t, cpu);
        } else {
            activate(t, cpu, 0);
        }
        sim(|s| s.task(t).waits_since = waits);
    }
    let misplaced = queued && sim(|s| s.is_misplaced(t, cpu));
    if misplaced && !running {
        move_queued(t, cpu);
    } else {
        unlock_rq(cpu);
    }
    unlock(Lock::Task(t));
    if misplaced && running {
        evict_from(cpu, t);
    }
    super::scx_dispatch::run_kicks();
}

/// Lock the runqueue that `t` is on, wherever it is by then. Return the vCPU.
fn lock_home(t: TaskId) -> VcpuId {
    loop {
        let cpu = sim(|s| s.tasks[t].cpu);
        lock(Lock::Rq(cpu));
        if sim(|s| s.tasks[t].cpu == cpu) {
            return cpu;
        }
        unlock_rq(cpu);
    }
}

/// Move `t`, which waits on `from`, whose lock is held, to a vCPU where it may run; the lock is
/// dropped, not that of the task: its affinity stays what it is until the end (move_queued_task).
fn move_queued(t: TaskId, from: VcpuId) {
    let waits = sim(|s| s.tasks[t].waits_since);
    deactivate(t, from, 0);
    let to = sim(|s| {
        let to = s.allowed_or_fallback(t, from);
        s.task(t).cpu = to;
        s.task(t).waits_since = waits;
        to
    });
    unlock_rq(from);
    lock(Lock::Rq(to));
    sim(|s| s.update_clock(to));
    activate(t, to, 0);
    if sim(|s| s.vcpu(to).curr.is_none()) {
        resched(to);
    }
    unlock_rq(to);
}

/// Move `t` if it waits on `v` and may not stay there (__balance_push_cpu_stop, migration_cpu_stop).
pub fn move_if_misplaced(t: TaskId, v: VcpuId) {
    lock(Lock::Task(t));
    lock(Lock::Rq(v));
    let misplaced = sim(|s| {
        s.update_clock(v);
        let task = &s.tasks[t];
        task.on_rq && task.cpu == v && s.vcpus[v].curr != Some(t) && s.is_misplaced(t, v)
    });
    if misplaced {
        move_queued(t, v);
    } else {
        unlock_rq(v);
    }
    unlock(Lock::Task(t));
}

/// Have `t`, which runs on `cpu` where it may not any more, taken off by that vCPU's stopper.
fn evict_from(cpu: VcpuId, t: TaskId) {
    sim(|s| s.vcpu(cpu).evict = Some(t));
    if cpu != current() {
        sim(|s| s.note(What::Ipi, cpu as u64, 1));
        super::core::send_ipi(cpu, Irq::Resched);
    }
}

/// Do as the stopper: the running task is preempted and moved (migration_cpu_stop).
pub fn evict(v: VcpuId) {
    let Some(t) = sim(|s| s.vcpu(v).evict.take()) else { return };
    lock(Lock::Task(t));
    lock(Lock::Rq(v));
    sim(|s| s.update_clock(v));
    let still = sim(|s| {
        s.vcpu(v).curr == Some(t)
            && s.tasks[t].on_rq
            && s.tasks[t].state == State::Runnable
            && s.is_misplaced(t, v)
    });
    if !still {
        unlock_rq(v);
        unlock(Lock::Task(t));
        return;
    }
    scx::put_prev(v, t, Some(t));
    sim(|s| {
        s.switch_to_stopper(v);
        s.unlock(Lock::OnCpu(t));
    });
    move_queued(t, v);
    unlock(Lock::Task(t));
    schedule();
}

/// A vCPU comes (cpu_up).
fn bring_up(v: VcpuId) {
    if sim(|s| std::mem::replace(&mut s.vcpu(v).online, true)) {
        return;
    }
    sim(|s| {
        mask_set(&mut s.guest.online, v, true);
        s.note(What::Hotplug, v as u64, 1);
    });
    notify(Callback::CpuOnline, v);
    resched(v);
}

/// A vCPU goes (cpu_down): what runs there or waits in its local queue is moved; what waits in other
/// queues is left to the scheduler. Tasks that have disabled migration run there until they enable it
/// (balance_push). Refused for the present vCPU, the last one, and while a task is allowed nowhere
/// else.
fn take_down(v: VcpuId) {
    let may = sim(|s| {
        let others = s.vcpus.iter().filter(|vcpu| vcpu.online && vcpu.id != v).count();
        v != s.current
            && s.vcpus[v].online
            && others > 0
            && !s.tasks.iter().any(|task| {
                task.state != State::Dead
                    && (task.cpu == v || task.may_run_on(v))
                    && !(0..s.vcpus.len()).any(|other| {
                        let allowed = mask_test(&task.raw.cpus_mask, other);
                        other != v && s.vcpus[other].online && allowed
                    })
            })
    });
    if !may {
        return;
    }
    lock(Lock::Rq(v));
    let running = sim(|s| {
        s.update_clock(v);
        s.vcpu(v).online = false;
        mask_set(&mut s.guest.online, v, false);
        mask_set(&mut s.guest.idle, v, false);
        s.note(What::Hotplug, v as u64, 0);
        s.vcpu(v).curr
    });
    unlock_rq(v);
    push_away(v);
    if let Some(t) = running {
        evict_from(v, t);
    }
    // Last, as in sched_cpu_deactivate().
    notify(Callback::CpuOffline, v);
}

/// Move what waits in the own queues of `v`, which goes offline, elsewhere (balance_push_cpu_stop).
fn push_away(v: VcpuId) {
    while let Some(t) = sim(|s| {
        let vcpu = &s.vcpus[v];
        let goes = |t: &TaskId| vcpu.curr != Some(*t) && s.is_misplaced(*t, v);
        vcpu.scx.local.iter().copied().find(goes)
    }) {
        move_if_misplaced(t, v);
    }
}

/// A scheduler that has only one of the two hotplug callbacks is ejected, to be loaded again.
fn notify(callback: Callback, v: VcpuId) {
    if call::has(callback) {
        call::call(callback, &[v as u64]);
    } else {
        sim(|s| s.violate("a vCPU came or went: the kernel would eject the scheduler"));
    }
}

impl Sim {
    fn reweigh(&mut self, t: TaskId) {
        let task = self.task(t);
        let policy = if task.best_effort() { Policy::Idle } else { Policy::Normal };
        task.raw.scx.weight = scx_weight(load_weight(task.raw.static_prio - 120, policy));
    }

    /// Return true if `t` may not stay on `v` (is_cpu_allowed).
    pub fn is_misplaced(&self, t: TaskId, v: VcpuId) -> bool {
        let task = &self.tasks[t];
        task.raw.migration_disabled == 0 && !(task.may_run_on(v) && self.vcpus[v].online)
    }

    /// The running task of `v` is preempted by the stopper.
    fn switch_to_stopper(&mut self, v: VcpuId) {
        let now = self.now;
        if let Some(t) = self.vcpu(v).curr.take() {
            let pcpu = self.vcpu(v).on_pcpu;
            let task = self.task(t);
            task.raw.on_cpu = 0;
            task.last_pcpu = pcpu;
            task.waits_since.get_or_insert(now);
        }
    }
}
