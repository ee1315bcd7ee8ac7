// SPDX-License-Identifier: GPL-2.0-only
//! The control loop's one round: what is known of the vCPUs goes to the kernel half and to whoever
//! asks. The kernel half forgets it when no round follows within [`VALID`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use probers::snapshot::{CAPACITY_SCALE, Estimate, Group, VcpuSnapshot, Verdict};
use probers::vcpus::Vcpus;

use crate::bans::{self, Bans};
use crate::probing::{Failed, Probing};
use crate::scheduler::Scheduler;
use crate::telemetry::Telemetry;
use hints::levels::{Measured, levels};
use hints::{VcpuFacts, VcpuHints, plan};

/// How long the loop may sleep between rounds; each round wakes a vCPU.
pub const ROUND: Duration = Duration::from_secs(1);

/// How long what the kernel half is told counts: several rounds, for the daemon's own vCPU may be
/// stopped for seconds.
const VALID: Duration = Duration::from_secs(10);

/// The loop's memory from round to round.
pub struct Control {
    probing: Probing,
    loaded: Instant,
    told: Vec<VcpuHints>,
    told_at: Instant,
    bans: Bans,
}

impl Control {
    /// For a scheduler that was just loaded.
    pub fn new(probing: Probing) -> Self {
        let now = Instant::now();
        Self { probing, loaded: now, told: Vec::new(), told_at: now, bans: Bans::new() }
    }

    /// Go round once: the probers are told what was counted, the kernel half what was found out.
    /// Return the probers that have failed.
    ///
    /// # Errors
    /// What the kernel said of a map that was there at load.
    pub fn round(
        &mut self,
        scheduler: &mut Scheduler,
        telemetry: &Telemetry,
    ) -> anyhow::Result<Vec<Failed>> {
        let vcpus = Vcpus::read().ok();
        let online = vcpus.as_ref().map_or(&scheduler.vcpus().online, |vcpus| &vcpus.online);
        let elapsed_ns = self.loaded.elapsed().as_nanos() as u64;
        self.probing.tell(&scheduler.stats()?, online, elapsed_ns);
        let failed = self.probing.tend(Instant::now());
        let snapshot = self.probing.latest();
        self.told = plan(&facts(online, snapshot.as_deref()), &self.told);
        scheduler.set_inputs(&self.told, VALID)?;
        let held = self.told_at.elapsed().min(VALID);
        self.told_at = Instant::now();
        bans::account(&mut self.bans, held, &self.told, scheduler.policies().bans());
        telemetry.beat(vcpus, snapshot, self.bans.clone(), &failed);
        Ok(failed)
    }

    /// The youngest snapshot, unless it is stale.
    pub fn snapshot(&self) -> Option<Arc<VcpuSnapshot>> {
        self.probing.latest()
    }
}

/// What is known of the online vCPUs: what the snapshot is sure of, and neutral values elsewhere.
fn facts(online: &[u32], snapshot: Option<&VcpuSnapshot>) -> Vec<VcpuFacts> {
    let Some(snapshot) = snapshot else {
        return online.iter().copied().map(VcpuFacts::unknown).collect();
    };
    let topology = &snapshot.topology;
    let measured: Vec<_> = online.iter().map(|&vcpu| measured(snapshot, vcpu)).collect();
    let known = online.iter().zip(levels(&measured)).map(|(&vcpu, capacity_ratio)| {
        let verdict = snapshot.vcpu(vcpu).map_or(Verdict::Unknown, |vcpu| vcpu.verdict);
        VcpuFacts {
            vcpu,
            capacity_1024: (capacity_ratio * CAPACITY_SCALE).round() as u32,
            straggler: verdict == Verdict::Straggler,
            stack: group_of(&topology.stacks, vcpu).unwrap_or(vcpu),
            core: group_of(&topology.cores, vcpu).unwrap_or(vcpu),
            // Without a level of caches all vCPUs count as sharing one.
            llc: match topology.llcs.is_empty() {
                true => 0,
                false => group_of(&topology.llcs, vcpu).unwrap_or(vcpu),
            },
        }
    });
    known.collect()
}

/// The capacity of a vCPU, if it is sure enough to act on.
fn measured(snapshot: &VcpuSnapshot, vcpu: u32) -> Measured {
    let capacity = snapshot.vcpu(vcpu).and_then(|vcpu| vcpu.capacity);
    capacity.filter(Estimate::is_trusted).map_or(Measured::UNKNOWN, |capacity| Measured {
        ratio: capacity.value / CAPACITY_SCALE,
        error_ratio: capacity.error_ratio(),
    })
}

/// The lowest vCPU of the group that `vcpu` is in, if the group is sure enough to act on.
fn group_of(groups: &[Group], vcpu: u32) -> Option<u32> {
    let group = groups.iter().find(|group| group.members.contains(&vcpu))?;
    group.is_trusted().then(|| group.members.first().copied())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::snapshot;

    #[test]
    fn without_a_snapshot_nothing_is_assumed() {
        assert_eq!(facts(&[0, 3], None), [VcpuFacts::unknown(0), VcpuFacts::unknown(3)]);
    }

    #[test]
    fn a_snapshot_tells_capacity_stragglers_and_groups_of_online_vcpus() {
        let mut snapshot = snapshot(4);
        snapshot.vcpus[1].verdict = Verdict::Straggler;
        snapshot.topology.stacks = vec![Group { members: vec![1, 2], confidence: 0.9 }];
        snapshot.topology.cores = vec![Group { members: vec![0, 1], confidence: 0.1 }];
        snapshot.topology.llcs = vec![Group { members: vec![1, 2, 3], confidence: 0.9 }];
        let facts = facts(&[0, 1, 2], Some(&snapshot));
        assert_eq!(facts.iter().map(|f| f.straggler).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(facts.iter().map(|f| f.stack).collect::<Vec<_>>(), [0, 1, 1]);
        assert_eq!(facts.iter().map(|f| f.core).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(facts.iter().map(|f| f.llc).collect::<Vec<_>>(), [0, 1, 1]);
        assert!(facts.iter().all(|f| (1..=1024).contains(&f.capacity_1024)));
    }
}
