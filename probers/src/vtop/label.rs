// SPDX-License-Identifier: GPL-2.0-only
//! Which level is what: names for nested groups, by their order, their sizes and their ratios.
//!
//! Latencies alone say which vCPUs are close, not what they share. The rules below name the levels of
//! known machines; where a rule has little to go by, the confidence says so.

use super::partition::Partition;
use super::readings::{Reading, Readings, pair};
use super::structure::{Level, Structure};
use crate::snapshot::{Group, Topology};

/// Siblings exchange a line within their core; the next level is at least so much farther.
const SIBLING_GAP_RATIO: f64 = 1.9;

/// More than two threads a core exist (POWER, SPARC), but no guest is given them on x86-64 or arm64.
const SIBLINGS_MAX: usize = 2;

/// A pair of vCPUs with nothing to compare it with, and other guesses.
const GUESS: f64 = 0.4;

/// Other sockets lie at most so much farther from a cache, in logarithms, than the cache from its cores'
/// siblings: 0.3 to 1.0 on recorded machines with sockets, 1.5 and more between chiplets of one.
const SOCKET_REACH: f64 = 1.25;

/// Boards have 1, 2, 4 or 8 sockets.
const SOCKET_COUNTS: [usize; 3] = [2, 4, 8];

/// Name the levels of a structure that was inferred from these readings. `ids` are the kernel's numbers of the
/// vCPUs, ascending.
pub fn label(structure: &Structure, readings: &Readings, ids: &[u32]) -> Topology {
    let stack = |members: &[usize]| stack_confidence(readings, members);
    let mut topology =
        Topology { stacks: groups(&structure.stacks, ids, stack), ..Topology::default() };
    let Some(widest) = structure.levels.last() else {
        return topology;
    };
    let mut levels: &[Level] = &structure.levels;
    let mut siblings = None;
    if let [first, next, ..] = levels
        && are_cores(structure, first, next)
    {
        topology.cores = named(first, ids, 1.0);
        siblings = Some(first);
        levels = &levels[1..];
    }
    let guess = if levels.len() + usize::from(siblings.is_some()) < 2 { GUESS } else { 1.0 };
    topology.llcs = named(&levels[0], ids, guess);
    let (sockets, certainty) = sockets(structure, siblings, levels);
    topology.sockets = named(sockets.unwrap_or(widest), ids, certainty);
    topology
}

/// How sure a stack is: as its weakest link, where the strongest are taken that hold it together.
fn stack_confidence(readings: &Readings, members: &[usize]) -> f64 {
    let mut links = Vec::new();
    for (index, a) in members.iter().enumerate() {
        for b in &members[index + 1..] {
            if let Some(Reading::NeverTogether { confidence }) = readings.get(pair(*a, *b)) {
                links.push((confidence, *a, *b));
            }
        }
    }
    links.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut joined = Partition::singles(readings.nr_vcpus());
    let mut weakest = 0.0;
    for (confidence, a, b) in links {
        if !joined.together(a, b) {
            joined.join(a, b);
            weakest = confidence;
        }
    }
    weakest
}

/// Whether the groups of the closest level are cores: pairs, and closer than anything wider can be. A
/// line's way on a die grows with the square root of the cores that it joins; so where many cores are
/// hardly farther than the pairs, the pairs are no cores but tiles or clusters.
fn are_cores(structure: &Structure, first: &Level, next: &Level) -> bool {
    let pairs = places(&first.partition, structure);
    let reached = places(&next.partition, structure).into_iter().max().unwrap_or(1) as f64;
    let cores = reached / SIBLINGS_MAX as f64;
    pairs.into_iter().max() <= Some(SIBLINGS_MAX)
        && next.typical_ns >= first.typical_ns * SIBLING_GAP_RATIO.max(cores.sqrt() / 2.0)
}

/// Which level are sockets, none for the widest, and how sure that is. `levels` are those from the
/// last-level caches on.
fn sockets<'a>(
    structure: &Structure,
    siblings: Option<&Level>,
    levels: &'a [Level],
) -> (Option<&'a Level>, f64) {
    let count = |level: &Level| places(&level.partition, structure).len();
    match levels {
        [] | [_] => (None, GUESS.max(0.7)),
        // Caches and nothing else between them and the widest level: sockets, or chiplets in one. A
        // cache that spans a socket lies nearer to the other socket than to its own cores.
        [caches, widest] => {
            let outward = (widest.typical_ns / caches.typical_ns).ln();
            let are_sockets = SOCKET_COUNTS.contains(&count(caches));
            match siblings {
                Some(siblings) => {
                    let inward = SOCKET_REACH * (caches.typical_ns / siblings.typical_ns).ln();
                    let certainty = 0.5 + (outward - inward).abs().min(0.5);
                    (Some(caches).filter(|_| outward < inward && are_sockets), certainty)
                }
                None => (Some(caches).filter(|_| are_sockets), GUESS),
            }
        }
        [.., near, _] if SOCKET_COUNTS.contains(&count(near)) => (Some(near), 0.8),
        _ => (None, GUESS),
    }
}

/// The number of places (hardware threads in use) in each group.
fn places(partition: &Partition, structure: &Structure) -> Vec<usize> {
    let is_place = |vcpu: &&usize| structure.stacks.root(**vcpu) == **vcpu;
    let groups = partition.groups();
    groups.iter().map(|members| members.iter().filter(is_place).count()).collect()
}

fn named(level: &Level, ids: &[u32], certainty: f64) -> Vec<Group> {
    groups(&level.partition, ids, |_| certainty * level.agreement_ratio)
}

/// The groups of more than one.
fn groups(partition: &Partition, ids: &[u32], confidence: impl Fn(&[usize]) -> f64) -> Vec<Group> {
    let groups = partition.groups().into_iter().filter(|members| members.len() > 1);
    let named = |members: Vec<usize>| Group {
        confidence: confidence(&members),
        members: members.into_iter().map(|vcpu| ids[vcpu]).collect(),
    };
    groups.map(named).collect()
}
