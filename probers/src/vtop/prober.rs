// SPDX-License-Identifier: GPL-2.0-only
//! Keeps a topology: probes it once, then checks it cheaply and probes anew what has changed.

use super::label::label;
use super::plan::{Cost, complete};
use super::readings::{LatencySource, Pair, Readings, pair};
use super::structure::{Structure, infer};
use super::validate::refuted;
use crate::snapshot::{Group, Topology};

/// A new result is checked so often until nothing contradicts it: a reading in the thick of other
/// pairs' traffic, or of a vCPU that was just moved, may have been wrong.
const CHECKS_MAX: usize = 3;

/// What one pass of probing found.
#[derive(Clone, Debug)]
pub struct Finding {
    pub topology: Topology,
    pub cost: Cost,
    /// vCPUs that were not where the last pass had found them; all after the first one.
    pub moved: Vec<u32>,
    /// Pairs of which nothing could be told.
    pub nr_undecided: usize,
}

impl Finding {
    /// Whether more probing would tell more: pairs are undecided, or groups not sure enough to act on.
    pub fn is_open(&self) -> bool {
        let is_unsure = |(_, groups): (_, &[Group])| groups.iter().any(|group| !group.is_trusted());
        self.nr_undecided > 0 || self.topology.levels().into_iter().any(is_unsure)
    }
}

/// A topology and where it comes from.
pub struct Prober<S> {
    source: S,
    /// The kernel's numbers, ascending.
    ids: Vec<u32>,
    readings: Readings,
    structure: Option<Structure>,
    turn: usize,
}

impl<S: LatencySource> Prober<S> {
    /// Of the vCPUs with these numbers, ascending, in the order in which the source counts them.
    pub fn new(source: S, ids: Vec<u32>) -> Self {
        Self { source, readings: Readings::new(ids.len()), ids, structure: None, turn: 0 }
    }

    pub fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Probe everything anew. `hints` are pairs of numbers that are likely to be siblings.
    pub fn probe(&mut self, hints: &[(u32, u32)]) -> Finding {
        self.readings = Readings::new(self.ids.len());
        let place = |id: &u32| self.ids.binary_search(id).ok();
        let known = hints.iter().filter_map(|(a, b)| Some((place(a)?, place(b)?)));
        let hints: Vec<Pair> = known.filter(|(a, b)| a != b).map(|(a, b)| pair(a, b)).collect();
        self.finish(&hints, Cost::default(), (0..self.ids.len()).collect())
    }

    /// Check the last result, and probe anew what has changed; all if there is none.
    pub fn validate(&mut self) -> Finding {
        let Some(structure) = self.structure.take() else {
            return self.probe(&[]);
        };
        let mut cost = Cost::default();
        let moved = self.check(&structure, &mut cost);
        self.structure = Some(structure);
        self.finish(&[], cost, moved)
    }

    /// Which vCPUs are not where the structure says; forget what was known of them.
    fn check(&mut self, structure: &Structure, cost: &mut Cost) -> Vec<usize> {
        self.turn += 1;
        let moved = refuted(&mut self.source, structure, &mut self.readings, self.turn, cost);
        moved.iter().for_each(|vcpu| self.readings.forget(*vcpu));
        moved
    }

    /// Find the structure anew if any have moved, until a check finds no fault.
    fn finish(&mut self, hints: &[Pair], mut cost: Cost, moved: Vec<usize>) -> Finding {
        let mut wrong = moved.clone();
        let mut structure = self.structure.take().filter(|_| wrong.is_empty());
        for _ in 0..CHECKS_MAX {
            let found = structure.take().unwrap_or_else(|| {
                complete(&mut self.source, &mut self.readings, hints, &mut cost)
            });
            if !wrong.is_empty() && !self.source.is_exhausted() {
                wrong = self.check(&found, &mut cost);
            }
            structure = Some(found).filter(|_| wrong.is_empty());
            if structure.is_some() || self.source.is_exhausted() {
                break;
            }
        }
        let structure = structure.unwrap_or_else(|| infer(&self.readings));
        let mut topology = label(&structure, &self.readings, &self.ids);
        topology.age_s = Some(0.0);
        self.structure = Some(structure);
        Finding {
            topology,
            cost,
            moved: moved.into_iter().map(|vcpu| self.ids[vcpu]).collect(),
            nr_undecided: self.readings.nr_undecided(),
        }
    }
}
