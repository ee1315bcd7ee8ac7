// SPDX-License-Identifier: GPL-2.0-only
//! Which processes are confined to steady vCPUs. A shootdown waits for each vCPU that runs a thread of
//! the process, and for a stopped one until its next turn (demand-based coscheduling, ASPLOS 2013,
//! TLB-Co). Without the vCPUs that are stopped most a process has less time, and loses less of it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::VcpuHints;

/// At most so many processes are confined.
const CONFINED: usize = intf::VAWARE_CONFINED as usize;

/// Rounds for which a process is confined, at first and at most. After that it is left free for a
/// round, to see whether it still waits: a wait that has been avoided cannot be seen.
const ROUNDS_FIRST: u32 = 8;
const ROUNDS_MOST: u32 = 64;

/// A process that is confined, or was until this round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    rounds_left: u32,
    /// For how long it is confined in this term.
    term: u32,
}

impl Held {
    fn for_term(term: u32) -> Self {
        Self { rounds_left: term, term }
    }

    /// Go on to the next round. Return whether there is still something to hold: one that was free,
    /// and `loses` again, is confined for twice as long.
    fn next(&mut self, loses: bool) -> bool {
        match self.rounds_left {
            0 if !loses => return false,
            0 => *self = Self::for_term((2 * self.term).min(ROUNDS_MOST)),
            _ => self.rounds_left -= 1,
        }
        true
    }
}

/// The confined processes, from round to round.
#[derive(Clone, Debug, Default)]
pub struct Confinement {
    held: BTreeMap<u32, Held>,
}

impl Confinement {
    /// Decide who is confined in the next round, after one of `elapsed` in which tasks of each process
    /// have waited at shootdowns for `waits`, summed. Mark the unsteady vCPUs of `told` while somebody
    /// is. Return the processes.
    ///
    /// A process is confined if it has lost more vCPU time by waiting than the unsteady vCPUs have to
    /// give.
    pub fn round(
        &mut self,
        waits: &BTreeMap<u32, Duration>,
        elapsed: Duration,
        told: &mut [VcpuHints],
    ) -> Vec<u32> {
        let unsteady = unsteady(told);
        let given_up = told.iter().filter(|vcpu| unsteady.contains(&vcpu.vcpu));
        let given_up_1024: u32 = given_up.map(|vcpu| vcpu.capacity_1024).sum();
        let worth = elapsed.mul_f64(f64::from(given_up_1024) / 1024.0);
        if unsteady.is_empty() {
            self.held.clear();
            return Vec::new();
        }
        let loses = |process: &u32| waits.get(process).is_some_and(|wait| *wait > worth);
        self.held.retain(|process, held| held.next(loses(process)));
        let mut losers: Vec<_> = waits.iter().filter(|(process, _)| loses(process)).collect();
        losers.sort_by_key(|(_, wait)| std::cmp::Reverse(**wait));
        for (process, _) in losers {
            if self.held.len() < CONFINED {
                self.held.entry(*process).or_insert(Held::for_term(ROUNDS_FIRST));
            }
        }
        let is_confined =
            |(process, held): (&u32, &Held)| (held.rounds_left > 0).then_some(*process);
        let confined: Vec<_> = self.held.iter().filter_map(is_confined).collect();
        for vcpu in told.iter_mut().filter(|_| !confined.is_empty()) {
            vcpu.unsteady = unsteady.contains(&vcpu.vcpu);
        }
        confined
    }
}

