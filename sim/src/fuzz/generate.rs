// SPDX-License-Identifier: GPL-2.0-only
//! Cases by chance: the same seed, the same case.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use super::case::{Case, CaseCompetitor, CaseEvent, CaseTask, SEMAPHORES, Step, What};
use intf::ALL_POLICIES;

struct Dice(ChaCha8Rng);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n.max(1))) >> 64) as u64
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// From 1 to `most`, short ones as likely as long ones by magnitude.
    fn duration_us(&mut self, most: u64) -> u64 {
        let bits = self.below(u64::from(most.ilog2()) + 1);
        (1 + self.below(1 << (bits + 1))).min(most)
    }

    fn some_of(&mut self, n: usize) -> Vec<usize> {
        let count = 1 + self.index(n);
        (0..count).map(|_| self.index(n)).collect()
    }

    fn nice(&mut self) -> i32 {
        if self.one_in(3) { self.below(40) as i32 - 20 } else { 0 }
    }
}

/// The case of this seed.
pub fn generate(seed: u64) -> Case {
    let mut dice = Dice(ChaCha8Rng::seed_from_u64(seed));
    let vcpus = [1, 2, 3, 4, 6, 8, 12][dice.index(7)];
    // At most four vCPUs a pCPU: more, and waits are the host's alone.
    let pcpus = (vcpus / (1 + dice.index(4))).max(1);
    let nr_tasks = 1 + dice.index(vcpus * 4);
    let tasks: Vec<_> = (0..nr_tasks).map(|_| task(&mut dice, vcpus)).collect();
    let competitors = (0..dice.index(pcpus + 1)).map(|_| competitor(&mut dice, pcpus)).collect();
    let length_ms = 2000;
    let mut events: Vec<_> = (0..dice.index(40))
        .map(|_| CaseEvent {
            at_us: dice.below(length_ms * 1000),
            by: dice.index(vcpus),
            what: what(&mut dice, vcpus, pcpus, nr_tasks),
        })
        .collect();
    events.sort_by_key(|event| event.at_us);
    Case {
        seed,
        length_ms,
        vcpus,
        pcpus,
        smt: dice.one_in(3),
        floating: dice.one_in(2),
        host_slice_us: 500 + dice.below(8000),
        steal_clock: dice.one_in(2),
        policies: if dice.one_in(3) { dice.0.next_u64() & ALL_POLICIES } else { ALL_POLICIES },
        wait_bound_ms: 100 + dice.below(200),
        queued_wakeup: !dice.one_in(3),
        absurd_inputs: false,
        tasks,
        competitors,
        events,
    }
}

fn task(dice: &mut Dice, vcpus: usize) -> CaseTask {
    let pinned = dice.one_in(6);
    CaseTask {
        process: dice.index(4),
        nice: dice.nice(),
        best_effort: dice.one_in(5),
        kthread: pinned && dice.one_in(2),
        allowed: match (pinned, dice.one_in(6)) {
            (true, _) => vec![dice.index(vcpus)],
            (false, true) => dice.some_of(vcpus),
            (false, false) => Vec::new(),
        },
        steps: (0..1 + dice.index(6)).map(|_| step(dice)).collect(),
    }
}

fn step(dice: &mut Dice) -> Step {
    let semaphore = dice.index(SEMAPHORES);
    match dice.below(18) {
        0..=5 => Step::Compute(dice.duration_us(20_000)),
        6..=9 => Step::Sleep(dice.duration_us(20_000)),
        10 | 11 => Step::Down(semaphore),
        12 => Step::Up(semaphore),
        13 => Step::UpSync(semaphore),
        14 => Step::UpAll(semaphore),
        15 => Step::Yield,
        16 if dice.one_in(2) => Step::Flush,
        16 => Step::Pinned(dice.duration_us(2_000)),
        _ if dice.one_in(8) => Step::Exit,
        _ => Step::Compute(dice.duration_us(200)),
    }
}

/// It takes at most half of a pCPU, in turns of at most 40 ms.
fn competitor(dice: &mut Dice, pcpus: usize) -> CaseCompetitor {
    let on_us = dice.duration_us(40_000);
    CaseCompetitor {
        pcpu: dice.index(pcpus),
        on_us,
        // Shorter rests would leave the vCPUs there no time but for cold caches.
        off_us: on_us + 500 + dice.duration_us(40_000),
        random: dice.one_in(3),
    }
}

fn what(dice: &mut Dice, vcpus: usize, pcpus: usize, tasks: usize) -> What {
    let (task, vcpu) = (dice.index(tasks), dice.index(vcpus));
    match dice.below(10) {
        0..=2 => What::Affinity { task, allowed: dice.some_of(vcpus) },
        3 => What::Nice { task, nice: dice.nice() },
        4 => What::Policy { task, best_effort: dice.one_in(2) },
        5 | 6 => What::Online { vcpu, online: dice.one_in(2) },
        7 => What::Policies { bits: dice.0.next_u64() & ALL_POLICIES },
        8 => What::Inputs { vcpu, seed: dice.0.next_u64() },
        _ => What::Move { vcpu, pcpu: dice.index(pcpus) },
    }
}
