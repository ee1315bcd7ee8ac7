// SPDX-License-Identifier: GPL-2.0-only
//! What is known of pairs of vCPUs, and where it comes from.

use std::collections::BTreeMap;

/// Two vCPUs by their place in the list that is probed; the lower first.
pub type Pair = (usize, usize);

/// The pair of two different vCPUs.
pub fn pair(a: usize, b: usize) -> Pair {
    (a.min(b), a.max(b))
}

/// What a probe of a pair showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// They ran at the same time: the one-way latency of a cache line between them.
    Latency { ns: f64 },
    /// They ran in turns, as two on one hardware thread do. `confidence` is low (0) while they may only have
    /// been kept on one core by chance, and grows (to 1) the longer that goes on.
    NeverTogether { confidence: f64 },
    /// Too little was seen of one or both.
    Undecided,
}

/// How hard a source tries when two vCPUs do not run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Until it is clear whether they can.
    Proof,
    /// Just long enough to see it if they do; else undecided.
    Glance,
}

/// Where readings come from: the vCPUs of this VM, a recorded matrix, a simulated machine.
pub trait LatencySource {
    /// Probe these pairs, no vCPU in more than one of them, at the same time. One reading for each.
    fn probe(&mut self, pairs: &[Pair], patience: Patience) -> Vec<Reading>;

    /// Whether the time allowed is used up, so that no more should be asked.
    fn is_exhausted(&self) -> bool {
        false
    }
}

/// The readings of a set of vCPUs.
#[derive(Clone, Debug)]
pub struct Readings {
    by_vcpu: Vec<BTreeMap<usize, Reading>>,
}

impl Readings {
    /// None yet, of so many vCPUs.
    pub fn new(nr_vcpus: usize) -> Self {
        Self { by_vcpu: vec![BTreeMap::new(); nr_vcpus] }
    }

    pub fn nr_vcpus(&self) -> usize {
        self.by_vcpu.len()
    }

    pub fn get(&self, (a, b): Pair) -> Option<Reading> {
        self.by_vcpu[a].get(&b).copied()
    }

    /// Add a reading. Disturbance only ever adds time, so the lowest latency stands; and having run
    /// together once refutes having never done so.
    pub fn record(&mut self, (a, b): Pair, reading: Reading) {
        let kept = match (self.get((a, b)), reading) {
            (Some(Reading::Latency { ns: old }), Reading::Latency { ns }) => {
                Reading::Latency { ns: ns.min(old) }
            }
            (Some(old @ Reading::Latency { .. }), _) => old,
            (_, new) => new,
        };
        self.by_vcpu[a].insert(b, kept);
        self.by_vcpu[b].insert(a, kept);
    }

    /// Forget all readings of one vCPU, which has moved.
    pub fn forget(&mut self, vcpu: usize) {
        for other in std::mem::take(&mut self.by_vcpu[vcpu]).into_keys() {
            self.by_vcpu[other].remove(&vcpu);
        }
    }

    /// The readings of one vCPU, by its partner.
    pub fn of(&self, vcpu: usize) -> impl Iterator<Item = (usize, Reading)> {
        self.by_vcpu[vcpu].iter().map(|(other, reading)| (*other, *reading))
    }

    /// All readings, each pair once.
    pub fn iter(&self) -> impl Iterator<Item = (Pair, Reading)> {
        self.by_vcpu
            .iter()
            .enumerate()
            .flat_map(|(a, row)| row.range(a + 1..).map(move |(b, reading)| ((a, *b), *reading)))
    }

    /// How many pairs were asked about in vain.
    pub fn nr_undecided(&self) -> usize {
        self.iter().filter(|(_, reading)| *reading == Reading::Undecided).count()
    }
}
