// SPDX-License-Identifier: GPL-2.0-only
//! The code of a vCPU as a coroutine. It asks for time; the host gives it, now or later. So the host
//! can stop a vCPU wherever its code takes time: in user mode, in the kernel, in a callback that
//! holds a lock.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::guest::task::TaskId;
use crate::guest::vcpu::{Mode, VcpuId};
use crate::record::What;
use crate::sim::{Event, Ns, Sim, sim};

const STACK_BYTES: usize = 128 * 1024;

type Body = Coroutine<(), (), (), DefaultStack>;

thread_local! {
    static BODIES: RefCell<Vec<Option<Body>>> = const { RefCell::new(Vec::new()) };
    static YIELDERS: RefCell<Vec<*const Yielder<(), ()>>> = const { RefCell::new(Vec::new()) };
}

/// Locks of the simulated kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lock {
    Rq(VcpuId),
    Dsq(u64),
    /// A task's wake-up lock (p->pi_lock).
    Task(TaskId),
    /// Held, in effect, by the vCPU that is switching the task out (p->on_cpu).
    OnCpu(TaskId),
    /// A bpf_spin_lock, by its address.
    Bpf(usize),
}

/// Who holds which lock, and who spins for it. Never iterated: its order means nothing.
pub type Locks = HashMap<Lock, LockState, BuildHasherDefault<std::hash::DefaultHasher>>;

#[derive(Default)]
pub struct LockState {
    by: Option<VcpuId>,
    waiters: Vec<VcpuId>,
}

/// Give each of `nr` vCPUs its code.
///
/// # Errors
/// If there is no memory for their stacks.
pub fn start(nr: usize, main: fn(VcpuId)) -> std::io::Result<()> {
    let mut bodies = Vec::with_capacity(nr);
    for v in 0..nr {
        let stack = DefaultStack::new(STACK_BYTES)?;
        bodies.push(Some(Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            YIELDERS.with_borrow_mut(|yielders| yielders[v] = yielder);
            main(v);
        })));
    }
    YIELDERS.set(vec![std::ptr::null(); nr]);
    BODIES.set(bodies);
    Ok(())
}

/// End the code of all vCPUs, wherever it is.
pub fn stop_all() {
    for body in BODIES.take().iter_mut().flatten() {
        // SAFETY: the frames that vanish are the simulator's own and the scheduler's; none of them holds
        // a borrow across a suspension, and nothing else points into these stacks.
        unsafe { body.force_reset() };
    }
}

/// Go on with the code of `v`, until it asks for time again.
pub fn resume(v: VcpuId) {
    sim(|s| {
        s.current = v;
        let vcpu = s.vcpu(v);
        vcpu.r#gen += 1;
        s.settle(v);
    });
    let body = BODIES.with_borrow_mut(|bodies| bodies[v].take());
    if let Some(mut body) = body {
        match body.resume(()) {
            CoroutineResult::Yield(()) => BODIES.with_borrow_mut(|all| all[v] = Some(body)),
            CoroutineResult::Return(()) => sim(|s| s.violate("the code of a vCPU has ended")),
        }
    }
}

/// Leave the present vCPU's code until it is resumed.
pub fn suspend() {
    let v = sim(|s| s.current);
    let yielder = YIELDERS.with_borrow(|yielders| yielders[v]);
    // SAFETY: set when this coroutine began; it lives as long as the coroutine that we are in.
    unsafe { (*yielder).suspend(()) };
}

/// Leave the present vCPU's code for good: the simulation has a violation and ends.
pub fn abandon() -> ! {
    loop {
        sim(|s| {
            let v = s.current;
            s.vcpu(v).mode = Mode::Kernel;
        });
        suspend();
    }
}

pub fn current() -> VcpuId {
    sim(|s| s.current)
}

pub fn now() -> Ns {
    sim(|s| s.now)
}

/// Let kernel code of the present vCPU take `ns` of its time. Interrupts wait.
pub fn spend(ns: Ns) {
    let done = sim(|s| {
        let v = s.current;
        let ns = ns + std::mem::take(&mut s.vcpu(v).debt_ns);
        if s.violation.is_some() {
            return false;
        }
        let to = s.now + s.wall_ns(v, ns);
        s.try_advance(to) || {
            s.begin(v, Mode::Kernel, ns);
            false
        }
    });
    if !done {
        suspend();
        if sim(|s| s.violation.is_some()) {
            abandon();
        }
    }
}

/// Charge `ns` that pass without a point at which others could see it.
pub fn owe(ns: Ns) {
    sim(|s| {
        let v = s.current;
        s.vcpu(v).debt_ns += ns;
    });
}

/// Take `lock`; spin while another vCPU holds it. Whoever runs first when it is free has it, as
/// with the paravirtual spinlocks that KVM guests use.
pub fn lock(lock: Lock) {
    let (mut waited, since) = (false, now());
    loop {
        let taken = sim(|s| {
            let v = s.current;
            let state = s.locks.entry(lock).or_default();
            match state.by {
                None => {
                    state.by = Some(v);
                    state.waiters.retain(|w| *w != v);
                    true
                }
                Some(holder) => {
                    if !state.waiters.contains(&v) {
                        state.waiters.push(v);
                    }
                    if holder == v {
                        s.violate(format!("vCPU {v} waits for {lock:?}, which it holds itself"));
                    }
                    s.begin(v, Mode::Spin, 0);
                    false
                }
            }
        });
        if taken {
            break;
        }
        if !waited {
            waited = true;
            contention(lock, true);
        }
        suspend();
        if sim(|s| s.violation.is_some()) {
            abandon();
        }
    }
    if waited {
        contention(lock, false);
        spun(since);
    }
}

