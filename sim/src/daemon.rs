// SPDX-License-Identifier: GPL-2.0-only
//! The daemon's part: it tells the scheduler what it knows of the vCPUs. What follows from that is
//! decided by the daemon's own source.

use crate::bpf::shim;
use crate::guest::vcpu::VcpuId;
use crate::sim::Sim;
use hints::{VcpuFacts, plan};

impl Sim {
    /// Tell the scheduler the capacity of each vCPU, once and for all, before it is loaded.
    pub fn tell(&mut self, capacities_1024: &[u32]) {
        let fact = |(v, capacity_1024): (u32, &u32)| VcpuFacts {
            capacity_1024: *capacity_1024,
            ..VcpuFacts::unknown(v)
        };
        self.tell_facts(&(0..).zip(capacities_1024).map(fact).collect::<Vec<_>>());
    }

    /// The same of all that the daemon knows.
    pub fn tell_facts(&mut self, facts: &[VcpuFacts]) {
        for told in plan(facts, &[], usize::MAX) {
            if let Some(inputs) = self.inputs_of(told.vcpu as VcpuId) {
                // SAFETY: a value of the map is of this type.
                unsafe { *inputs = told.for_kernel(u64::MAX) };
                self.guest.config.hints_flags |= told.flags();
            }
        }
    }

    /// What the daemon says of vCPU `v`, to be written.
    pub fn inputs_of(&mut self, v: VcpuId) -> Option<*mut intf::vaware_hints> {
        let size = size_of::<intf::vaware_hints>() as u32;
        let address = (&raw const shim::vcpu_hints) as usize;
        Some(self.array(address, size).value_at(v as u32)?.cast())
    }
}