/// The usable vCPUs of `told` that give clearly less than the best one.
pub fn unsteady(told: &[VcpuHints]) -> Vec<u32> {
    let usable = || told.iter().filter(|vcpu| !vcpu.banned() && !vcpu.parked);
    let best = usable().map(|vcpu| vcpu.capacity_1024).max().unwrap_or(0);
    usable()
        .filter(|vcpu| {
            vcpu.capacity_1024 * intf::VAWARE_CLEARLY_MORE <= best * intf::VAWARE_CLEARLY_LESS
        })
        .map(|vcpu| vcpu.vcpu)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{VcpuFacts, plan};

    const ROUND: Duration = Duration::from_secs(1);

    /// Two whole vCPUs and two halves, which give one together.
    fn told() -> Vec<VcpuHints> {
        let mut facts: Vec<_> = (0..4).map(VcpuFacts::unknown).collect();
        (facts[0].capacity_1024, facts[1].capacity_1024) = (512, 512);
        plan(&facts, &[], usize::MAX)
    }

    fn waits(of: &[(u32, u64)]) -> BTreeMap<u32, Duration> {
        of.iter().map(|(process, ms)| (*process, Duration::from_millis(*ms))).collect()
    }

    #[test]
    fn who_waits_longer_than_unsteady_vcpus_give_is_confined() {
        for (ms, confined) in [(990, vec![]), (1010, vec![7])] {
            let mut told = told();
            assert_eq!(
                Confinement::default().round(&waits(&[(7, ms), (8, 10)]), ROUND, &mut told),
                confined
            );
            let unsteady: Vec<_> = told.iter().map(|vcpu| vcpu.unsteady).collect();
            let marked = !confined.is_empty();
            assert_eq!(unsteady, [marked, marked, false, false]);
            assert_eq!(told[0].flags() & intf::VAWARE_VCPU_UNSTEADY != 0, marked);
        }
    }

    #[test]
    fn where_vcpus_are_alike_nobody_is() {
        let facts: Vec<_> = (0..4).map(VcpuFacts::unknown).collect();
        let mut told = plan(&facts, &[], usize::MAX);
        let mut confinement = Confinement::default();
        assert!(confinement.round(&waits(&[(7, 4000)]), ROUND, &mut told).is_empty());
    }

    #[test]
    fn it_is_looked_at_again_ever_more_seldom_while_it_pays() {
        let mut confinement = Confinement::default();
        let mut terms = Vec::new();
        let mut term = 0;
        for _ in 0..400 {
            let free = term == 0;
            let waits = if free { waits(&[(7, 3000)]) } else { waits(&[]) };
            match confinement.round(&waits, ROUND, &mut told()).is_empty() {
                false => term += 1,
                true => terms.push(std::mem::take(&mut term)),
            }
        }
        assert_eq!(terms[..5], [8, 16, 32, 64, 64]);
    }

    #[test]
    fn one_that_waits_no_more_is_free_and_begins_anew() {
        let mut confinement = Confinement::default();
        let confined = |confinement: &mut Confinement, ms| {
            !confinement.round(&waits(&[(7, ms)]), ROUND, &mut told()).is_empty()
        };
        assert!(confined(&mut confinement, 3000));
        let rounds = (0..100).take_while(|_| confined(&mut confinement, 0)).count();
        assert_eq!(rounds as u32, ROUNDS_FIRST - 1);
        assert!(!confined(&mut confinement, 0) && !confined(&mut confinement, 0));
        assert!(confined(&mut confinement, 3000));
        let rounds = (0..100).take_while(|_| confined(&mut confinement, 0)).count();
        assert_eq!(rounds as u32, ROUNDS_FIRST - 1);
    }

    #[test]
    fn those_that_wait_longest_are_confined_and_no_more_than_there_is_room_for() {
        let many: Vec<_> = (1..=10).map(|process| (process, 1000 + u64::from(process))).collect();
        let found = Confinement::default().round(&waits(&many), ROUND, &mut told());
        assert_eq!(found, [7, 8, 9, 10]);
    }

    #[test]
    fn vcpus_that_nobody_uses_are_not_asked() {
        let mut told = told();
        (told[0].straggler, told[1].parked) = (true, true);
        assert!(unsteady(&told).is_empty());
        assert!(unsteady(&[]).is_empty());
    }
}
