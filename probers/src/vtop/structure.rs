// SPDX-License-Identifier: GPL-2.0-only
//! From readings to nested groups, without a unit: only ratios of this machine's own latencies count.
//!
//! A hierarchy of caches shows in the edges of the minimum spanning tree: each level joins its groups
//! at about one latency, and the next level lies a gap away. Disturbance adds time, and a slow reading
//! is no edge of that tree where a faster path exists; so the tree shows gaps that the histogram of
//! all readings hides.

use std::collections::HashMap;

use super::partition::Partition;
use super::readings::{Pair, Reading, Readings};

/// Neighbouring levels lie at least so far apart. The closest of 24 recorded machines are 1.5 apart
/// (edge to edge); cores within one level spread over 1.3 in the tree.
const LEVEL_GAP_RATIO: f64 = 1.4;

/// Levels that are at least so far apart differ even if they look alike.
const CLEAR_GAP_RATIO: f64 = 1.9;

/// One level: vCPUs of one group reach each other at this level or a closer one.
#[derive(Clone, Debug)]
pub struct Level {
    pub partition: Partition,
    /// Median latency of the pairs that are together here and not on a closer level.
    pub typical_ns: f64,
    /// Latencies below belong to this level or a closer one.
    pub below_ns: f64,
    /// Part of the readings that lie on the side of `below_ns` where the groups say they do.
    pub agreement_ratio: f64,
}

/// The nested groups of a set of vCPUs.
#[derive(Clone, Debug)]
pub struct Structure {
    /// vCPUs on one hardware thread.
    pub stacks: Partition,
    /// Pairs that seem stacked, but others contradict it.
    pub contradicted: Vec<Pair>,
    /// From the closest level to the widest; stacks are together in all of them. Empty if no latency
    /// is known.
    pub levels: Vec<Level>,
}

impl Structure {
    /// The closest level on which two are together: 0 for a stack, `i + 1` for `levels[i]`, one more
    /// than there are levels if on none.
    pub fn depth(&self, a: usize, b: usize) -> usize {
        if self.stacks.together(a, b) {
            return 0;
        }
        let level = self.levels.iter().position(|level| level.partition.together(a, b));
        1 + level.unwrap_or(self.levels.len())
    }

    /// The level that a latency belongs to, as in [`Self::depth`].
    pub fn depth_of_latency(&self, ns: f64) -> usize {
        let last = self.levels.len();
        1 + self.levels.iter().position(|level| ns < level.below_ns).unwrap_or(last)
    }
}

/// Find the groups that explain the readings.
pub fn infer(readings: &Readings) -> Structure {
    let (stacks, contradicted) = stacks(readings);
    let places = Places::new(readings, &stacks);
    let mut levels: Vec<Level> = Vec::new();
    let mut partition = stacks.clone();
    let mut gap_below = f64::INFINITY;
    for Cut { below_ns, gap_ratio } in cuts(&places) {
        let before = levels.last().map_or(&stacks, |level| &level.partition).clone();
        places.join_below(&mut partition, below_ns);
        if partition.roots() != before.roots() {
            // Some slow readings of one level look like another, which leaves the groups as they are
            // and only adds more like them.
            if gap_below < CLEAR_GAP_RATIO && !any_grew(&stacks, &before, &partition) {
                levels.pop();
            }
            gap_below = gap_ratio;
            levels.push(Level {
                partition: partition.clone(),
                typical_ns: 0.0,
                below_ns,
                agreement_ratio: 0.0,
            });
        }
    }
    let mut structure = Structure { stacks, contradicted, levels };
    describe(&mut structure, &places);
    structure
}

/// Whether any group of more than one place has new places in `now`.
fn any_grew(stacks: &Partition, before: &Partition, now: &Partition) -> bool {
    let places = |partition: &Partition| {
        let mut places = vec![0; stacks.roots().len()];
        stacks.groups().iter().for_each(|stack| places[partition.root(stack[0])] += 1);
        places
    };
    let (were, are) = (places(before), places(now));
    (0..were.len()).any(|root| were[root] > 1 && are[now.root(root)] > were[root])
}

/// vCPUs that never ran together. Three that contradict each other (a never with b, a never with c,
/// but b with c) prove that one of the two is wrong, so that neither counts.
fn stacks(readings: &Readings) -> (Partition, Vec<Pair>) {
    let never = Partners::of(readings, |reading| matches!(reading, Reading::NeverTogether { .. }));
    let together = Partners::of(readings, |reading| matches!(reading, Reading::Latency { .. }));
    let mut stacks = Partition::singles(readings.nr_vcpus());
    let mut contradicted = Vec::new();
    for ((a, b), reading) in readings.iter() {
        if matches!(reading, Reading::NeverTogether { .. }) {
            let is_contradicted = never.meets(a, &together, b) || never.meets(b, &together, a);
            match is_contradicted {
                true => contradicted.push((a, b)),
                false => stacks.join(a, b),
            }
        }
    }
    (stacks, contradicted)
}

/// For each vCPU the set of those with which it has a reading of one kind, as bits, for it
/// takes the time of n^3 to look for contradictions.
struct Partners(Vec<Vec<u64>>);

impl Partners {
    fn of(readings: &Readings, is_kind: impl Fn(Reading) -> bool) -> Self {
        let words = readings.nr_vcpus().div_ceil(64);
        let mut sets = vec![vec![0; words]; readings.nr_vcpus()];
        for ((a, b), reading) in readings.iter() {
            if is_kind(reading) {
                sets[a][b / 64] |= 1u64 << (b % 64);
                sets[b][a / 64] |= 1u64 << (a % 64);
            }
        }
        Self(sets)
    }