/// Count the time that the present vCPU has spun, stops included.
fn spun(since: Ns) {
    sim(|s| {
        let (v, now) = (s.current, s.now);
        s.vcpu(v).counts.spin_ns += now - since;
    });
}

/// Tell the scheduler's tracepoint programs of a contended runqueue or queue lock.
fn contention(lock: Lock, begins: bool) {
    let address = match lock {
        Lock::Rq(v) => 0x1000 + v,
        Lock::Dsq(id) => 0x100_0000 + id as usize,
        _ => return,
    };
    sim(|s| s.note(if begins { What::SpinBegin } else { What::SpinEnd }, address as u64, 0));
    // SAFETY: the programs take the address as a number.
    unsafe {
        if begins {
            crate::bpf::shim::sim_contention_begin(address as *mut _);
        } else {
            crate::bpf::shim::sim_contention_end(address as *mut _);
        }
    }
    // What the program was charged must not pass inside the wait: the mode is set already.
    sim(|s| {
        let v = s.current;
        s.vcpu(v).debt_ns = 0;
        if begins {
            s.begin(v, Mode::Spin, 0);
        }
    });
}

/// Free `lock`; those who spin for it and run try again.
pub fn unlock(lock: Lock) {
    sim(|s| s.unlock(lock));
}

/// Spin until `lock` is free, without taking it.
pub fn wait_until_free(lock: Lock) {
    let since = now();
    loop {
        let free = sim(|s| {
            let v = s.current;
            let Some(state) = s.locks.get_mut(&lock) else { return true };
            state.waiters.retain(|w| *w != v);
            if state.by.is_none_or(|by| by == v) {
                return true;
            }
            state.waiters.push(v);
            s.begin(v, Mode::Spin, 0);
            false
        });
        if free {
            return spun(since);
        }
        suspend();
        if sim(|s| s.violation.is_some()) {
            abandon();
        }
    }
}

impl Sim {
    pub fn unlock(&mut self, lock: Lock) {
        if self.locks.get(&lock).is_none_or(|state| state.by != Some(self.current)) {
            return;
        }
        let Some(state) = self.locks.remove(&lock) else { return };
        if state.waiters.is_empty() {
            return;
        }
        let waiters = state.waiters.clone();
        self.locks.insert(lock, LockState { by: None, waiters: state.waiters });
        for w in waiters {
            if self.vcpu(w).on_pcpu.is_some() && self.vcpu(w).mode == Mode::Spin {
                let r#gen = self.vcpu(w).r#gen;
                self.after(50, Event::Resume { v: w, r#gen });
            }
        }
    }

    pub fn is_locked(&self, lock: Lock) -> bool {
        self.locks.get(&lock).is_some_and(|state| state.by.is_some())
    }

    /// Take `lock` for the present vCPU if it is free. Return true if it was.
    pub fn try_lock(&mut self, lock: Lock) -> bool {
        let v = self.current;
        let state = self.locks.entry(lock).or_default();
        if state.by.is_some() {
            return false;
        }
        state.by = Some(v);
        state.waiters.retain(|w| *w != v);
        true
    }

    /// Return true if the code of `v` may go on by an event of generation `r#gen`.
    pub fn may_resume(&self, v: VcpuId, r#gen: u64) -> bool {
        self.vcpus[v].r#gen == r#gen && self.vcpus[v].on_pcpu.is_some()
    }

    /// The code of `v` begins to wait in `mode`, for `ns` of its own time (0: for an event).
    pub fn begin(&mut self, v: VcpuId, mode: Mode, ns: Ns) {
        let now = self.now;
        let vcpu = self.vcpu(v);
        vcpu.mode = mode;
        vcpu.left_ns = ns;
        vcpu.since = now;
        self.schedule_work(v);
    }

    /// If `v` runs and waits for time, let it go on when that is over.
    pub fn schedule_work(&mut self, v: VcpuId) {
        let (left, r#gen, timed) = {
            let vcpu = &self.vcpus[v];
            (vcpu.left_ns, vcpu.r#gen, vcpu.on_pcpu.is_some() && vcpu.mode.is_timed())
        };
        if timed {
            let wall = self.wall_ns(v, left);
            self.after(wall, Event::WorkDone { v, r#gen });
        }
    }

    /// Account the time that `v` has had since it was last looked at.
    pub fn settle(&mut self, v: VcpuId) {
        let now = self.now;
        let done = self.work_ns(v, now - self.vcpus[v].since);
        let vcpu = self.vcpu(v);
        vcpu.since = now;
        if vcpu.on_pcpu.is_some() {
            // Rounding may leave a ns: what was asked for in whole is had in whole.
            vcpu.left_ns = if vcpu.left_ns <= done + 1 { 0 } else { vcpu.left_ns - done };
        }
    }
}
