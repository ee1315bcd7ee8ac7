// SPDX-License-Identifier: GPL-2.0-only
//! Which pairs to probe: few, and many at the same time.
//!
//! Groups are told apart by a reading or two between any of their members, and joined by one; what is
//! known of one member holds for all (parallel equivalence-class sorting, Devanny et al., SPAA 2016).
//! With k groups of a level, n vCPUs take in the order of n*k probes, whatever their order, and about
//! n if neighbours by number belong together.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::partition::Partition;
use super::readings::{LatencySource, Pair, Patience, Reading, Readings, pair};
use super::structure::{Structure, infer};

/// A pair that could not be told is asked about so often.
const ATTEMPTS_MAX: usize = 5;

/// A closer level among equals is looked for with so many partners of each vCPU at most: were there
/// siblings, chance would have shown one of n/2 pairs with a probability of 1 - exp(-64/2).
const PARTNERS_MAX: usize = 64;

/// Pairs that have met so many others without growing are whole: no core has a third thread, and stacks
/// would have shown by then.
const PAIR_IS_WHOLE_AFTER: usize = 16;

/// From so many vCPUs on, several rounds are planned at once.
const VCPUS_A_ROUND: usize = 128;

/// What probing took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub probes: usize,
    /// Pairs that were probed at the same time count as one round.
    pub rounds: usize,
}

/// Probe what is not known yet, until all groups are told apart or the source has had enough.
///
/// `hints` are pairs that are likely to be close, such as the siblings by CPUID or by the last result;
/// they are probed first. They cost a probe each if wrong and never lead to a wrong group.
pub fn complete(
    source: &mut dyn LatencySource,
    readings: &mut Readings,
    hints: &[Pair],
    cost: &mut Cost,
) -> Structure {
    let mut attempts = Attempts::default();
    probe_all(source, readings, hints, cost, &mut attempts);
    let nr_vcpus = readings.nr_vcpus();
    loop {
        let structure = infer(readings);
        let mut questions = Questions::new(&structure, readings, &attempts, cost.rounds);
        let rounds = 1 + nr_vcpus / VCPUS_A_ROUND;
        let mut wanted: Vec<Vec<Pair>> =
            (0..rounds).map(|_| questions.round()).take_while(|round| !round.is_empty()).collect();
        if wanted.is_empty() {
            let open = structure.contradicted.iter().filter(|pair| !attempts.are_used_up(**pair));
            wanted = disjoint_rounds(&open.copied().collect::<Vec<Pair>>());
        }
        if wanted.is_empty() || source.is_exhausted() {
            return structure;
        }
        for round in wanted {
            if source.is_exhausted() {
                break;
            }
            probe_round(source, readings, &round, cost, &mut attempts);
        }
    }
}

/// Probe all of these pairs that are not known, in as few rounds as is easy.
pub fn probe_all(
    source: &mut dyn LatencySource,
    readings: &mut Readings,
    pairs: &[Pair],
    cost: &mut Cost,
    attempts: &mut Attempts,
) {
    for round in disjoint_rounds(pairs) {
        let unknown: Vec<Pair> =
            round.into_iter().filter(|pair| readings.get(*pair).is_none()).collect();
        if !unknown.is_empty() && !source.is_exhausted() {
            probe_round(source, readings, &unknown, cost, attempts);
        }
    }
}

/// Put each pair into the first round in which both are free.
pub fn disjoint_rounds(pairs: &[Pair]) -> Vec<Vec<Pair>> {
    let mut rounds: Vec<Vec<Pair>> = Vec::new();
    let mut next_free: HashMap<usize, HashSet<usize>> = HashMap::new();
    for (a, b) in pairs {
        let busy = |round: &usize| {
            [a, b].iter().any(|v| next_free.get(v).is_some_and(|busy| busy.contains(round)))
        };
        let round = (0..=rounds.len()).find(|round| !busy(round)).unwrap_or(rounds.len());
        if round == rounds.len() {
            rounds.push(Vec::new());
        }
        rounds[round].push((*a, *b));
        for vcpu in [a, b] {
            next_free.entry(*vcpu).or_default().insert(round);
        }
    }
    rounds
}

