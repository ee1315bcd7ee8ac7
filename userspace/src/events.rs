// SPDX-License-Identifier: GPL-2.0-only
//! What an operator should hear of, from one round of the control loop to the next: bans, the
//! topology. Facts in, sentences out.

use std::collections::{BTreeMap, BTreeSet};

use hints::VcpuHints;
use probers::snapshot::{Topology, VcpuSnapshot};
use probers::vcpus::format_list;

use crate::bans::Bans;

/// How much a sentence matters, as syslog(3) numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// The scheduler has ended, or cannot start.
    Error = 3,
    /// Something does not work, or not as it was asked for.
    Warning = 4,
    /// A change that an operator made, or that changes where work goes.
    Notice = 5,
    Info = 6,
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub priority: Priority,
    /// A sentence.
    pub text: String,
}

impl Event {
    pub fn new(priority: Priority, text: impl Into<String>) -> Self {
        Self { priority, text: text.into() }
    }
}

/// What a round of the control loop knows.
pub struct Round<'a> {
    /// What the kernel half was told, of which `bans` are in effect.
    pub told: &'a [VcpuHints],
    pub bans: &'a Bans,
    pub snapshot: Option<&'a VcpuSnapshot>,
    /// Why the topology cannot be looked at.
    pub topology_problem: Option<String>,
}

/// vCPUs or groups that one sentence names at most: 1024 vCPUs must not fill the log.
const NAMED: usize = 16;

/// A topology is reported when so many rounds have found it: groups come in one by one.
const SETTLED_ROUNDS: u32 = 3;

/// What was said last.
#[derive(Default)]
pub struct Watch {
    banned: BTreeSet<u32>,
    topology: Option<Topology>,
    /// One that differs, and for how many rounds.
    newer: Option<(Topology, u32)>,
    topology_problem: Option<String>,
}

impl Watch {
    /// What is new in this round.
    pub fn round(&mut self, now: &Round<'_>) -> Vec<Event> {
        let mut events = self.bans(now.told, now.bans);
        events.extend(now.snapshot.and_then(|found| self.topology(&found.topology)));
        events.extend(self.topology_problem(now.topology_problem.as_deref()));
        events
    }

    fn bans(&mut self, told: &[VcpuHints], bans: &Bans) -> Vec<Event> {
        let banned: BTreeSet<u32> =
            bans.iter().filter(|(_, ban)| ban.now).map(|(vcpu, _)| *vcpu).collect();
        let by_vcpu: BTreeMap<u32, &VcpuHints> =
            told.iter().map(|hints| (hints.vcpu, hints)).collect();
        let is_straggler = |vcpu: &u32| by_vcpu.get(vcpu).is_some_and(|hints| hints.straggler);
        let (stragglers, stacked): (Vec<u32>, Vec<u32>) =
            banned.difference(&self.banned).partition(|vcpu| is_straggler(vcpu));
        let capacity = |vcpu: &u32| {
            let capacity_1024 = by_vcpu.get(vcpu).map_or(0, |hints| hints.capacity_1024);
            format!("{vcpu} (capacity {:.2})", f64::from(capacity_1024) / 1024.0)
        };
        let ended = self.banned.difference(&banned);
        let sentences = [
            sentence(
                stragglers.iter().map(capacity),
                "banned from normal work, far slower than the others",
            ),
            sentence(
                stacked,
                "banned from normal work, on a hardware thread that another vCPU uses",
            ),
            sentence(ended, "back at normal work: the ban has ended"),
        ];
        self.banned = banned;
        sentences.into_iter().flatten().map(|text| Event::new(Priority::Notice, text)).collect()
    }

    fn topology(&mut self, found: &Topology) -> Option<Event> {
        found.age_s?;
        let found = trusted(found);
        if self.topology.as_ref().is_some_and(|said| said.same_groups(&found)) {
            self.newer = None;
            return None;
        }
        let rounds = match &self.newer {
            Some((newer, rounds)) if newer.same_groups(&found) => rounds + 1,
            _ => 1,
        };
        if rounds < SETTLED_ROUNDS {
            self.newer = Some((found, rounds));
            return None;
        }
        let verb = if self.topology.is_none() { "found" } else { "changed" };
        let event = Event::new(Priority::Notice, format!("topology {verb}: {}", describe(&found)));
        (self.topology, self.newer) = (Some(found), None);
        Some(event)
    }

    fn topology_problem(&mut self, why: Option<&str>) -> Option<Event> {
        if self.topology_problem.as_deref() == why {
            return None;
        }
        self.topology_problem = why.map(Into::into);
        Some(match why {
            Some(why) => Event::new(
                Priority::Warning,
                format!("the topology cannot be probed: {why}; it counts as unknown until it can"),
            ),
            None => Event::new(Priority::Info, "the topology is probed again"),
        })
    }
}

/// Which vCPUs are what; `None` for no vCPUs.
fn sentence<V: ToString>(vcpus: impl IntoIterator<Item = V>, are: &str) -> Option<String> {
    let named: Vec<String> = vcpus.into_iter().map(|vcpu| vcpu.to_string()).collect();
    match named.as_slice() {
        [] => None,
        [one] => Some(format!("vCPU {one} is {are}")),
        _ => Some(format!("vCPUs {} are {are}", first_of(&named))),
    }
}

