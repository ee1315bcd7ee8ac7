// SPDX-License-Identifier: GPL-2.0-only
//! What happens to host and guest from outside at set times: vCPUs that are moved or stopped, changes
//! of tasks, hotplug, policy switches.

use crate::guest::attrs::{self, Change};
use crate::guest::core;
use crate::guest::timer::Expiry;
use crate::guest::vcpu::VcpuId;
use crate::host::{PcpuId, ThreadId};
use crate::sim::{Event, Ns, Sim, sim};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The host lets a thread run on these pCPUs only.
    Pin { thread: ThreadId, pcpus: Vec<PcpuId> },
    /// Somebody on vCPU `by` makes a change.
    Change { by: VcpuId, change: Change },
    /// A network interrupt on vCPU `by` gives a token to a semaphore: the network stack says of each
    /// wake-up that the waker is about to sleep, though it has none.
    Packet { by: VcpuId, semaphore: usize },
}

/// Perform the action of this number.
pub fn perform(index: usize) {
    sim(|s| {
        let Some((_, action)) = s.script.get(index).cloned() else { return };
        match action {
            Action::Pin { thread, pcpus } => s.pin_thread(thread, pcpus),
            Action::Change { by, .. } | Action::Packet { by, .. } => {
                let now = s.now;
                s.arm_timer(by, now, Expiry::Script(index));
            }
        }
    });
}

/// Do what the action of this number does on the present vCPU.
pub fn apply(index: usize) {
    match sim(|s| s.script.get(index).map(|(_, action)| action.clone())) {
        Some(Action::Change { change, .. }) => attrs::apply(change),
        Some(Action::Packet { semaphore, .. }) => {
            if let Some(waiter) = sim(|s| s.world.give(semaphore)) {
                core::wake(waiter, core::WAKE_SYNC);
            }
        }
        _ => {}
    }
}

impl Sim {
    /// Let `action` happen at `at`.
    pub fn plan(&mut self, at: Ns, action: Action) {
        self.script.push((at, action));
        let index = self.script.len() - 1;
        self.at(at, Event::Script(index));
    }
}
