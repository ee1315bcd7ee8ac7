// SPDX-License-Identifier: GPL-2.0-only
//! What a vCPU does: handle interrupts, schedule, run a task, halt (kernel/sched/core.c).

use super::task::{NewTask, State, Task, TaskId};
use super::vcpu::{Irq, Mode, VcpuId};
use super::{irq, mask_next_and, scx, scx_dispatch};
use crate::exec::{Lock, current, lock, spend, suspend, unlock, wait_until_free};
use crate::record::What;
use crate::sim::{Ns, Sim, sim};
use crate::work::Op;

pub const WAKE_SYNC: u64 = 16;
pub const WAKE_TTWU: u64 = 8;
pub const ENQ_WAKEUP: u64 = 1;
pub const ENQ_CPU_SELECTED: u64 = 1 << 10;
pub const DEQ_SLEEP: u64 = 1;

/// The code of a vCPU, for ever.
pub fn vcpu_main(v: VcpuId) {
    loop {
        if sim(|s| s.vcpu(v).debt_ns > 0) {
            spend(0);
        }
        irq::handle_all();
        super::attrs::evict(v);
        let (need_resched, curr) = sim(|s| (s.vcpu(v).need_resched, s.vcpu(v).curr));
        match curr {
            _ if need_resched => schedule(),
            None => halt(v),
            Some(t) => run(v, t),
        }
    }
}

fn halt(v: VcpuId) {
    sim(|s| {
        s.stop_tick(v);
        s.vcpu(v).mode = Mode::Halted;
        s.note(What::Halt, 0, 0);
        s.host_block(v);
    });
    suspend();
}

/// Run the present task until an interrupt, or until it does something.
fn run(v: VcpuId, t: TaskId) {
    let left = sim(|s| {
        let left = s.tasks[t].left_ns;
        if left > 0 {
            s.begin(v, Mode::User, left);
        }
        left
    });
    if left == 0 {
        let op = sim(|s| s.next_op(t));
        return perform(v, t, op);
    }
    suspend();
    sim(|s| {
        let rest = s.vcpu(v).left_ns;
        let task = s.task(t);
        task.left_ns = rest;
        task.counts.work_ns += left.saturating_sub(rest);
    });
}

/// Do what the program of `t`, which runs on `v`, asks for.
fn perform(v: VcpuId, t: TaskId, op: Op) {
    match op {
        Op::Compute(ns) => sim(|s| s.task(t).left_ns += ns),
        Op::SleepUntil(at) => {
            spend(sim(|s| s.costs.syscall_ns));
            sim(|s| {
                s.task(t).state = State::Blocked;
                s.wake_timer(v, t, at);
            });
            schedule();
        }
        Op::Down(semaphore) => {
            spend(sim(|s| s.costs.syscall_ns));
            if !sim(|s| s.take_or_wait(semaphore, t)) {
                schedule();
            }
        }
        Op::Up { semaphore, count, sync } => {
            spend(sim(|s| s.costs.syscall_ns));
            for _ in 0..count {
                if let Some(waiter) = sim(|s| s.world.give(semaphore)) {
                    wake(waiter, if sync { WAKE_SYNC } else { 0 });
                }
            }
        }
        Op::Yield => {
            spend(sim(|s| s.costs.syscall_ns));
            yield_task(v, t);
            sim(|s| s.vcpu(v).need_resched = true);
        }
        Op::MigrateDisable(on) => super::attrs::migrate_disable(v, t, on),
        Op::IrqsOff(ns) => spend(ns),
        Op::Flush => irq::flush_tlb(v, t),
        Op::Exit => {
            sim(|s| s.task(t).state = State::Dead);
            schedule();
        }
    }
}

fn yield_task(v: VcpuId, t: TaskId) {
    lock(Lock::Rq(v));
    sim(|s| s.update_clock(v));
    scx::yield_task(v, t);
    unlock_rq(v);
}

/// Free the lock of a runqueue.
pub fn unlock_rq(v: VcpuId) {
    sim(|s| s.set_clock_valid(v, false));
    unlock(Lock::Rq(v));
}

/// Wake `t` from the present vCPU (try_to_wake_up). Return true if it was asleep.
pub fn wake(t: TaskId, wake_flags: u64) -> bool {
    spend(sim(|s| s.costs.wake_ns));
    lock(Lock::Task(t));
    if sim(|s| s.tasks[t].state != State::Blocked) {
        unlock(Lock::Task(t));
        return false;
    }
    if sim(|s| s.tasks[t].on_rq) {
        // It was about to sleep: it has not left its runqueue yet (ttwu_runnable).
        let cpu = sim(|s| s.tasks[t].cpu);
        lock(Lock::Rq(cpu));
        let still = sim(|s| {
            let task = s.task(t);
            if task.on_rq {
                task.state = State::Runnable;
            }
            task.on_rq
        });
        unlock_rq(cpu);
        if still {
            unlock(Lock::Task(t));
            return true;
        }
    }
    let prev = sim(|s| s.tasks[t].cpu);
    let left = sim(|s| s.is_locked(Lock::OnCpu(t)) && s.leaves_wakeup_to(prev, t));
    let (cpu, flags) = if left {
        (prev, 0)
    } else {
        // A task that is being switched out on a stopped vCPU keeps its waker spinning.
        wait_until_free(Lock::OnCpu(t));
        select_cpu(t, wake_flags | WAKE_TTWU)
    };
    sim(|s| {
        s.task(t).cpu = cpu;
        s.note(What::Wake, t as u64, cpu as u64);
    });
    if left || sim(|s| s.leaves_wakeup_to(cpu, t)) {
        leave_wakeup_to(cpu, t);
    } else {
        activate_woken(t, cpu, flags);
    }
    unlock(Lock::Task(t));
    scx_dispatch::run_kicks();
    true
}

