// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's functions about queues: what may be called where is what the kernel would allow, and
//! what it would answer with an ejection is a violation.

use super::call::Callback;
use super::kfuncs::{enter, task_of};
use super::shim::{bpf_iter_scx_dsq, task_struct};
use crate::guest::dsq::{Dsq, ENQ_DSQ_PRIQ};
use crate::guest::scx::{DSQ_BUILTIN, DSQ_LOCAL_ON};
use crate::guest::task::{Place, TaskId};
use crate::guest::{scx, scx_dispatch};
use crate::sim::sim;

const EINVAL: i32 = 22;
const EEXIST: i32 = 17;
const ENOENT: i32 = 2;
const ITER_REV: u64 = 1 << 16;
const DISPATCH_MAX_BATCH: usize = 32;

/// A walk through a queue: its tasks as of the beginning; those that have left are passed over.
pub struct Iterator {
    dsq: u64,
    tasks: Vec<TaskId>,
    at: usize,
    /// Tasks inserted later are not part of the walk.
    insertion_limit: u64,
    slice: Option<u64>,
    vtime: Option<u64>,
}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_create_dsq(id: u64, _node: i32) -> i32 {
    enter();
    sim(|s| {
        if id & DSQ_BUILTIN != 0 {
            return -EINVAL;
        }
        if s.guest.dsqs.contains_key(&id) {
            return -EEXIST;
        }
        s.guest.dsqs.insert(id, Dsq::default());
        0
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_destroy_dsq(id: u64) {
    enter();
    sim(|s| {
        if s.guest.dsqs.remove(&id).is_some_and(|dsq| !dsq.tasks.is_empty()) {
            s.violate(format!("DSQ {id:#x} is destroyed with tasks in it"));
        }
    });
}

/// # Safety
/// `p` is a task of this simulation, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scx_bpf_dsq_insert(
    p: *mut task_struct,
    dsq: u64,
    slice: u64,
    flags: u64,
) -> bool {
    insert(p, dsq, slice, None, flags)
}

/// # Safety
/// `p` is a task of this simulation, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scx_bpf_dsq_insert_vtime(
    p: *mut task_struct,
    dsq: u64,
    slice: u64,
    vtime: u64,
    flags: u64,
) -> bool {
    insert(p, dsq, slice, Some(vtime), flags | ENQ_DSQ_PRIQ)
}

fn insert(p: *mut task_struct, dsq: u64, slice: u64, vtime: Option<u64>, flags: u64) -> bool {
    enter();
    let Some(t) = task_of(p) else { return false };
    sim(|s| {
        let v = s.current;
        let raw = &mut s.task(t).raw;
        if slice != 0 {
            raw.scx.slice = slice;
        } else if raw.scx.slice == 0 {
            raw.scx.slice = 1;
        }
        if let Some(vtime) = vtime {
            raw.scx.dsq_vtime = vtime;
        }
        match s.vcpu(v).scx.callback {
            Some(Callback::SelectCpu | Callback::Enqueue) => {
                if s.vcpu(v).scx.direct != Some(t) {
                    s.violate(format!("task {t} is inserted while another is being enqueued"));
                } else if s.tasks[t].ddsp.is_some() {
                    s.violate(format!("task {t} is inserted twice"));
                } else {
                    s.task(t).ddsp = Some((dsq, flags));
                    return true;
                }
            }
            Some(Callback::Dispatch) => {
                if s.vcpu(v).scx.buffer.len() >= DISPATCH_MAX_BATCH {
                    s.violate("the dispatch buffer overflows");
                } else {
                    s.vcpu(v).scx.buffer.push((t, dsq, flags));
                    return true;
                }
            }
            other => s.violate(format!("task {t} is inserted from {other:?}")),
        }
        false
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sim_dsq_move_to_local(dsq: u64, _flags: u64) -> bool {
    enter();
    let v = sim(|s| s.current);
    if sim(|s| s.vcpu(v).scx.callback != Some(Callback::Dispatch)) {
        sim(|s| s.violate("scx_bpf_dsq_move_to_local is for ops.dispatch"));
        return false;
    }
    scx_dispatch::flush(v);
    if sim(|s| !s.guest.dsqs.contains_key(&dsq)) {
        sim(|s| s.violate(format!("non-existent DSQ {dsq:#x}")));
        return false;
    }
    scx_dispatch::consume(v, Place::User(dsq))
}

/// The tasks of the queue that an id means to the present vCPU.
fn tasks_of(dsq: u64) -> Option<Vec<TaskId>> {
    sim(|s| {
        let v = s.current;
        let place = match dsq {
            scx::DSQ_LOCAL => Place::Local(v),
            _ if dsq & DSQ_LOCAL_ON == DSQ_LOCAL_ON => s.place_of(dsq, v)?,
            _ => Place::User(dsq),
        };
        s.queue_of(place).map(|queue| queue.iter().copied().collect())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_dsq_nr_queued(dsq: u64) -> i32 {
    enter();
    tasks_of(dsq).map_or(-ENOENT, |tasks| tasks.len() as i32)
}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_dsq_peek(dsq: u64) -> *mut task_struct {
    enter();
    match tasks_of(dsq) {
        Some(tasks) => {
            tasks.first().map_or(std::ptr::null_mut(), |t| sim(|s| &raw mut *s.task(*t).raw))
        }
        None => {
            sim(|s| s.violate(format!("peek into non-existent DSQ {dsq:#x}")));
            std::ptr::null_mut()
        }
    }
}

/// The number of a walk lies in the first word of the program's iterator; 0: the queue is missing.
fn number(it: *mut bpf_iter_scx_dsq) -> &'static mut u64 {
    // SAFETY: the iterator is on the program's stack for as long as the walk lasts.
    unsafe { &mut (*it).opaque[0] }
}

#[unsafe(no_mangle)]
pub extern "C" fn bpf_iter_scx_dsq_new(it: *mut bpf_iter_scx_dsq, dsq: u64, flags: u64) -> i32 {
    enter();
    *number(it) = 0;
    let Some(mut tasks) = tasks_of(dsq).filter(|_| dsq & DSQ_BUILTIN == 0) else {
        return -ENOENT;
    };
    if flags & ITER_REV != 0 {
        tasks.reverse();
    }
    sim(|s| {
        s.bpf.next_iterator += 1;
        let insertion_limit = s.guest.insertions;
        let walk = Iterator { dsq, tasks, at: 0, insertion_limit, slice: None, vtime: None };
        s.bpf.iterators.insert(s.bpf.next_iterator, walk);
        *number(it) = s.bpf.next_iterator;
    });
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn bpf_iter_scx_dsq_next(it: *mut bpf_iter_scx_dsq) -> *mut task_struct {
    enter();
    sim(|s| {
        let Some(walk) = s.bpf.iterators.get_mut(number(it)) else { return std::ptr::null_mut() };
        while let Some(t) = walk.tasks.get(walk.at).copied() {
            walk.at += 1;
            let task = &mut s.tasks[t];
            if task.place == Place::User(walk.dsq) && task.insertion <= walk.insertion_limit {
                return &raw mut *task.raw;
            }
        }
        std::ptr::null_mut()
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn bpf_iter_scx_dsq_destroy(it: *mut bpf_iter_scx_dsq) {
    sim(|s| s.bpf.iterators.remove(number(it)));
}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_dsq_move_set_slice(it: *mut bpf_iter_scx_dsq, slice: u64) {
    sim(|s| {
        if let Some(walk) = s.bpf.iterators.get_mut(number(it)) {
            walk.slice = Some(slice);
        }
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_dsq_move_set_vtime(it: *mut bpf_iter_scx_dsq, vtime: u64) {
    sim(|s| {
        if let Some(walk) = s.bpf.iterators.get_mut(number(it)) {
            walk.vtime = Some(vtime);
        }
    });
}

/// # Safety
/// `it` is a walk that has begun, `p` a task of this simulation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scx_bpf_dsq_move(
    it: *mut bpf_iter_scx_dsq,
    p: *mut task_struct,
    to: u64,
    flags: u64,
) -> bool {
    enter();
    let Some(t) = task_of(p) else { return false };
    let walk = sim(|s| {
        let walk = s.bpf.iterators.get_mut(number(it))?;
        Some((walk.dsq, walk.insertion_limit, walk.slice.take(), walk.vtime.take()))
    });
    let Some((from, limit, slice, vtime)) = walk else { return false };
    if sim(|s| s.tasks[t].place != Place::User(from)) {
        return false;
    }
    sim(|s| {
        let scx = &mut s.task(t).raw.scx;
        scx.slice = slice.unwrap_or(scx.slice);
        if flags & ENQ_DSQ_PRIQ != 0 {
            scx.dsq_vtime = vtime.unwrap_or(scx.dsq_vtime);
        }
    });
    scx_dispatch::move_task(from, limit, t, to, flags)
}

/// # Safety
/// `it` is a walk that has begun, `p` a task of this simulation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scx_bpf_dsq_move_vtime(
    it: *mut bpf_iter_scx_dsq,
    p: *mut task_struct,
    to: u64,
    flags: u64,
) -> bool {
    // SAFETY: the contract of this function.
    unsafe { scx_bpf_dsq_move(it, p, to, flags | ENQ_DSQ_PRIQ) }
}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_dispatch_nr_slots() -> u32 {
    sim(|s| (DISPATCH_MAX_BATCH - s.vcpus[s.current].scx.buffer.len()) as u32)
}

#[unsafe(no_mangle)]
pub extern "C" fn scx_bpf_dispatch_cancel() {
    sim(|s| {
        let v = s.current;
        s.vcpu(v).scx.buffer.pop();
    });
}
