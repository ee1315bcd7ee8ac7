// SPDX-License-Identifier: GPL-2.0-only
//! The control loop's one round: what is known of the vCPUs goes to the kernel half and to whoever
//! asks. The kernel half forgets it when no round follows within [`VALID`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use probers::claims::Claims;
use probers::snapshot::{CAPACITY_SCALE, Estimate, Group, Topology, VcpuSnapshot, Verdict};
use probers::vcpus::Vcpus;

use crate::bans::{self, Bans};
use crate::events::{Event, Priority, Round, Watch};
use crate::interrupts::Interrupts;
use crate::pace::PaceTaker;
use crate::probing::Probing;
use crate::restore::Restore;
use crate::retain::Retain;
use crate::scheduler::Scheduler;
use crate::shootdowns::Shootdowns;
use crate::telemetry::Telemetry;
use hints::gathering::Gathering;
use hints::levels::{Measured, levels};
use hints::reserve::{Reserve, keep_free};
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
    pace: PaceTaker,
    gathering: Gathering,
    reserve: Reserve,
    shootdowns: Shootdowns,
    retain: Retain,
    interrupts: Interrupts,
    watch: Watch,
    /// What the hypervisor claims of the topology, and of which online vCPUs it was read.
    claims: Claims,
    claimed_of: Vec<u32>,
}

impl Control {
    /// For a scheduler that was just loaded.
    pub fn new(probing: Probing) -> Self {
        let now = Instant::now();
        Self {
            probing,
            loaded: now,
            told: Vec::new(),
            told_at: now,
            bans: Bans::new(),
            pace: PaceTaker::default(),
            gathering: Gathering::default(),
            reserve: Reserve::default(),
            shootdowns: Shootdowns::default(),
            retain: Retain::default(),
            interrupts: Interrupts::default(),
            watch: Watch::default(),
            claims: Claims::default(),
            claimed_of: Vec::new(),
        }
    }

    /// The scheduler was attached again: its counters began at zero, and it has been told nothing.
    pub fn attached_again(&mut self) {
        let now = Instant::now();
        (self.loaded, self.told_at) = (now, now);
        self.pace = PaceTaker::default();
    }

    /// Go round once: the probers are told what was counted, the kernel half what was found out.
    /// What is changed of the system goes through `restore`, interrupts only if `moves_interrupts`.
    /// Return what an operator should hear of.
    ///
    /// # Errors
    /// What the kernel said of a map that was there at load.
    pub fn round(
        &mut self,
        scheduler: &mut Scheduler,
        telemetry: &Telemetry,
        moves_interrupts: bool,
        restore: &mut Restore,
    ) -> anyhow::Result<Vec<Event>> {
        let vcpus = Vcpus::read().ok();
        let online = vcpus.as_ref().map_or(&scheduler.vcpus().online, |vcpus| &vcpus.online);
        let elapsed_ns = self.loaded.elapsed().as_nanos() as u64;
        let stats = scheduler.stats()?;
        self.probing.tell(&stats, online, elapsed_ns);
        let failed = self.probing.tend(Instant::now());
        let snapshot = self.probing.latest();
        if self.claimed_of != *online {
            self.claims = Claims::read(online);
            self.claimed_of.clone_from(online);
        }
        let policies = scheduler.policies();
        let pace = self.pace.take(stats, scheduler.activity()?, &self.told);
        let in_the_way = self.retain.round(policies.retains(), &pace, restore);
        let banned = self.told.iter().filter(|vcpu| vcpu.banned()).count();
        let usable = online.len().saturating_sub(banned);
        let open = match policies.gathers() {
            true => self.gathering.round(usable, &pace),
            false => usize::MAX,
        };
        let facts = facts(online, snapshot.as_deref(), &self.claims);
        let mut told = plan(&facts, &self.told, open);
        if policies.reserves() && self.reserve.round(usable.min(open), &pace) {
            keep_free(&mut told, &self.told);
        }
        let confined = self.shootdowns.round(policies.confines(), scheduler, &mut told)?;
        telemetry.confined(confined);
        self.told = told;
        scheduler.set_inputs(&self.told, VALID)?;
        let held = self.told_at.elapsed().min(VALID);
        self.told_at = Instant::now();
        bans::account(&mut self.bans, held, &self.told, policies.bans());
        let open = self.told.iter().filter(|vcpu| !vcpu.banned() && !vcpu.parked).count();
        let reserve = self.told.iter().filter(|vcpu| vcpu.reserve).count();
        telemetry.blocking(reserve, self.retain.timeout());
        telemetry.gathered(open, policies.gathers().then(|| self.gathering.factors()));
        let news = failed.iter().map(|failed| &failed.news).chain(&in_the_way);
        let mut events: Vec<_> =
            news.map(|news| Event::new(Priority::Warning, news.as_str())).collect();
        let (bad, good): (Vec<_>, Vec<_>) =
            self.told.iter().partition(|vcpu| moves_interrupts && vcpu.banned());
        let numbers = |of: Vec<&VcpuHints>| of.iter().map(|vcpu| vcpu.vcpu).collect::<Vec<_>>();
        events.extend(self.interrupts.round(&numbers(bad), &numbers(good), restore));
        events.extend(self.watch.round(&Round {
            told: &self.told,
            bans: &self.bans,
            snapshot: snapshot.as_deref(),
            topology_problem: self.probing.topology_problem(),
        }));
        telemetry.beat(vcpus, snapshot, self.bans.clone(), &failed);
        Ok(events)
    }