/// Have `cpu` activate `t` itself (ttwu_queue_wakelist).
fn leave_wakeup_to(cpu: VcpuId, t: TaskId) {
    let (first, cost) = sim(|s| {
        let now = s.now;
        s.task(t).state = State::Waking;
        s.task(t).waits_since.get_or_insert(now);
        let woken = &mut s.vcpu(cpu).woken;
        woken.push_back(t);
        (woken.len() == 1, s.costs.ipi_send_ns)
    });
    if first {
        send_ipi(cpu, Irq::Woken);
        spend(cost);
    }
}

/// Activate what was left to `cpu`, the present one (sched_ttwu_pending).
pub fn activate_left(cpu: VcpuId) {
    while let Some(t) = sim(|s| s.vcpu(cpu).woken.pop_front()) {
        activate_woken(t, cpu, 0);
        // The vCPU may have gone, or the affinity have changed: then it is moved, but queued first
        // where it was sent (migration_cpu_stop).
        super::attrs::move_if_misplaced(t, cpu);
    }
}

/// Put `t`, which has woken, on the runqueue of `cpu`, and let it run there soon (ttwu_do_activate).
fn activate_woken(t: TaskId, cpu: VcpuId, flags: u64) {
    lock(Lock::Rq(cpu));
    sim(|s| s.update_clock(cpu));
    activate(t, cpu, flags | ENQ_WAKEUP);
    sim(|s| s.task(t).state = State::Runnable);
    // sched_ext has no wakeup_preempt; idle is a lower class.
    if sim(|s| s.vcpu(cpu).curr.is_none()) {
        resched(cpu);
    }
    unlock_rq(cpu);
}

/// Choose a vCPU for `t` that wakes. Return it, with the flag that tells whether the class chose.
fn select_cpu(t: TaskId, wake_flags: u64) -> (VcpuId, u64) {
    let (pinned, prev) = sim(|s| (s.tasks[t].pinned(), s.tasks[t].cpu));
    let (cpu, flags) = if pinned {
        (sim(|s| s.first_allowed(t)).unwrap_or(prev), 0)
    } else {
        (scx::select_cpu(t, prev, wake_flags), ENQ_CPU_SELECTED)
    };
    (sim(|s| s.allowed_or_fallback(t, cpu)), flags)
}

/// Make `t` runnable on `cpu`, whose lock is held.
pub fn activate(t: TaskId, cpu: VcpuId, flags: u64) {
    sim(|s| {
        let now = s.now;
        let task = s.task(t);
        task.on_rq = true;
        task.waits_since.get_or_insert(now);
    });
    scx::enqueue_task(t, cpu, flags);
}

/// Take `t` off the runqueue of `cpu`, whose lock is held.
pub fn deactivate(t: TaskId, cpu: VcpuId, flags: u64) {
    scx::dequeue_task(t, cpu, flags);
    sim(|s| {
        s.task(t).on_rq = false;
        s.task(t).waits_since = None;
    });
}

/// Let `cpu` schedule soon. Its lock is held, or it is the present one.
pub fn resched(cpu: VcpuId) {
    let (send, cost) = sim(|s| {
        let first = !std::mem::replace(&mut s.vcpu(cpu).need_resched, true);
        (first && cpu != s.current, s.costs.ipi_send_ns)
    });
    if send {
        send_ipi(cpu, Irq::Resched);
        spend(cost);
    }
}

pub fn send_ipi(cpu: VcpuId, irq: Irq) {
    sim(|s| {
        let delay = s.costs.ipi_delay_ns;
        s.note(What::Ipi, cpu as u64, 0);
        s.after(delay, crate::sim::Event::Irq { v: cpu, irq });
    });
}

/// Let another task run, or the same, or none.
pub fn schedule() {
    let v = current();
    lock(Lock::Rq(v));
    spend(sim(|s| s.costs.schedule_ns));
    let (prev, leaves, dead) = sim(|s| {
        s.update_clock(v);
        s.vcpu(v).need_resched = false;
        let prev = s.vcpu(v).curr;
        let state = prev.map(|t| s.tasks[t].state);
        (prev, state.is_some_and(|state| state != State::Runnable), state == Some(State::Dead))
    });
    if let Some(t) = prev
        && leaves
    {
        deactivate(t, v, DEQ_SLEEP);
    }
    let next = scx_dispatch::pick(v, prev);
    if next == prev {
        if prev.is_some() {
            sim(|s| s.continue_ticks(v));
        }
        unlock_rq(v);
    } else {
        let cost = sim(|s| s.switch(v, prev, next));
        spend(cost);
        unlock_rq(v);
        if let Some(t) = prev {
            sim(|s| {
                s.tasks[t].raw.on_cpu = 0;
                s.unlock(Lock::OnCpu(t));
            });
        }
    }
    if let Some(t) = prev
        && dead
    {
        scx::exit_task(t);
    }
    scx_dispatch::run_kicks();
}

