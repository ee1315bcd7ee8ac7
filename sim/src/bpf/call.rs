// SPDX-License-Identifier: GPL-2.0-only
//! Calls of the scheduler's callbacks, with the count of what each did.

use std::ffi::c_void;

use super::lines::Lines;
use super::shim;
use crate::exec::spend;
use crate::guest::task::TaskId;
use crate::sim::sim;

/// The ops that the simulator calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Callback {
    SelectCpu,
    Enqueue,
    Dequeue,
    Dispatch,
    Tick,
    Runnable,
    Running,
    Stopping,
    Quiescent,
    Yield,
    SetWeight,
    SetCpumask,
    UpdateIdle,
    InitTask,
    ExitTask,
    Enable,
    Disable,
    CpuOnline,
    CpuOffline,
    Init,
    Exit,
    /// A bpf_timer's function.
    Timer,
}

/// What the calls of one callback did.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallbackCounts {
    pub calls: u64,
    pub kfuncs: u64,
    pub kfuncs_max: u64,
    pub iterations: u64,
    pub iterations_max: u64,
    /// Cache lines (src/bpf/lines.rs), if they are counted.
    pub lines: u64,
    pub lines_max: u64,
}

/// What the callback that runs on a vCPU has done so far.
#[derive(Debug, Default)]
pub struct Work {
    pub kfuncs: u64,
    pub iterations: u64,
    pub lines: Lines,
}

fn op(callback: Callback) -> *mut c_void {
    // SAFETY: the ops table is constant after load.
    let ops = unsafe { shim::vaware };
    match callback {
        Callback::SelectCpu => ops.select_cpu,
        Callback::Enqueue => ops.enqueue,
        Callback::Dequeue => ops.dequeue,
        Callback::Dispatch => ops.dispatch,
        Callback::Tick => ops.tick,
        Callback::Runnable => ops.runnable,
        Callback::Running => ops.running,
        Callback::Stopping => ops.stopping,
        Callback::Quiescent => ops.quiescent,
        Callback::Yield => ops.yield_,
        Callback::SetWeight => ops.set_weight,
        Callback::SetCpumask => ops.set_cpumask,
        Callback::UpdateIdle => ops.update_idle,
        Callback::InitTask => ops.init_task,
        Callback::ExitTask => ops.exit_task,
        Callback::Enable => ops.enable,
        Callback::Disable => ops.disable,
        Callback::CpuOnline => ops.cpu_online,
        Callback::CpuOffline => ops.cpu_offline,
        Callback::Init => ops.init,
        Callback::Exit => ops.exit,
        Callback::Timer => std::ptr::null_mut(),
    }
}

pub fn has(callback: Callback) -> bool {
    !op(callback).is_null()
}

/// The ops' flags, with those that the daemon sets (userspace/src/scheduler.rs).
pub fn ops_flags() -> u64 {
    const KEEP_BUILTIN_IDLE: u64 = 1;
    const ENQ_LAST: u64 = 1 << 1;
    const ENQ_MIGRATION_DISABLED: u64 = 1 << 4;
    // SAFETY: as in op().
    unsafe { shim::vaware.flags | KEEP_BUILTIN_IDLE | ENQ_LAST | ENQ_MIGRATION_DISABLED }
}

/// The kernel's pointer to a task.
pub fn pointer(t: TaskId) -> u64 {
    sim(|s| (&raw mut *s.task(t).raw) as u64)
}

/// Call a callback on the present vCPU, if the scheduler has it. Return what it returned, else 0.
pub fn call(callback: Callback, args: &[u64]) -> u64 {
    let op = op(callback);
    if op.is_null() {
        return 0;
    }
    let mut context = [0u64; 8];
    for (slot, arg) in context.iter_mut().zip(args) {
        *slot = *arg;
    }
    enclose(callback, || {
        // SAFETY: the scheduler's programs take their context, and read no more arguments than the
        // op has.
        unsafe {
            let program: extern "C" fn(*mut u64) -> u64 = std::mem::transmute(op);
            program(context.as_mut_ptr())
        }
    })
}

/// Run a program of the scheduler on the present vCPU as `callback`.
pub fn enclose(callback: Callback, program: impl FnOnce() -> u64) -> u64 {
    let (v, outer, cost) = sim(|s| {
        let v = s.current;
        let scx = &mut s.vcpus[v].scx;
        let outer = (scx.callback.replace(callback), std::mem::take(&mut scx.work));
        (v, outer, s.costs.callback_ns)
    });
    spend(cost);
    let result = program();
    sim(|s| {
        let scx = &mut s.vcpus[v].scx;
        let work = std::mem::replace(&mut scx.work, outer.1);
        scx.callback = outer.0;
        let lines = work.lines.count();
        let counts = s.bpf.counts.entry(callback).or_default();
        counts.calls += 1;
        counts.kfuncs += work.kfuncs;
        counts.kfuncs_max = counts.kfuncs_max.max(work.kfuncs);
        counts.iterations += work.iterations;
        counts.iterations_max = counts.iterations_max.max(work.iterations);
        counts.lines += lines;
        counts.lines_max = counts.lines_max.max(lines);
    });
    result
}