    /// Go round once without a scheduler. Return what an operator should hear of.
    pub fn look_on(&mut self, telemetry: &Telemetry) -> Vec<Event> {
        let failed = self.probing.tend(Instant::now());
        telemetry.beat(Vcpus::read().ok(), self.probing.latest(), Bans::new(), &failed);
        failed.iter().map(|failed| Event::new(Priority::Warning, &*failed.news)).collect()
    }

    /// Go on with other probers, which know nothing yet.
    pub fn probe_anew(&mut self, probing: Probing) {
        self.probing = probing;
    }

    /// The youngest snapshot, unless it is stale.
    pub fn snapshot(&self) -> Option<Arc<VcpuSnapshot>> {
        self.probing.latest()
    }
}

/// What is known of the online vCPUs: what the snapshot is sure of, and neutral values elsewhere. Of
/// cores and caches the hypervisor's claims count while nothing has been found.
fn facts(online: &[u32], snapshot: Option<&VcpuSnapshot>, claims: &Claims) -> Vec<VcpuFacts> {
    let claimed = |mut fact: VcpuFacts, found: &Topology| {
        if found.cores.is_empty() {
            fact.core = claimed_group(&claims.cores, fact.vcpu).unwrap_or(fact.vcpu);
        }
        // Without a level of caches all vCPUs count as sharing one.
        if found.llcs.is_empty() && !claims.llcs.is_empty() {
            fact.llc = claimed_group(&claims.llcs, fact.vcpu).unwrap_or(fact.vcpu);
        }
        fact
    };
    let Some(snapshot) = snapshot else {
        let nothing = Topology::default();
        return online.iter().map(|&v| claimed(VcpuFacts::unknown(v), &nothing)).collect();
    };
    let topology = &snapshot.topology;
    let measured: Vec<_> = online.iter().map(|&vcpu| measured(snapshot, vcpu)).collect();
    let known = online.iter().zip(levels(&measured)).map(|(&vcpu, capacity_ratio)| {
        let verdict = snapshot.vcpu(vcpu).map_or(Verdict::Unknown, |vcpu| vcpu.verdict);
        let found = VcpuFacts {
            vcpu,
            capacity_1024: (capacity_ratio * CAPACITY_SCALE).round() as u32,
            straggler: verdict == Verdict::Straggler,
            stack: group_of(&topology.stacks, vcpu).unwrap_or(vcpu),
            core: group_of(&topology.cores, vcpu).unwrap_or(vcpu),
            llc: match topology.llcs.is_empty() {
                true => 0,
                false => group_of(&topology.llcs, vcpu).unwrap_or(vcpu),
            },
        };
        claimed(found, topology)
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

/// The lowest vCPU of the group that `vcpu` is claimed to be in.
fn claimed_group(groups: &[Vec<u32>], vcpu: u32) -> Option<u32> {
    groups.iter().find(|group| group.contains(&vcpu))?.first().copied()
}

/// The lowest vCPU of the group that `vcpu` is in, if the group is sure enough to act on.
fn group_of(groups: &[Group], vcpu: u32) -> Option<u32> {
    let group = groups.iter().find(|group| group.members.contains(&vcpu))?;
    group.is_trusted().then(|| group.members.first().copied())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::Activity;
    use crate::config::Config;
    use crate::simulated::snapshot;
    use crate::stats::{Stats, VcpuStats};
    use hints::pace::Pace;

    #[test]
    fn counters_that_begin_anew_are_not_compared_with_those_of_before() {
        let mut control = Control::new(Probing::new(Config::default().probing));
        let told = plan(&[VcpuFacts::unknown(0)], &[], 1);
        let take = |control: &mut Control, wakes| {
            let vcpu = VcpuStats { wakes: [wakes, 0, 0], ..VcpuStats::default() };
            control.pace.take(Stats { vcpus: vec![vcpu] }, vec![Activity::default()], &told)
        };
        take(&mut control, 1000);
        control.attached_again();
        assert_eq!(take(&mut control, 10), Pace::default());
        assert!(control.told_at == control.loaded);
    }

    #[test]
    fn without_a_snapshot_nothing_is_assumed() {
        let facts = facts(&[0, 3], None, &Claims::default());
        assert_eq!(facts, [VcpuFacts::unknown(0), VcpuFacts::unknown(3)]);
    }

    #[test]
    fn what_the_hypervisor_claims_counts_until_something_is_found() {
        let claims = Claims {
            cores: vec![vec![0, 1], vec![2, 3]],
            llcs: vec![vec![0, 1], vec![2, 3]],
            sockets: Vec::new(),
        };
        let groups =
            |facts: &[VcpuFacts]| facts.iter().map(|f| (f.core, f.llc)).collect::<Vec<_>>();
        let claimed = [(0, 0), (0, 0), (2, 2), (2, 2)];
        assert_eq!(groups(&facts(&[0, 1, 2, 3], None, &claims)), claimed);
        let mut snapshot = snapshot(4);
        snapshot.topology = Topology::default();
        assert_eq!(groups(&facts(&[0, 1, 2, 3], Some(&snapshot), &claims)), claimed);
        snapshot.topology.llcs = vec![Group { members: vec![0, 1, 2, 3], confidence: 0.9 }];
        assert!(facts(&[0, 3], Some(&snapshot), &claims).iter().all(|f| f.llc == 0));
    }

    #[test]
    fn a_snapshot_tells_capacity_stragglers_and_groups_of_online_vcpus() {
        let mut snapshot = snapshot(4);
        snapshot.vcpus[1].verdict = Verdict::Straggler;
        snapshot.topology.stacks = vec![Group { members: vec![1, 2], confidence: 0.9 }];
        snapshot.topology.cores = vec![Group { members: vec![0, 1], confidence: 0.1 }];
        snapshot.topology.llcs = vec![Group { members: vec![1, 2, 3], confidence: 0.9 }];
        let facts = facts(&[0, 1, 2], Some(&snapshot), &Claims::default());
        assert_eq!(facts.iter().map(|f| f.straggler).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(facts.iter().map(|f| f.stack).collect::<Vec<_>>(), [0, 1, 1]);
        assert_eq!(facts.iter().map(|f| f.core).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(facts.iter().map(|f| f.llc).collect::<Vec<_>>(), [0, 1, 1]);
        assert!(facts.iter().all(|f| (1..=1024).contains(&f.capacity_1024)));
    }
}