impl Sim {
    /// Return true if a waker leaves it to `cpu` to activate `t`: that has another cache, or nothing
    /// to run (ttwu_queue_cond).
    fn leaves_wakeup_to(&self, cpu: VcpuId, t: TaskId) -> bool {
        self.guest.config.queued_wakeup
            && cpu != self.current
            && self.vcpus[cpu].online
            && self.tasks[t].may_run_on(cpu)
            && (!self.guest.config.shares_cache(cpu, self.current)
                || !self.tasks.iter().any(|task| task.on_rq && task.cpu == cpu))
    }

    /// Add a task, not woken yet.
    pub fn add_task(&mut self, new: NewTask, cpu: VcpuId) -> TaskId {
        let id = self.tasks.len();
        let mut task = Task::new(id, new, self.vcpus.len());
        task.cpu = if task.may_run_on(cpu) {
            cpu
        } else {
            (0..self.vcpus.len()).find(|v| task.may_run_on(*v)).unwrap_or(cpu)
        };
        self.tasks.push(task);
        id
    }

    fn next_op(&mut self, t: TaskId) -> Op {
        let Some(mut program) = self.task(t).program.take() else { return Op::Exit };
        let op = program.next(self);
        self.task(t).program = Some(program);
        op
    }

    /// The first online vCPU that `t` may run on, its present one first.
    pub fn first_allowed(&self, t: TaskId) -> Option<VcpuId> {
        let task = &self.tasks[t];
        if !self.is_misplaced(t, task.cpu) {
            return Some(task.cpu);
        }
        let nr = self.vcpus.len();
        mask_next_and(task.allowed(), &self.guest.online, nr - 1, nr)
    }

    /// `cpu` if `t` may run there, else another (select_fallback_rq): its affinity is given up only
    /// when no vCPU of it is online.
    pub fn allowed_or_fallback(&mut self, t: TaskId, cpu: VcpuId) -> VcpuId {
        if self.tasks[t].may_run_on(cpu) && !self.is_misplaced(t, cpu) {
            return cpu;
        }
        if let Some(other) = self.first_allowed(t) {
            return other;
        }
        let all: Vec<_> = (0..self.vcpus.len()).collect();
        self.task(t).set_allowed(&all);
        self.first_allowed(t).unwrap_or(0)
    }

    /// `v` goes on with its task: it has ticks.
    pub fn continue_ticks(&mut self, v: VcpuId) {
        if !self.vcpu(v).tick_on {
            self.arm_tick(v);
        }
    }

    /// Switch `v` from `prev` to `next`. Return what that costs.
    fn switch(&mut self, v: VcpuId, prev: Option<TaskId>, next: Option<TaskId>) -> Ns {
        let now = self.now;
        if let Some(t) = prev {
            let pcpu = self.vcpu(v).on_pcpu;
            let task = self.task(t);
            task.last_pcpu = pcpu;
            if task.on_rq {
                task.waits_since.get_or_insert(now);
            }
        }
        self.vcpu(v).curr = next;
        self.note(
            What::Switch,
            next.map_or(u64::MAX, |t| t as u64),
            prev.map_or(u64::MAX, |t| t as u64),
        );
        let Some(t) = next else { return self.costs.switch_ns };
        if self.tasks[t].may_run_on(v) && self.is_misplaced(t, v) {
            // It came here by a decision from before: pushed away at once (balance_push).
            self.vcpu(v).evict = Some(t);
        } else if !self.tasks[t].may_run_on(v) {
            self.violate(format!("task {t} runs on vCPU {v}, where it may not"));
        }
        if !self.try_lock(Lock::OnCpu(t)) {
            self.violate(format!("task {t} runs on two vCPUs, one of them {v}"));
        }
        self.continue_ticks(v);
        let refill = self.refill_ns(v, t);
        let task = self.task(t);
        task.raw.on_cpu = 1;
        task.cpu = v;
        if let Some(since) = task.waits_since.take() {
            task.counts.wait_max_ns = task.counts.wait_max_ns.max(now - since);
        }
        task.left_ns += refill;
        self.costs.switch_ns
    }

    /// What `t` pays for cold caches when it begins to run on `v`.
    fn refill_ns(&self, v: VcpuId, t: TaskId) -> Ns {
        let task = &self.tasks[t];
        let (Some(from), Some(to)) = (task.last_pcpu, self.vcpus[v].on_pcpu) else { return 0 };
        if self.host.same_core(from, to) { 0 } else { self.costs.migrate_ns }
    }
}
