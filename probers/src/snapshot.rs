// SPDX-License-Identifier: GPL-2.0-only
//! The one value that probing produces: what each vCPU is worth, and how the vCPUs lie to each other.
//!
//! Serialised as JSON it is the output of `scx_vaware probe --json`; `schema_version` grows when a key
//! changes its meaning or goes, not when one is added.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub const SCHEMA_VERSION: u32 = 1;

/// The capacity of a whole core of the best speed, as the kernel's `SCHED_CAPACITY_SCALE`.
pub const CAPACITY_SCALE: f64 = 1024.0;

/// From this confidence on a value is fit to decide on; below, act as if nothing were known.
pub const TRUSTED_CONFIDENCE: f64 = 0.5;

/// The standard error at which a share is worth nothing: its confidence is 0.
pub const USELESS_ERROR_RATIO: f64 = 0.25;

/// A capacity that moves by less than this part of a core is no change.
const CAPACITY_CHANGE_RATIO: f64 = 0.05;

/// A measured value; its unit is in the name of the field that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub value: f64,
    /// Time from the youngest measurement in it to the snapshot, in seconds.
    pub age_s: f64,
    /// 0 (a guess) to 1 (many fresh measurements that agree). Falls with age.
    pub confidence: f64,
}

impl Estimate {
    /// Whether it is fit to decide on.
    pub fn is_trusted(&self) -> bool {
        self.confidence >= TRUSTED_CONFIDENCE
    }

    /// The value, if it is fit to decide on.
    pub fn trusted(&self) -> Option<f64> {
        self.is_trusted().then_some(self.value)
    }

    /// Of a share: its confidence as a standard error, 0 to [`USELESS_ERROR_RATIO`].
    pub fn error_ratio(&self) -> f64 {
        (1.0 - self.confidence) * USELESS_ERROR_RATIO
    }
}

/// What is thought of a vCPU as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Too little is known.
    #[default]
    Unknown,
    /// Worth a core, or nearly.
    Good,
    /// Worth clearly less than a core.
    Reduced,
    /// Worth so much less than the others that normal work should stay away.
    Straggler,
    Offline,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Unknown => "unknown",
            Self::Good => "good",
            Self::Reduced => "reduced",
            Self::Straggler => "straggler",
            Self::Offline => "offline",
        })
    }
}

/// One vCPU. What was not measured is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Vcpu {
    /// The kernel's number.
    pub id: u32,
    pub online: bool,
    pub verdict: Verdict,
    /// Share times speed: 0 to [`CAPACITY_SCALE`].
    pub capacity: Option<Estimate>,
    /// How much of the wall time in which it had work it really ran, 0 to 1.
    pub share_ratio: Option<Estimate>,
    /// Speed while it runs, relative to the best vCPU of this VM, 0 to 1.
    pub speed_ratio: Option<Estimate>,
    /// Part of the wall time that was taken from it, 0 to 1. Small when it is idle, whatever its share.
    pub stolen_ratio: Option<Estimate>,
    /// From a timer's expiry on the halted vCPU to the first instruction of the woken thread, median.
    pub wakeup_latency_ns: Option<Estimate>,
    /// Lengths of the periods in which it ran without a stop.
    pub active_p50_ns: Option<Estimate>,
    pub active_p95_ns: Option<Estimate>,
    /// Lengths of the periods for which it was stopped.
    pub inactive_p50_ns: Option<Estimate>,
    pub inactive_p95_ns: Option<Estimate>,
    /// Part of the wall time that bursts of work have used on it since probing began, 0 to 1; the topology
    /// probe keeps to the same bound by itself.
    pub probe_ratio: f64,
    /// Why something could not be measured here, as a sentence.
    pub note: Option<String>,
}

/// vCPUs that belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Their numbers, ascending.
    pub members: Vec<u32>,
    /// 0 to 1, as in [`Estimate`].
    pub confidence: f64,
}

impl Group {
    /// Whether it is fit to decide on.
    pub fn is_trusted(&self) -> bool {
        self.confidence >= TRUSTED_CONFIDENCE
    }
}

