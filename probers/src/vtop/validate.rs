// SPDX-License-Identifier: GPL-2.0-only
//! Is a structure still true? A few probes a vCPU tell, and over some passes all that matters is seen.

use std::collections::HashMap;

use super::plan::{Cost, disjoint_rounds};
use super::readings::{LatencySource, Pair, Patience, Reading, Readings, pair};
use super::structure::Structure;
use crate::snapshot::TRUSTED_CONFIDENCE;

/// Each vCPU is compared with so many others in a pass: all of them up to 16 vCPUs; beyond, its
/// neighbours in the order of the groups, and others in turn.
const PARTNERS: usize = 8;

/// The pairs of one pass: those on one thread, and the others.
struct Pass {
    stacked: Vec<Pair>,
    apart: Vec<Pair>,
}

/// Compare the vCPUs with what the structure says of them. Return those that are not where it says.
/// `turn` counts passes; `readings` learns what was seen of the others.
pub fn refuted(
    source: &mut dyn LatencySource,
    structure: &Structure,
    readings: &mut Readings,
    turn: usize,
    cost: &mut Cost,
) -> Vec<usize> {
    let pass = pass(structure, turn);
    let mut wrong = Vec::new();
    // A glance refutes; what is not sure yet is watched for longer.
    let (sure, unsure): (Vec<Pair>, Vec<Pair>) =
        pass.stacked.into_iter().partition(|pair| is_sure(readings.get(*pair)));
    for (pairs, patience) in [(sure, Patience::Glance), (unsure, Patience::Proof)] {
        for round in disjoint_rounds(&pairs) {
            if source.is_exhausted() {
                break;
            }
            for (pair, reading) in probe(source, &round, patience, cost) {
                match reading {
                    Reading::Latency { .. } => wrong.push(pair),
                    Reading::NeverTogether { .. } => readings.record(pair, reading),
                    Reading::Undecided => {}
                }
            }
        }
    }
    let mut suspect = Vec::new();
    for round in disjoint_rounds(&pass.apart) {
        if source.is_exhausted() {
            break;
        }
        for (pair, reading) in probe(source, &round, Patience::Proof, cost) {
            match contradicts(structure, pair, reading) {
                true => suspect.push(pair),
                false => readings.record(pair, reading),
            }
        }
    }
    // Once more, alone: chance and the traffic of other pairs move latencies, a change stays.
    for pair in suspect {
        for (_, reading) in probe(source, &[pair], Patience::Proof, cost) {
            if contradicts(structure, pair, reading) {
                wrong.push(pair);
            }
        }
    }
    movers(&wrong)
}

fn probe<'a>(
    source: &mut dyn LatencySource,
    round: &'a [Pair],
    patience: Patience,
    cost: &mut Cost,
) -> impl Iterator<Item = (Pair, Reading)> + use<'a> {
    cost.probes += round.len();
    cost.rounds += 1;
    round.iter().copied().zip(source.probe(round, patience))
}

fn is_sure(reading: Option<Reading>) -> bool {
    matches!(reading, Some(Reading::NeverTogether { confidence }) if confidence >= TRUSTED_CONFIDENCE)
}

/// Whether a reading is another than the structure tells. Neighbouring levels may blur, so that a latency
/// counts as moved if it is nearer to another level's than to its own, and far from its own.
fn contradicts(structure: &Structure, (a, b): Pair, reading: Reading) -> bool {
    const MOVED_RATIO: f64 = 1.4;
    match reading {
        Reading::Undecided => false,
        Reading::NeverTogether { .. } => structure.depth(a, b) != 0,
        Reading::Latency { ns } => {
            let depth = structure.depth(a, b);
            let own_ns = depth.checked_sub(1).and_then(|index| structure.levels.get(index));
            let is_far = own_ns
                .is_none_or(|own| (ns / own.typical_ns).max(own.typical_ns / ns) > MOVED_RATIO);
            depth != structure.depth_of_latency(ns) && is_far
        }
    }
}

/// The fewest vCPUs that explain all wrong pairs, roughly: whoever is in most of them moved.
fn movers(wrong: &[Pair]) -> Vec<usize> {
    let mut left = wrong.to_vec();
    let mut movers = Vec::new();
    while !left.is_empty() {
        let mut counts: HashMap<usize, usize> = HashMap::new();
        left.iter().flat_map(|(a, b)| [a, b]).for_each(|v| *counts.entry(*v).or_default() += 1);
        let most = counts.values().copied().max().unwrap_or(0);
        // Of a single pair either may have moved.
        let all: Vec<usize> =
            counts.into_iter().filter(|(_, count)| *count == most).map(|(v, _)| v).collect();
        left.retain(|(a, b)| !all.contains(a) && !all.contains(b));
        movers.extend(all);
    }
    movers.sort_unstable();
    movers
}

fn pass(structure: &Structure, turn: usize) -> Pass {
    let stacks = structure.stacks.groups();
    let chain = |stack: &Vec<usize>| -> Vec<Pair> {
        stack.windows(2).map(|two| pair(two[0], two[1])).collect()
    };
    let stacked = stacks.iter().flat_map(chain).collect();
    let mut places: Vec<usize> = stacks.iter().map(|stack| stack[turn % stack.len()]).collect();
    places.sort_by_cached_key(|place| {
        let roots = structure.levels.iter().rev().map(|level| level.partition.root(*place));
        roots.collect::<Vec<usize>>()
    });
    let count = places.len();
    let steps = count / 2;
    let mut apart = Vec::new();
    for step in 0..steps.min(PARTNERS) {
        let offset = match step {
            0 => 1,
            _ => 2 + (step - 1 + turn * (PARTNERS - 1)) % (steps - 1),
        };
        let ends = if 2 * offset == count { offset } else { count };
        apart.extend((0..ends).map(|one| pair(places[one], places[(one + offset) % count])));
    }
    Pass { stacked, apart }
}