    /// Whether a partner of `one` is among `others`, as a partner of `other`.
    fn meets(&self, one: usize, others: &Self, other: usize) -> bool {
        self.0[one].iter().zip(&others.0[other]).any(|(a, b)| a & b != 0)
    }
}

/// The latencies between places: a stack counts as one place.
struct Places {
    /// Ascending by latency.
    edges: Vec<(f64, usize, usize)>,
    neighbours: HashMap<usize, HashMap<usize, f64>>,
    nr_vcpus: usize,
}

impl Places {
    fn new(readings: &Readings, stacks: &Partition) -> Self {
        let mut neighbours: HashMap<usize, HashMap<usize, f64>> = HashMap::new();
        for ((a, b), reading) in readings.iter() {
            let (a, b) = (stacks.root(a), stacks.root(b));
            if let Reading::Latency { ns } = reading
                && a != b
            {
                for (from, to) in [(a, b), (b, a)] {
                    let kept = neighbours.entry(from).or_default().entry(to).or_insert(ns);
                    *kept = kept.min(ns);
                }
            }
        }
        let mut edges: Vec<_> = neighbours
            .iter()
            .flat_map(|(a, row)| row.iter().map(move |(b, ns)| (*ns, *a, *b)))
            .filter(|(_, a, b)| a < b)
            .collect();
        edges.sort_by(|one, two| one.0.total_cmp(&two.0).then((one.1, one.2).cmp(&(two.1, two.2))));
        Self { edges, neighbours, nr_vcpus: readings.nr_vcpus() }
    }

    /// The latencies at which groups join, ascending: the edges of the minimum spanning tree.
    fn joins_ns(&self) -> Vec<f64> {
        let mut partition = Partition::singles(self.nr_vcpus);
        let mut joins = Vec::new();
        for (ns, a, b) in &self.edges {
            if !partition.together(*a, *b) {
                partition.join(*a, *b);
                joins.push(*ns);
            }
        }
        joins
    }

    /// Join all that are closer than `below_ns`, unless most third parties tell them apart.
    fn join_below(&self, partition: &mut Partition, below_ns: f64) {
        for (_, a, b) in self.edges.iter().take_while(|(ns, _, _)| *ns < below_ns) {
            if !partition.together(*a, *b) && self.third_parties_agree(*a, *b, below_ns) {
                partition.join(*a, *b);
            }
        }
    }

    fn third_parties_agree(&self, a: usize, b: usize, below_ns: f64) -> bool {
        let (of_a, of_b) = (&self.neighbours[&a], &self.neighbours[&b]);
        let (mut both, mut one) = (0, 0);
        for (c, ac_ns) in of_a {
            if let Some(bc_ns) = of_b.get(c) {
                match (*ac_ns < below_ns, *bc_ns < below_ns) {
                    (true, true) => both += 1,
                    (false, false) => {}
                    _ => one += 1,
                }
            }
        }
        one <= both + 1
    }
}

struct Cut {
    /// Parts a level from the next wider one.
    below_ns: f64,
    /// How far that one is.
    gap_ratio: f64,
}

/// What parts levels from each other, ascending, and one above all.
fn cuts(places: &Places) -> Vec<Cut> {
    let joins = places.joins_ns();
    let gaps = joins
        .windows(2)
        .map(|two| Cut { below_ns: (two[0] * two[1]).sqrt(), gap_ratio: two[1] / two[0] });
    let mut cuts: Vec<Cut> = gaps.filter(|cut| cut.gap_ratio >= LEVEL_GAP_RATIO).collect();
    if !joins.is_empty() {
        cuts.push(Cut { below_ns: f64::INFINITY, gap_ratio: f64::INFINITY });
    }
    cuts
}

/// Fill in the latencies of each level, now that the groups are known.
fn describe(structure: &mut Structure, places: &Places) {
    let mut by_level: Vec<Vec<f64>> = vec![Vec::new(); structure.levels.len() + 1];
    for (ns, a, b) in &places.edges {
        by_level[structure.depth(*a, *b) - 1].push(*ns); // ascending, as the edges are
    }
    for (index, level) in structure.levels.iter_mut().enumerate() {
        let own = &by_level[index];
        level.typical_ns = quantile(own, 0.5).unwrap_or(level.below_ns);
        let wider = by_level[index + 1..].iter().find_map(|wider| quantile(wider, 0.1));
        if let (Some(inside_ns), Some(outside_ns)) = (quantile(own, 0.9), wider)
            && inside_ns < outside_ns
        {
            level.below_ns = (inside_ns * outside_ns).sqrt();
        }
        let below = |ns: &&f64| **ns < level.below_ns;
        let inside: usize =
            by_level[..=index].iter().map(|list| list.iter().filter(below).count()).sum();
        let outside: usize = by_level[index + 1..]
            .iter()
            .map(|list| list.iter().filter(|ns| !below(ns)).count())
            .sum();
        level.agreement_ratio = (inside + outside) as f64 / places.edges.len().max(1) as f64;
    }
}

/// A quantile of an ascending list.
fn quantile(ascending: &[f64], part: f64) -> Option<f64> {
    ascending.get(((ascending.len().saturating_sub(1)) as f64 * part).round() as usize).copied()
}