/// How the vCPUs lie to each other, from the closest level to the widest. In each level a vCPU is in one
/// group at most; groups of one are left out; an empty level holds no such group, or none was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// vCPUs that share one hardware thread, so that only one of them runs at a time.
    pub stacks: Vec<Group>,
    /// vCPUs on the hardware threads of one core.
    pub cores: Vec<Group>,
    /// vCPUs that share a last-level cache.
    pub llcs: Vec<Group>,
    pub sockets: Vec<Group>,
    /// Time from the probe to the snapshot in seconds; `None` if the topology was not probed.
    pub age_s: Option<f64>,
}

impl Topology {
    /// The stacks that are sure enough to act on; a stack becomes that with time.
    pub fn sure_stacks(&self) -> impl Iterator<Item = &Group> {
        self.stacks.iter().filter(|stack| stack.is_trusted())
    }

    /// The levels by name, closest first.
    pub fn levels(&self) -> [(&'static str, &[Group]); 4] {
        [
            ("stack", &self.stacks),
            ("core", &self.cores),
            ("llc", &self.llcs),
            ("socket", &self.sockets),
        ]
    }

    /// How many vCPUs are sure to share a hardware thread with another one.
    pub fn nr_stacked(&self) -> usize {
        self.sure_stacks().map(|stack| stack.members.len()).sum()
    }

    /// Of each sure stack all vCPUs but the first: without them the others would have a thread each.
    pub fn spare(&self) -> impl Iterator<Item = u32> {
        self.sure_stacks().flat_map(|stack| stack.members.iter().skip(1).copied())
    }

    /// Whether both say the same, whatever their age and confidence.
    pub fn same_groups(&self, other: &Self) -> bool {
        self.levels().iter().zip(other.levels()).all(|((_, ours), (_, theirs))| {
            let members = |groups: &[Group]| {
                let mut lists: Vec<_> = groups.iter().map(|group| group.members.clone()).collect();
                lists.sort();
                lists
            };
            members(ours) == members(theirs)
        })
    }
}

/// What was found out about the vCPUs of this VM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VcpuSnapshot {
    pub schema_version: u32,
    /// Milliseconds since the epoch.
    pub taken_at_unix_ms: u64,
    /// `CLOCK_MONOTONIC`, by which a reader on this machine tells the snapshot's age.
    pub taken_at_ns: u64,
    /// All possible vCPUs, by ascending number; numbers need not be contiguous.
    pub vcpus: Vec<Vcpu>,
    pub topology: Topology,
    /// Sum of the shares of the online vCPUs that are known: so many whole cores the VM gets.
    pub effective_vcpus: Option<Estimate>,
    /// Where shares come from, such as "probe" or "scheduler".
    pub source: String,
    /// The bound on `probe_ratio`; 0: nothing was probed actively.
    pub probe_budget_ratio: f64,
    /// What could not be seen, as sentences.
    pub notes: Vec<String>,
}

impl Default for VcpuSnapshot {
    /// One in which nothing was found.
    fn default() -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            taken_at_unix_ms: 0,
            taken_at_ns: 0,
            vcpus: Vec::new(),
            topology: Topology::default(),
            effective_vcpus: None,
            source: String::new(),
            probe_budget_ratio: 0.0,
            notes: Vec::new(),
        }
    }
}

impl VcpuSnapshot {
    /// The vCPU with this number.
    pub fn vcpu(&self, id: u32) -> Option<&Vcpu> {
        self.vcpus.binary_search_by_key(&id, |vcpu| vcpu.id).ok().map(|index| &self.vcpus[index])
    }

    /// The numbers of the stragglers.
    pub fn stragglers(&self) -> impl Iterator<Item = u32> {
        self.vcpus.iter().filter(|vcpu| vcpu.verdict == Verdict::Straggler).map(|vcpu| vcpu.id)
    }

    /// What is different in `newer`.
    pub fn diff(&self, newer: &Self) -> SnapshotDiff {
        let old: BTreeMap<u32, &Vcpu> = self.vcpus.iter().map(|vcpu| (vcpu.id, vcpu)).collect();
        let offline = Vcpu::default();
        let vcpus = newer.vcpus.iter().filter_map(|now| {
            let then = old.get(&now.id).copied().unwrap_or(&offline);
            VcpuChange::between(then, now)
        });
        SnapshotDiff {
            vcpus: vcpus.collect(),
            topology: !self.topology.same_groups(&newer.topology),
        }
    }
}

