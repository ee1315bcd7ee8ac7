// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's functions about tasks, vCPUs, idle masks, clocks and chance.

use std::ffi::{CStr, c_char};

use super::shim::{bpf_spin_lock as SpinLock, cpumask, task_struct};
use crate::exec::{self, Lock, owe, spend};
use crate::guest::scx_dispatch;
use crate::guest::task::TaskId;
use crate::sim::{Sim, sim};

const EBUSY: i32 = 16;
const KICK_WAIT: u64 = 4;

/// Charge a kernel function that others can see the time of.
pub fn enter() {
    spend(sim(|s| {
        count(s);
        s.costs.kfunc_ns
    }));
}

/// Charge a kernel function that does nothing others could see.
fn glance() {
    owe(sim(|s| {
        count(s);
        s.costs.kfunc_ns / 3
    }));
}

fn count(s: &mut Sim) {
    let v = s.current;
    s.vcpu(v).scx.work.kfuncs += 1;
}

/// The task that a pointer of the scheduler means; none for null, which is a violation.
pub(super) fn task_of(p: *const task_struct) -> Option<TaskId> {
    if p.is_null() {
        sim(|s| s.violate("a kernel function was called with a null task"));
        return None;
    }
    // SAFETY: tasks live as long as the simulation.
    Some(unsafe { (*p).pid } as usize - 1)
}

/// Return true if `cpu` is a vCPU; else report it.
fn valid(cpu: i32) -> bool {
    sim(|s| {
        let valid = cpu >= 0 && (cpu as usize) < s.vcpus.len();
        if !valid {
            s.violate(format!("a kernel function was called with vCPU {cpu}"));
        }
        valid
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sim_iteration() -> bool {
    sim(|s| {
        let v = s.current;
        s.vcpu(v).scx.work.iterations += 1;
        s.vcpu(v).debt_ns += 2;
    });
    true
}

/// # Safety
/// `format` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_error(format: *const c_char) {
    // SAFETY: the contract of this function.
    let text = unsafe { CStr::from_ptr(format) }.to_string_lossy().into_owned();
    sim(|s| s.violate(format!("scx_bpf_error: {text}")));
}

/// # Safety
/// `p` is a task of this simulation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scx_bpf_task_set_slice(p: *mut task_struct, slice: u64) -> bool {
    glance();
    // SAFETY: the contract of this function.
    unsafe { (*p).scx.slice = slice };
    true
}

/// # Safety
/// `p` is a task of this simulation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scx_bpf_task_set_dsq_vtime(p: *mut task_struct, vtime: u64) -> bool {
    glance();
    // SAFETY: the contract of this function.
    unsafe { (*p).scx.dsq_vtime = vtime };
    true
}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_task_running(p: *const task_struct) -> bool {
    glance();
    task_of(p).is_some_and(|t| sim(|s| s.vcpus[s.tasks[t].cpu].curr == Some(t)))
}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_task_cpu(p: *const task_struct) -> i32 {
    glance();
    task_of(p).map_or(0, |t| sim(|s| s.tasks[t].cpu as i32))
}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_cpu_curr(cpu: i32) -> *mut task_struct {
    glance();
    if !valid(cpu) {
        return std::ptr::null_mut();
    }
    sim(|s| match s.vcpu(cpu as usize).curr {
        Some(t) => &raw mut *s.task(t).raw,
        None => std::ptr::null_mut(),
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn bpf_get_current_task_btf() -> *mut task_struct {
    sim(|s| match s.vcpus[s.current].curr {
        Some(t) => &raw mut *s.task(t).raw,
        None => std::ptr::null_mut(),
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn bpf_task_from_pid(pid: i32) -> *mut task_struct {
    glance();
    sim(|s| match s.tasks.get_mut((pid - 1).max(0) as usize) {
        Some(task) if pid > 0 => &raw mut *task.raw,
        _ => std::ptr::null_mut(),
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn bpf_get_smp_processor_id() -> u32 {
    sim(|s| s.current as u32)
}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_nr_cpu_ids() -> u32 {
    sim(|s| s.vcpus.len() as u32)
}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_kick_cpu(cpu: i32, flags: u64) {
    enter();
    if !valid(cpu) {
        return;
    }
    if flags & KICK_WAIT != 0 {
        sim(|s| s.violate("SCX_KICK_WAIT would spin for a vCPU that may be stopped"));
    }
    scx_dispatch::kick(cpu as usize, flags);
}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_get_possible_cpumask() -> *const cpumask {
    glance();
    sim(|s| &raw const *s.guest.possible)
}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_get_online_cpumask() -> *const cpumask {
    glance();
    sim(|s| &raw const *s.guest.online)
}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_get_idle_cpumask() -> *const cpumask {
    glance();
    sim(|s| &raw const *s.guest.idle)
}

/// The guest is not told of hyper-threads: each vCPU is a core of its own.
#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_get_idle_smtmask() -> *const cpumask {
    scx_bpf_get_idle_cpumask()
}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_put_cpumask(_mask: *const cpumask) {}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_put_idle_cpumask(_mask: *const cpumask) {}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_test_and_clear_cpu_idle(cpu: i32) -> bool {
    enter();
    valid(cpu) && sim(|s| s.claim_idle(cpu as usize))
}

/// # Safety
/// `allowed` is a mask of the kernel's or the scheduler's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scx_bpf_pick_idle_cpu(allowed: *const cpumask, _flags: u64) -> i32 {
    enter();
    // SAFETY: the contract of this function.
    let allowed = unsafe { *allowed };
    sim(|s| s.claim_any_idle(&allowed)).map_or(-EBUSY, |v| v as i32)
}

/// # Safety
/// `allowed` is a mask of the kernel's or the scheduler's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scx_bpf_pick_any_cpu(allowed: *const cpumask, flags: u64) -> i32 {
    // SAFETY: the contract of this function.
    let idle = unsafe { scx_bpf_pick_idle_cpu(allowed, flags) };
    if idle >= 0 {
        return idle;
    }
    // SAFETY: the contract of this function.
    let allowed = unsafe { *allowed };
    sim(|s| {
        let (v, nr) = (s.current, s.vcpus.len());
        let after = s.vcpu(v).distribute;
        let found = crate::guest::mask_next_and(&allowed, &s.guest.possible, after, nr);
        s.vcpu(v).distribute = found.unwrap_or(after);
        found.map_or(-EBUSY, |v| v as i32)
    })
}

/// The runqueue's clock while it is valid, as the kernel caches it.
#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_now() -> u64 {
    glance();
    sim(|s| {
        let vcpu = &s.vcpus[s.current];
        if vcpu.clock_valid { vcpu.clock } else { s.now }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn bpf_ktime_get_ns() -> u64 {
    owe(20);
    sim(|s| s.now + s.vcpus[s.current].debt_ns)
}

#[unsafe(no_mangle)]
pub extern "C" fn bpf_jiffies64() -> u64 {
    sim(|s| s.guest.jiffies(s.now))
}

#[unsafe(no_mangle)]
pub extern "C" fn bpf_get_prandom_u32() -> u32 {
    sim(|s| s.below(1 << 32) as u32)
}

#[unsafe(no_mangle)]
pub extern "C" fn bpf_spin_lock(lock: *mut SpinLock) {
    exec::lock(Lock::Bpf(lock as usize));
}

#[unsafe(no_mangle)]
pub extern "C" fn bpf_spin_unlock(lock: *mut SpinLock) {
    exec::unlock(Lock::Bpf(lock as usize));
}