fn first_of(names: &[String]) -> String {
    let first = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The groups that are sure enough to act on.
fn trusted(found: &Topology) -> Topology {
    let mut topology = found.clone();
    for groups in
        [&mut topology.stacks, &mut topology.cores, &mut topology.llcs, &mut topology.sockets]
    {
        groups.retain(|group| group.is_trusted());
    }
    topology
}

fn describe(topology: &Topology) -> String {
    let level = |(name, groups): (&str, &[probers::snapshot::Group])| {
        let members = groups.iter().map(|group| format_list(&group.members)).collect::<Vec<_>>();
        (!members.is_empty())
            .then(|| format!("{} of a {name} ({})", groups.len(), first_of(&members)))
    };
    let levels: Vec<_> = topology.levels().into_iter().filter_map(level).collect();
    match levels.as_slice() {
        [] => "no vCPUs share a thread, core or cache of their own".into(),
        levels => format!("groups that share: {}", levels.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hints::{VcpuFacts, plan};
    use probers::snapshot::Group;

    use super::*;
    use crate::bans::account;

    fn texts(events: &[Event]) -> Vec<&str> {
        events.iter().map(|event| event.text.as_str()).collect()
    }

    fn at(snapshot: Option<&VcpuSnapshot>) -> Round<'_> {
        const NO_BANS: &Bans = &Bans::new();
        Round { told: &[], bans: NO_BANS, snapshot, topology_problem: None }
    }

    /// A round in which these are stragglers among so many vCPUs.
    fn round(watch: &mut Watch, bans: &mut Bans, nr_vcpus: u32, stragglers: &[u32]) -> Vec<Event> {
        let fact = |vcpu| VcpuFacts {
            straggler: stragglers.contains(&vcpu),
            capacity_1024: if stragglers.contains(&vcpu) { 256 } else { 1024 },
            ..VcpuFacts::unknown(vcpu)
        };
        let told = plan(&(0..nr_vcpus).map(fact).collect::<Vec<_>>(), &[], usize::MAX);
        account(bans, Duration::from_secs(1), &told, true);
        watch.round(&Round { told: &told, bans, ..at(None) })
    }

    #[test]
    fn a_ban_is_told_when_it_begins_and_when_it_ends() {
        let (mut watch, mut bans) = (Watch::default(), Bans::new());
        assert_eq!(round(&mut watch, &mut bans, 4, &[]), []);
        let begun = round(&mut watch, &mut bans, 4, &[3]);
        assert_eq!(
            texts(&begun),
            ["vCPU 3 (capacity 0.25) is banned from normal work, far slower than the others"]
        );
        assert_eq!(round(&mut watch, &mut bans, 4, &[3]), []);
        let ended = round(&mut watch, &mut bans, 4, &[]);
        assert_eq!(texts(&ended), ["vCPU 3 is back at normal work: the ban has ended"]);
    }

    #[test]
    fn many_bans_are_one_line() {
        let (mut watch, mut bans) = (Watch::default(), Bans::new());
        let stragglers: Vec<u32> = (0..100).collect();
        let told = round(&mut watch, &mut bans, 1024, &stragglers);
        assert_eq!(told.len(), 1);
        assert!(told[0].text.len() < 500 && told[0].text.contains("and 84 more"), "{told:?}");
    }

    #[test]
    fn a_topology_is_told_when_it_has_settled_and_when_it_changes() {
        let group = |members: &[u32]| Group { members: members.to_vec(), confidence: 0.9 };
        let mut found = VcpuSnapshot::default();
        let mut watch = Watch::default();
        let mut rounds = |found: &VcpuSnapshot, number: u32| -> Vec<String> {
            let mut round = || watch.round(&at(Some(found)));
            (0..number).flat_map(|_| round()).map(|event| event.text).collect()
        };
        assert_eq!(rounds(&found, 9), [""; 0], "it was not probed yet");
        found.topology.age_s = Some(0.1);
        found.topology.cores = vec![group(&[0, 1]), group(&[2, 3])];
        assert_eq!(rounds(&found, SETTLED_ROUNDS - 1), [""; 0]);
        let mut other = found.clone();
        other.topology.stacks = vec![group(&[0, 2])];
        assert_eq!(rounds(&other, 1), [""; 0], "it has not settled");
        assert_eq!(
            rounds(&found, 9),
            ["topology found: groups that share: 2 of a core (0-1, 2-3)"]
        );
        other.topology.cores[0].confidence = 0.1;
        assert_eq!(
            rounds(&other, 9),
            ["topology changed: groups that share: 1 of a stack (0,2), 1 of a core (2-3)"]
        );
    }

    #[test]
    fn a_topology_that_cannot_be_probed_is_told_once() {
        let mut watch = Watch::default();
        let mut round = |why: Option<&str>| {
            let topology_problem = why.map(Into::into);
            watch.round(&Round { topology_problem, ..at(None) })
        };
        assert_eq!(round(None), []);
        let told = round(Some("no thread is granted"));
        assert!(told.len() == 1 && told[0].priority == Priority::Warning, "{told:?}");
        assert_eq!(round(Some("no thread is granted")), []);
        assert_eq!(texts(&round(None)), ["the topology is probed again"]);
    }
}