/// What is different between two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotDiff {
    pub vcpus: Vec<VcpuChange>,
    /// Whether any group differs.
    pub topology: bool,
}

impl SnapshotDiff {
    /// Whether there is nothing to react to.
    pub fn is_empty(&self) -> bool {
        self.vcpus.is_empty() && !self.topology
    }
}

/// How one vCPU changed; pairs are (before, after).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VcpuChange {
    pub id: u32,
    pub online: (bool, bool),
    pub verdict: (Verdict, Verdict),
    /// The trusted capacity, if there is one.
    pub capacity: (Option<f64>, Option<f64>),
}

impl VcpuChange {
    fn between(then: &Vcpu, now: &Vcpu) -> Option<Self> {
        let capacity = |vcpu: &Vcpu| vcpu.capacity.and_then(|capacity| capacity.trusted());
        let change = Self {
            id: now.id,
            online: (then.online, now.online),
            verdict: (then.verdict, now.verdict),
            capacity: (capacity(then), capacity(now)),
        };
        let moved = match change.capacity {
            (Some(then), Some(now)) => (now - then).abs() >= CAPACITY_CHANGE_RATIO * CAPACITY_SCALE,
            (then, now) => then.is_some() != now.is_some(),
        };
        let differs =
            change.online.0 != change.online.1 || change.verdict.0 != change.verdict.1 || moved;
        differs.then_some(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, confidence: f64) -> Option<Estimate> {
        Some(Estimate { value, age_s: 0.5, confidence })
    }

    fn snapshot(vcpus: Vec<Vcpu>) -> VcpuSnapshot {
        VcpuSnapshot {
            taken_at_ns: 2,
            vcpus,
            effective_vcpus: estimate(1.5, 0.9),
            source: "probe".into(),
            notes: vec!["no steal clock".into()],
            ..VcpuSnapshot::default()
        }
    }

    fn vcpu(id: u32, capacity: Option<Estimate>) -> Vcpu {
        Vcpu { id, online: true, verdict: Verdict::Good, capacity, ..Vcpu::default() }
    }

    #[test]
    fn json_gives_back_what_was_written() {
        let mut written = snapshot(vec![vcpu(0, estimate(700.0, 0.8)), vcpu(5, None)]);
        written.topology.stacks.push(Group { members: vec![0, 5], confidence: 0.7 });
        let text = serde_json::to_string(&written).unwrap_or_default();
        assert!(text.contains("\"schema_version\":1"), "{text}");
        assert_eq!(serde_json::from_str(&text).ok(), Some(written));
    }

    #[test]
    fn equal_and_nearly_equal_snapshots_do_not_differ() {
        let old = snapshot(vec![vcpu(0, estimate(700.0, 0.8))]);
        let mut new = snapshot(vec![vcpu(0, estimate(720.0, 0.6))]);
        new.taken_at_ns = 99;
        assert!(old.diff(&new).is_empty());
    }

    #[test]
    fn each_kind_of_change_is_seen() {
        let old = snapshot(vec![vcpu(0, estimate(700.0, 0.8)), vcpu(1, None), vcpu(2, None)]);
        let mut new = old.clone();
        new.vcpus[0].capacity = estimate(300.0, 0.8);
        new.vcpus[1].verdict = Verdict::Straggler;
        new.vcpus[2].online = false;
        new.topology.llcs.push(Group { members: vec![0, 1], confidence: 0.9 });
        let diff = old.diff(&new);
        assert_eq!(diff.vcpus.iter().map(|change| change.id).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(diff.vcpus[0].capacity, (Some(700.0), Some(300.0)));
        assert!(diff.topology);
    }

    #[test]
    fn the_order_of_groups_is_no_difference() {
        let group = |members: &[u32]| Group { members: members.to_vec(), confidence: 0.5 };
        let one = Topology { cores: vec![group(&[0, 1]), group(&[2, 3])], ..Topology::default() };
        let two = Topology { cores: vec![group(&[2, 3]), group(&[0, 1])], ..Topology::default() };
        assert!(one.same_groups(&two));
        assert!(!one.same_groups(&Topology::default()));
    }
}