fn probe_round(
    source: &mut dyn LatencySource,
    readings: &mut Readings,
    round: &[Pair],
    cost: &mut Cost,
    attempts: &mut Attempts,
) {
    for (pair, reading) in round.iter().zip(source.probe(round, Patience::Proof)) {
        readings.record(*pair, reading);
        attempts.count(*pair);
    }
    cost.probes += round.len();
    cost.rounds += 1;
}

/// How often each pair was probed.
#[derive(Default)]
pub struct Attempts(HashMap<Pair, usize>);

impl Attempts {
    fn count(&mut self, pair: Pair) {
        *self.0.entry(pair).or_default() += 1;
    }

    fn are_used_up(&self, pair: Pair) -> bool {
        self.0.get(&pair).is_some_and(|count| *count >= ATTEMPTS_MAX)
    }
}

/// The groups of one level within one group of the next wider level.
struct Siblings {
    /// Each with its members, all of them if they are places of their own.
    groups: Vec<Vec<usize>>,
    /// Number of readings between two of the groups.
    known: HashMap<Pair, usize>,
    /// How many of the others each group has been compared with.
    partners: Vec<usize>,
    kind: Kind,
    /// Few of many have found a partner, so that it is not worth while to go on for all.
    pairs_are_rare: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Places of one group of the closest level: closer ones may hide among them.
    Places,
    /// Pairs and single places, as siblings of a core are, and no stacks among them.
    Pairs {
        whole_after: usize,
    },
    Groups,
}

/// What is not known yet of a structure.
struct Questions<'a> {
    readings: &'a Readings,
    attempts: &'a Attempts,
    /// From the widest level to the closest.
    siblings: Vec<Siblings>,
    asked: HashSet<Pair>,
    turn: usize,
}

impl<'a> Questions<'a> {
    fn new(
        structure: &Structure,
        readings: &'a Readings,
        attempts: &'a Attempts,
        turn: usize,
    ) -> Self {
        let all = vec![(0..readings.nr_vcpus()).collect::<Vec<usize>>()];
        let mut siblings = Vec::new();
        let mut parents = all;
        for (index, level) in structure.levels.iter().enumerate().rev() {
            let kind = match structure.levels.len() - index {
                _ if index > 0 || !are_bare_pairs(structure) => Kind::Groups,
                // Of two levels the pairs may be beginnings of caches.
                1 | 2 => Kind::Pairs { whole_after: PARTNERS_MAX },
                _ => Kind::Pairs { whole_after: PAIR_IS_WHOLE_AFTER },
            };
            siblings.extend(split(&parents, &level.partition, kind));
            parents = level.partition.groups();
        }
        siblings.extend(split(&parents, &structure.stacks, Kind::Places));
        let mut questions = Self { readings, attempts, siblings, asked: HashSet::new(), turn };
        questions.count_known();
        questions
    }

    fn count_known(&mut self) {
        let mut index = HashMap::new();
        for (set, siblings) in self.siblings.iter().enumerate() {
            for (group, members) in siblings.groups.iter().enumerate() {
                for member in members {
                    index.entry(*member).or_insert_with(Vec::new).push((set, group));
                }
            }
        }
        for ((a, b), reading) in self.readings.iter() {
            if reading == Reading::Undecided && !self.attempts.are_used_up((a, b)) {
                continue;
            }
            for (set, of_a) in index.get(&a).into_iter().flatten() {
                let of_b = index.get(&b).into_iter().flatten().find(|(other, _)| other == set);
                if let Some((_, of_b)) = of_b
                    && of_a != of_b
                {
                    let siblings = &mut self.siblings[*set];
                    let known = siblings.known.entry(pair(*of_a, *of_b)).or_default();
                    if *known == 0 {
                        siblings.partners[*of_a] += 1;
                        siblings.partners[*of_b] += 1;
                    }
                    *known += 1;
                }
            }
        }
    }

