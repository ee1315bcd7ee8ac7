// SPDX-License-Identifier: GPL-2.0-only
//! vtop on recorded machines and on simulated VMs that run on them.

mod machines;
mod recorded;
mod simulated;
mod vm;

use machines::{Sets, normal};
use probers::snapshot::Group;

/// The members of groups, in order.
fn members(groups: &[Group]) -> Sets {
    let set = |group: &Group| group.members.iter().map(|id| *id as usize).collect();
    normal(groups.iter().map(set).collect())
}
