// SPDX-License-Identifier: GPL-2.0-only
//! An ideal daemon: it knows from the beginning what the host gives to each vCPU, and which of them
//! share what, where the real one finds out within seconds. What follows from that is decided by the
//! daemon's own source.

use probers::snapshot::{Estimate, Vcpu, Verdict};
use probers::vcap::StragglerRule;

use crate::bpf::shim;
use crate::guest::vcpu::VcpuId;
use crate::host::{Host, Load, Thread, ThreadKind};
use crate::inputs::{Facts, plan};
use crate::sim::Sim;

impl Sim {
    /// Tell the scheduler of all vCPUs, once and for all.
    pub fn tell(&mut self) {
        for told in plan(&facts(&self.host, self.vcpus.len()), &[]) {
            if let Some(inputs) = self.inputs_of(told.vcpu as VcpuId) {
                // SAFETY: a value of the map is of this type.
                unsafe { *inputs = told.for_kernel(u64::MAX) };
            }
        }
    }

    /// What the daemon says of vCPU `v`, to be written.
    pub fn inputs_of(&mut self, v: VcpuId) -> Option<*mut shim::vaware_vcpu_inputs> {
        let size = size_of::<shim::vaware_vcpu_inputs>() as u32;
        let address = (&raw const shim::vcpu_inputs) as usize;
        Some(self.array(address, size).value_at(v as u32)?.cast())
    }
}

/// What there is to know of the vCPUs of `host`, the first `nr` of its threads.
fn facts(host: &Host, nr: usize) -> Vec<Facts> {
    let best = host.pcpus.iter().map(|pcpu| pcpu.speed_1024).max().unwrap_or(1);
    let vcpus = &host.threads[..nr];
    let first = |alike: &dyn Fn(&Thread) -> bool, own: VcpuId| {
        vcpus.iter().position(alike).unwrap_or(own) as u32
    };
    let mut facts: Vec<Facts> = vcpus
        .iter()
        .enumerate()
        .map(|(v, thread)| {
            let llcs = || thread.allowed.iter().map(|p| host.pcpus[*p].llc);
            let speed = thread.allowed.iter().map(|p| host.pcpus[*p].speed_1024).max();
            let share_1024 = (share(host, thread) * 1024.0) as u64;
            let mut fact = Facts::unknown(v as u32);
            fact.capacity_1024 = (share_1024 * speed.unwrap_or(best) / best) as u32;
            if llcs().min() == llcs().max() {
                fact.llc = llcs().min().unwrap_or(0) as u32;
            }
            if let [own] = thread.allowed[..] {
                let sibling = host.pcpus[own].sibling.unwrap_or(own);
                let on = |t: &Thread, p: usize| t.allowed == [p];
                fact.stack = first(&|t| on(t, own), v);
                fact.core = first(&|t| on(t, own) || on(t, sibling), v);
            }
            fact
        })
        .collect();
    let sure = |capacity: u32| Estimate { value: capacity.into(), age_s: 0.0, confidence: 1.0 };
    let online = |fact: &Facts| Vcpu {
        online: true,
        capacity: Some(sure(fact.capacity_1024)),
        ..Vcpu::default()
    };
    let mut vcpus: Vec<Vcpu> = facts.iter().map(online).collect();
    StragglerRule::default().judge(&mut vcpus);
    for (fact, vcpu) in facts.iter_mut().zip(vcpus) {
        fact.straggler = vcpu.verdict == Verdict::Straggler;
    }
    facts
}

/// The part of a pCPU that `thread` gets when all that compete with it want to run, 0 to 1.
fn share(host: &Host, thread: &Thread) -> f64 {
    let (mut left, mut weights) = (thread.allowed.len() as f64, 0.0);
    for other in &host.threads {
        if !other.allowed.iter().any(|p| thread.allowed.contains(p)) {
            continue;
        }
        let wants = match other.kind {
            ThreadKind::Vcpu(_) | ThreadKind::Competitor(Load::Always) => 1.0,
            ThreadKind::Competitor(
                Load::Duty { on_ns, off_ns, .. } | Load::Random { on_ns, off_ns },
            ) => on_ns as f64 / (on_ns + off_ns) as f64,
        };
        if other.realtime {
            left -= wants;
        } else {
            weights += wants * other.weight as f64;
        }
    }
    let fair = (left.max(0.0) * thread.weight as f64 / weights).min(1.0);
    let quota = thread.group.map(|group| {
        let members = host.threads.iter().filter(|other| other.group == Some(group)).count();
        let group = &host.groups[group];
        group.quota_ns as f64 / group.period_ns as f64 / members as f64
    });
    quota.map_or(fair, |quota| fair.min(quota))
}