    /// Pairs to probe at the same time; none if nothing is open.
    fn round(&mut self) -> Vec<Pair> {
        let mut free = vec![true; self.readings.nr_vcpus()];
        let mut round = Vec::new();
        self.turn += 1;
        for siblings in &self.siblings {
            let count = siblings.groups.len();
            for step in 0..count / 2 {
                let offset = 1 + (step + self.turn) % (count / 2);
                for one in 0..count {
                    let other = (one + offset) % count;
                    if one != other
                        && siblings.is_open(one, other)
                        && let Some(chosen) = self.choose(siblings, one, other, &free)
                        && self.asked.insert(chosen)
                    {
                        free[chosen.0] = false;
                        free[chosen.1] = false;
                        round.push(chosen);
                    }
                }
            }
        }
        round
    }

    /// A free pair between two groups that has not been probed.
    fn choose(&self, siblings: &Siblings, one: usize, other: usize, free: &[bool]) -> Option<Pair> {
        let unknown = |pair: &Pair| match self.readings.get(*pair) {
            None => !self.asked.contains(pair),
            Some(Reading::Undecided) => {
                !self.attempts.are_used_up(*pair) && !self.asked.contains(pair)
            }
            Some(_) => false,
        };
        let candidates = |group: usize| {
            let members = &siblings.groups[group];
            let start = self.turn % members.len();
            members.iter().cycle().skip(start).take(members.len()).filter(|v| free[**v]).take(4)
        };
        candidates(one)
            .flat_map(|a| candidates(other).map(move |b| pair(*a, *b)))
            .find(|pair| unknown(pair))
    }
}

impl Siblings {
    /// Whether two groups have yet to be told apart.
    fn is_open(&self, one: usize, other: usize) -> bool {
        let sizes = (self.groups[one].len(), self.groups[other].len());
        let known = self.known.get(&pair(one, other)).copied().unwrap_or(0);
        let weary = |group: usize| self.partners[group] >= PARTNERS_MAX;
        match self.kind {
            Kind::Groups => known < (sizes.0 * sizes.1).min(2),
            Kind::Places => known == 0 && !weary(one) && !weary(other),
            Kind::Pairs { whole_after } => {
                let whole =
                    |group: usize, size: usize| size > 1 && self.partners[group] >= whole_after;
                known == 0
                    && !(whole(one, sizes.0) && whole(other, sizes.1))
                    && !(self.pairs_are_rare && weary(one) && weary(other))
            }
        }
    }
}

/// Whether the closest level has no group of more than two vCPUs, and no vCPUs are stacked: were there
/// stacks, any two cores could be the same.
fn are_bare_pairs(structure: &Structure) -> bool {
    let nr_vcpus = structure.stacks.roots().len();
    structure.stacks.groups().len() == nr_vcpus
        && structure.levels[0].partition.groups().iter().all(|members| members.len() <= 2)
}

/// For each of the wider groups, the groups that `partition` makes of it, if more than one.
fn split(wider: &[Vec<usize>], partition: &Partition, kind: Kind) -> Vec<Siblings> {
    let split = wider.iter().filter_map(|members| {
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for member in members {
            groups.entry(partition.root(*member)).or_default().push(*member);
        }
        let groups: Vec<Vec<usize>> = groups.into_values().collect();
        let nr_pairs = groups.iter().filter(|group| group.len() > 1).count();
        (groups.len() > 1).then(|| Siblings {
            known: HashMap::new(),
            partners: vec![0; groups.len()],
            kind,
            pairs_are_rare: groups.len() > 2 * PARTNERS_MAX && nr_pairs * 8 < groups.len(),
            groups,
        })
    });
    split.collect()
}
