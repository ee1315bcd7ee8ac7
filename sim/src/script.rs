// SPDX-License-Identifier: GPL-2.0-only
//! What happens to host and guest from outside at set times: vCPUs that are moved or stopped, changes
//! of tasks, hotplug, policy switches.

use crate::guest::attrs::{self, Change};
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
}

/// Perform the action of this number.
pub fn perform(index: usize) {
    sim(|s| {
        let Some((_, action)) = s.script.get(index).cloned() else { return };
        match action {
            Action::Pin { thread, pcpus } => s.pin_thread(thread, pcpus),
            Action::Change { by, .. } => {
                let now = s.now;
                s.arm_timer(by, now, Expiry::Script(index));
            }
        }
    });
}

/// Make the change of this number on the present vCPU.
pub fn apply(index: usize) {
    let change = sim(|s| match s.script.get(index) {
        Some((_, Action::Change { change, .. })) => Some(change.clone()),
        _ => None,
    });
    if let Some(change) = change {
        attrs::apply(change);
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
