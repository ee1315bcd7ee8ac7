// SPDX-License-Identifier: GPL-2.0-only
//! Simulated VMs on recorded machines.

use probers::vtop::readings::{LatencySource, Pair, Patience, Reading};

use crate::machines::{Machine, Sets, by_key};

/// How the vCPUs of a VM lie on the threads of a machine, and how it disturbs its probes.
#[derive(Clone, Debug)]
pub struct Vm {
    /// The copy of the machine (several boards of it make a large one) and the thread, by vCPU.
    pub places: Vec<(usize, usize)>,
    /// Readings are up to so much higher than recorded.
    noise_ratio: f64,
    /// vCPUs of which every fourth reading is in vain.
    stragglers: Vec<usize>,
    random: Random,
}

/// What is special about a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole cores, siblings next to each other; no noise.
    WholeCores,
    /// Like that, one in eight on the thread of another.
    Stacked,
    /// One in four cores has lent one of its threads to others.
    MissingSiblings,
    /// Any threads, in any order, one in eight on the thread of another.
    Strewn,
    /// Whole cores, one vCPU in eight a straggler.
    Stragglers,
}

impl Kind {
    pub const ALL: [Self; 5] =
        [Self::WholeCores, Self::Stacked, Self::MissingSiblings, Self::Strewn, Self::Stragglers];
}

impl Vm {
    pub fn new(machine: &Machine, nr_vcpus: usize, kind: Kind, mut random: Random) -> Self {
        let cores: Sets = match machine.smt.as_deref() {
            Some([]) | None => (0..machine.threads).map(|thread| vec![thread]).collect(),
            Some(cores) => cores.to_vec(),
        };
        let boards = 2 * nr_vcpus.div_ceil(machine.threads);
        let mut places = Vec::new();
        for board in 0..boards {
            for core in &cores {
                let lent = kind == Kind::MissingSiblings && random.below(4) == 0;
                let threads = if lent { 1 } else { core.len() };
                places.extend(core[..threads].iter().map(|thread| (board, *thread)));
            }
        }
        if kind == Kind::Strewn {
            places.truncate(machine.threads * nr_vcpus.div_ceil(machine.threads));
            random.shuffle(&mut places);
        }
        places.truncate(nr_vcpus);
        let some = nr_vcpus / 8;
        if matches!(kind, Kind::Stacked | Kind::Strewn) {
            for _ in 0..some {
                places[random.below(nr_vcpus)] = places[random.below(nr_vcpus)];
            }
        }
        let stragglers = match kind {
            Kind::Stragglers => (0..some).map(|_| random.below(nr_vcpus)).collect(),
            _ => Vec::new(),
        };
        let noise_ratio = if kind == Kind::WholeCores { 0.0 } else { 0.1 };
        Self { places, noise_ratio, stragglers, random }
    }
}

/// A machine with a VM on it.
pub struct Simulated<'a> {
    pub machine: &'a Machine,
    pub vm: Vm,
}

impl Simulated<'_> {
    fn latency_ns(&self, a: usize, b: usize) -> Option<f64> {
        let widest = self.machine.rows.iter().flatten().flatten().copied().fold(0.0, f64::max);
        let (a, b) = (self.vm.places[a], self.vm.places[b]);
        if a.0 != b.0 {
            return Some(widest * 2.5); // another board
        }
        self.machine.rows[a.1.max(b.1)][a.1.min(b.1)]
    }

    pub fn stacks(&self) -> Sets {
        by_key(self.vm.places.iter())
    }

    /// vCPUs in one set of a level of the machine.
    pub fn together(&self, sets: &[Vec<usize>]) -> Sets {
        let set_of = |thread: usize| {
            let set = sets.iter().position(|set| set.contains(&thread));
            set.map_or((1, thread), |set| (0, set))
        };
        by_key(self.vm.places.iter().map(|(copy, thread)| (*copy, set_of(*thread))))
    }
}

impl LatencySource for Simulated<'_> {
    fn probe(&mut self, pairs: &[Pair], _: Patience) -> Vec<Reading> {
        let reading = |(a, b): &Pair| {
            let slow = [a, b].iter().any(|vcpu| self.vm.stragglers.contains(vcpu));
            if slow && self.vm.random.below(4) == 0 {
                Reading::Undecided
            } else if self.vm.places[*a] == self.vm.places[*b] {
                Reading::NeverTogether { confidence: 1.0 }
            } else if let Some(ns) = self.latency_ns(*a, *b) {
                let noise = self.vm.noise_ratio * self.vm.random.unit().powi(3);
                Reading::Latency { ns: ns * (1.0 + noise) }
            } else {
                Reading::Undecided
            }
        };
        pairs.iter().map(reading).collect()
    }
}

/// xorshift64*: the same sequence for the same seed, everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn seeded(seed: usize) -> Self {
        Self((seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 33) as usize % bound
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }
}
