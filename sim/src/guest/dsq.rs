// SPDX-License-Identifier: GPL-2.0-only
//! Dispatch queues: first in first out, or by virtual time (kernel/sched/ext.c: dispatch_enqueue).

use std::collections::VecDeque;

use super::task::{Place, TaskId};
use crate::sim::Sim;

/// A queue outside a vCPU.
#[derive(Default)]
pub struct Dsq {
    pub tasks: VecDeque<TaskId>,
    /// Ordered by virtual time; known from the first insertion while it has tasks.
    pub by_vtime: bool,
}

const ENQ_HEAD: u64 = 1 << 4;
const ENQ_PREEMPT: u64 = 1 << 32;
pub const ENQ_DSQ_PRIQ: u64 = 1 << 57;

impl Sim {
    /// Put `t` into the queue at `place`, as the flags say.
    pub fn queue_insert(&mut self, t: TaskId, place: Place, enq_flags: u64) {
        if self.tasks[t].place != Place::Nowhere {
            let was = self.tasks[t].place;
            self.violate(format!(
                "task {t} is inserted into {place:?} while it is in {was:?} already"
            ));
            return;
        }
        let by_vtime = enq_flags & ENQ_DSQ_PRIQ != 0;
        self.guest.insertions += 1;
        let insertion = self.guest.insertions;
        let vtime = self.tasks[t].raw.scx.dsq_vtime;
        if by_vtime && !matches!(place, Place::User(_)) {
            self.violate("vtime ordering is not for built-in DSQs (scx_bpf_dsq_insert_vtime)");
            return;
        }
        if let Place::User(id) = place {
            let Some(dsq) = self.guest.dsqs.get(&id) else {
                self.violate(format!("non-existent DSQ {id:#x} for task {t}"));
                return;
            };
            if !dsq.tasks.is_empty() && dsq.by_vtime != by_vtime {
                self.violate(format!("DSQ {id:#x} has both FIFO and vtime tasks"));
                return;
            }
        }
        let tasks = &self.tasks;
        let at = |queue: &VecDeque<TaskId>| {
            if by_vtime {
                queue.partition_point(|other| {
                    tasks[*other].raw.scx.dsq_vtime.wrapping_sub(vtime) as i64 <= 0
                })
            } else if enq_flags & (ENQ_HEAD | ENQ_PREEMPT) != 0 {
                0
            } else {
                queue.len()
            }
        };
        match place {
            Place::Local(v) => {
                let queue = &mut self.vcpus[v].scx.local;
                let index = at(queue);
                queue.insert(index, t);
            }
            Place::Global => {
                let index = at(&self.guest.global.tasks);
                self.guest.global.tasks.insert(index, t);
            }
            Place::User(id) => {
                if let Some(dsq) = self.guest.dsqs.get_mut(&id) {
                    dsq.by_vtime = by_vtime;
                    let index = at(&dsq.tasks);
                    dsq.tasks.insert(index, t);
                }
            }
            Place::Nowhere => {}
        }
        let task = self.task(t);
        task.place = place;
        task.insertion = insertion;
        task.ddsp = None;
        task.ops_state = super::task::OpsState::None;
    }

    pub fn queue_of(&mut self, place: Place) -> Option<&mut VecDeque<TaskId>> {
        match place {
            Place::Local(v) => Some(&mut self.vcpus[v].scx.local),
            Place::Global => Some(&mut self.guest.global.tasks),
            Place::User(id) => self.guest.dsqs.get_mut(&id).map(|dsq| &mut dsq.tasks),
            Place::Nowhere => None,
        }
    }

    /// Take `t` out of the queue that it is in.
    pub fn queue_remove(&mut self, t: TaskId) {
        let place = std::mem::replace(&mut self.task(t).place, Place::Nowhere);
        if let Some(queue) = self.queue_of(place)
            && let Some(index) = queue.iter().position(|other| *other == t)
        {
            queue.remove(index);
        }
    }
}
