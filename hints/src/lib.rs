// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel half is told about the vCPUs: whom it bans from normal work, and in which order
//! it looks at the others. VcpuFacts in, `struct vaware_hints` out; nothing here measures.

pub mod gathering;
pub mod levels;
pub mod pace;
pub mod reserve;
pub mod retention;
pub mod shootdown;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

const CANDIDATES: usize = intf::VAWARE_CANDIDATES as usize;
const STRAGGLER: u32 = intf::VAWARE_VCPU_STRAGGLER;
const STACKED: u32 = intf::VAWARE_VCPU_STACKED;
const UNEVEN: u32 = intf::VAWARE_VCPU_UNEVEN;
const SMT: u32 = intf::VAWARE_VCPU_SMT;
const LLCS: u32 = intf::VAWARE_VCPU_LLCS;
const PARKED: u32 = intf::VAWARE_VCPU_PARKED;
const RESERVE: u32 = intf::VAWARE_VCPU_RESERVE;
const UNSTEADY: u32 = intf::VAWARE_VCPU_UNSTEADY;

/// Capacities within an eighth of a core of each other count as equal: they are measured, and a
/// move costs more than so small a difference gains.
const CAPACITY_STEP_1024: u32 = 128;

/// What is known of an online vCPU. Groups are named by any number that their members share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VcpuFacts {
    pub vcpu: u32,
    /// Share of a core x its speed; 1024 is a whole core of the best speed. Equal for vCPUs that cannot
    /// be told apart, see [`crate::levels`].
    pub capacity_1024: u32,
    /// Far slower than the others, by a verdict that is still fresh.
    pub straggler: bool,
    /// vCPUs that never run at the same time, for they share one hardware thread.
    pub stack: u32,
    /// vCPUs that are hardware threads of one core.
    pub core: u32,
    /// vCPUs that share the last-level cache.
    pub llc: u32,
}

impl VcpuFacts {
    /// A vCPU of which nothing is known: as good as any, and sharing nothing but the cache.
    pub fn unknown(vcpu: u32) -> Self {
        let (capacity_1024, straggler) = (1024, false);
        Self { vcpu, capacity_1024, straggler, stack: vcpu, core: vcpu, llc: 0 }
    }
}

/// What the kernel half is told about one vCPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VcpuHints {
    pub vcpu: u32,
    pub capacity_1024: u32,
    /// For best-effort work only.
    pub straggler: bool,
    /// Not used, because another vCPU of its stack is.
    pub stacked: bool,
    /// Left to work with long bursts: the rest is gathered on others.
    pub parked: bool,
    /// Kept free of CPU-bound work ([`reserve::keep_free`]).
    pub reserve: bool,
    /// Left alone by confined processes ([`shootdown::Confinement`]).
    pub unsteady: bool,
    /// The vCPUs of this VM differ in what they give to a task: there is something to choose.
    pub uneven: bool,
    /// Some vCPUs of this VM are hardware threads of one core.
    pub smt: bool,
    /// The vCPUs of this VM belong to several last-level caches.
    pub llcs: bool,
    /// The other hardware thread of its core, or itself.
    pub sibling: u32,
    /// Other vCPUs, the best for its work first.
    pub candidates: Vec<u32>,
    /// So many of the first candidates share its last-level cache and are not banned.
    pub nr_near: u16,
}

impl VcpuHints {
    /// Whether normal work keeps away from it.
    pub fn banned(&self) -> bool {
        self.straggler || self.stacked
    }

    /// What a decision has to know of it (`enum vaware_vcpu_flag`).
    pub fn flags(&self) -> u32 {
        [
            (self.straggler, STRAGGLER),
            (self.stacked, STACKED),
            (self.uneven, UNEVEN),
            (self.smt, SMT),
            (self.llcs, LLCS),
            (self.parked, PARKED),
            (self.reserve, RESERVE),
            (self.unsteady, UNSTEADY),
        ]
        .iter()
        .fold(0, |flags, (set, flag)| flags | if *set { *flag } else { 0 })
    }

    /// The struct that the kernel half reads, valid until the kernel's tick counter has this value.
    pub fn for_kernel(&self, valid_until_jiffies: u64) -> intf::vaware_hints {
        let mut candidates = [0; CANDIDATES];
        for (entry, vcpu) in candidates.iter_mut().zip(&self.candidates) {
            *entry = *vcpu;
        }
        intf::vaware_hints {
            valid_until_jiffies,
            capacity_1024: self.capacity_1024,
            flags: self.flags(),
            sibling: self.sibling,
            nr_candidates: self.candidates.len().min(CANDIDATES) as u16,
            nr_near: self.nr_near,
            candidates,
        }
    }
}

/// Decide what the kernel half is told. `before` is what it was told last: the vCPU of a stack that was
/// in use stays so unless another has clearly more capacity, for to change costs its caches.
///
/// One vCPU of each stack is used, the one with the most capacity. Of the others at most half are
/// banned as stragglers, the slowest ones. Of those that are left, all but the best `open` are
/// parked; the best one of each cache never is.
pub fn plan(facts: &[VcpuFacts], before: &[VcpuHints], open: usize) -> Vec<VcpuHints> {
    let used = |vcpu: u32| before.iter().any(|old| old.vcpu == vcpu && !old.stacked);
    let mut leaders: BTreeMap<u32, &VcpuFacts> = BTreeMap::new();
    for fact in facts {
        let rank = |f: &VcpuFacts| {
            let favour =
                if used(f.vcpu) { intf::VAWARE_CLEARLY_MORE } else { intf::VAWARE_CLEARLY_LESS };
            (!f.straggler, f.capacity_1024 * favour, Reverse(f.vcpu))
        };
        let leader = leaders.entry(fact.stack).or_insert(fact);
        if rank(fact) > rank(leader) {
            *leader = fact;
        }
    }
    let is_stacked =
        |fact: &VcpuFacts| leaders.get(&fact.stack).is_some_and(|l| l.vcpu != fact.vcpu);

    let mut slow: Vec<_> = facts.iter().filter(|f| f.straggler && !is_stacked(f)).collect();
    slow.sort_by_key(|fact| (fact.capacity_1024, fact.vcpu));
    slow.truncate(leaders.len() / 2);
    let is_slow = |fact: &VcpuFacts| slow.iter().any(|s| s.vcpu == fact.vcpu);

    let banned = |f: &VcpuFacts| is_slow(f) || is_stacked(f);
    let parked = parked(facts, banned, open);
    let left_idle = |f: &VcpuFacts| banned(f) || parked.contains(&f.vcpu);
    let steps = |f: &VcpuFacts| (is_slow(f), is_stacked(f), f.capacity_1024 / CAPACITY_STEP_1024);
    let uneven = facts.windows(2).any(|pair| steps(&pair[0]) != steps(&pair[1]));
    let llcs = facts.windows(2).any(|pair| pair[0].llc != pair[1].llc);
    let sibling = |fact: &VcpuFacts| {
        let shares = |f: &&VcpuFacts| f.core == fact.core && f.vcpu != fact.vcpu && !is_stacked(f);
        facts.iter().find(shares).map_or(fact.vcpu, |f| f.vcpu)
    };
    let smt = facts.iter().any(|fact| !is_stacked(fact) && sibling(fact) != fact.vcpu);
    facts
        .iter()
        .map(|fact| {
            let candidates = candidates(fact, facts, left_idle);
            VcpuHints {
                vcpu: fact.vcpu,
                capacity_1024: fact.capacity_1024,
                straggler: is_slow(fact),
                stacked: is_stacked(fact),
                parked: parked.contains(&fact.vcpu),
                reserve: false,
                unsteady: false,
                uneven,
                smt,
                llcs,
                sibling: sibling(fact),
                nr_near: candidates
                    .iter()
                    .take_while(|f| !left_idle(f) && f.llc == fact.llc)
                    .count() as u16,
                candidates: candidates.iter().map(|f| f.vcpu).collect(),
            }
        })
        .collect()
}

/// Those of the usable vCPUs that are parked where `open` are to stay open: the worst leave first. A
/// vCPU that shares its cache with none, as some hypervisors claim of all, is no better for that.
fn parked(facts: &[VcpuFacts], banned: impl Fn(&VcpuFacts) -> bool, open: usize) -> BTreeSet<u32> {
    let mut usable: Vec<_> = facts.iter().filter(|f| !banned(f)).collect();
    usable.sort_by_key(|f| (Reverse(f.capacity_1024 / CAPACITY_STEP_1024), f.vcpu));
    let shared = |llc: u32| facts.iter().filter(|f| f.llc == llc).count() > 1;
    let mut caches = BTreeSet::new();
    let is_first = |f: &&VcpuFacts| shared(f.llc) && caches.insert(f.llc);
    let (firsts, others): (Vec<_>, Vec<_>) = usable.into_iter().partition(is_first);
    let more = open.max(1).saturating_sub(firsts.len());
    others.iter().skip(more).map(|f| f.vcpu).collect()
}

/// The other vCPUs in the order in which the work of `own` should look at them: those in use, of its
/// cache, with the most capacity first. Those that are equal follow it by number, so that no vCPU is
/// everybody's first choice.
fn candidates<'a>(
    own: &VcpuFacts,
    facts: &'a [VcpuFacts],
    banned: impl Fn(&VcpuFacts) -> bool,
) -> Vec<&'a VcpuFacts> {
    let mut others: Vec<_> = facts.iter().filter(|f| f.vcpu != own.vcpu).collect();
    others.sort_by_key(|f| {
        (
            banned(f),
            f.llc != own.llc,
            Reverse(f.capacity_1024 / CAPACITY_STEP_1024),
            f.vcpu.wrapping_sub(own.vcpu),
        )
    });
    others.truncate(CANDIDATES);
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All vCPUs stay open.
    const ALL: usize = usize::MAX;

    fn vcpus(n: u32) -> Vec<VcpuFacts> {
        (0..n).map(VcpuFacts::unknown).collect()
    }

    fn banned(inputs: &[VcpuHints]) -> Vec<u32> {
        inputs.iter().filter(|i| i.banned()).map(|i| i.vcpu).collect()
    }

    #[test]
    fn nothing_found_bans_nobody() {
        let inputs = plan(&vcpus(4), &[], ALL);
        assert!(banned(&inputs).is_empty());
        assert!(inputs.iter().all(|i| i.for_kernel(1).flags == 0));
        assert_eq!(inputs[2].candidates, [3, 0, 1]);
        assert_eq!(inputs[2].sibling, 2);
    }

    #[test]
    fn one_of_a_stack_is_used_and_stays_so() {
        let mut facts = vcpus(4);
        (facts[1].stack, facts[3].stack) = (0, 2);
        let first = plan(&facts, &[], ALL);
        assert_eq!(banned(&first), [1, 3]);
        facts[1].capacity_1024 = 2 * facts[0].capacity_1024;
        let second = plan(&facts, &first, ALL);
        assert_eq!(banned(&second), [0, 3]);
        for capacity_1024 in [900, 1024, 1100] {
            (facts[0].capacity_1024, facts[1].capacity_1024) = (1024, capacity_1024);
            assert_eq!(banned(&plan(&facts, &second, ALL)), [0, 3]);
            assert_eq!(banned(&plan(&facts, &first, ALL)), [1, 3]);
        }
    }

    #[test]
    fn a_straggler_does_not_lead_its_stack() {
        let mut facts = vcpus(3);
        (facts[0].straggler, facts[1].stack) = (true, 0);
        let inputs = plan(&facts, &[], ALL);
        assert!(inputs[0].stacked && !inputs[1].banned());
    }

    #[test]
    fn at_most_half_are_banned_as_stragglers_and_the_slowest() {
        for n in 1..9 {
            let mut facts = vcpus(n);
            for fact in &mut facts {
                (fact.straggler, fact.capacity_1024) = (true, 100 - fact.vcpu);
            }
            let inputs = plan(&facts, &[], ALL);
            let expected: Vec<_> = (n - n / 2..n).collect();
            assert_eq!(banned(&inputs), expected);
        }
    }

    #[test]
    fn work_looks_at_its_own_cache_first_and_at_banned_vcpus_last() {
        let mut facts = vcpus(6);
        for fact in &mut facts[3..] {
            fact.llc = 1;
        }
        facts[1].straggler = true;
        facts[4].capacity_1024 = 300;
        let inputs = plan(&facts, &[], ALL);
        assert_eq!(inputs[0].candidates, [2, 3, 5, 4, 1]);
        assert_eq!(inputs[5].candidates, [3, 4, 0, 2, 1]);
        assert_eq!(inputs.iter().map(|i| i.nr_near).collect::<Vec<_>>(), [1, 2, 1, 2, 2, 2]);
    }

    #[test]
    fn caches_and_cores_alone_do_not_make_vcpus_uneven() {
        let mut facts = vcpus(4);
        (facts[2].llc, facts[3].llc) = (1, 1);
        assert!(plan(&facts, &[], ALL).iter().all(|i| i.flags() == LLCS));
        (facts[1].core, facts[2].llc, facts[3].llc) = (0, 0, 0);
        assert!(plan(&facts, &[], ALL).iter().all(|i| i.flags() == SMT));
    }

    #[test]
    fn siblings_are_those_of_a_core_in_use() {
        let mut facts = vcpus(4);
        (facts[1].core, facts[3].core) = (0, 2);
        facts[3].stack = 2;
        let inputs = plan(&facts, &[], ALL);
        assert_eq!([0, 1, 2, 3].map(|v: usize| inputs[v].sibling), [1, 0, 2, 2]);
    }

    #[test]
    fn large_vms_get_lists_of_bounded_length() {
        let inputs = plan(&vcpus(1024), &[], ALL);
        assert!(inputs.iter().all(|i| i.candidates.len() == CANDIDATES));
        assert_eq!(inputs[1023].candidates[0], 0);
        assert_eq!(inputs[0].for_kernel(9).nr_candidates, CANDIDATES as u16);
    }

    fn open(inputs: &[VcpuHints]) -> Vec<u32> {
        inputs.iter().filter(|i| !i.parked && !i.banned()).map(|i| i.vcpu).collect()
    }

    #[test]
    fn the_worst_are_parked_first_and_looked_at_last() {
        let mut facts = vcpus(6);
        (facts[0].capacity_1024, facts[5].straggler) = (500, true);
        for (number, expected) in [(9, 5), (5, 5), (4, 4), (2, 2), (1, 1), (0, 1)] {
            let inputs = plan(&facts, &[], number);
            let mut best_first = [1, 2, 3, 4, 0];
            best_first[..expected].sort_unstable();
            assert_eq!(open(&inputs), best_first[..expected]);
            assert!(inputs.iter().all(|i| !(i.parked && i.banned())));
            let own = &inputs[1];
            assert_eq!(own.nr_near as usize, expected - 1);
        }
    }

    #[test]
    fn a_cache_keeps_one_open() {
        let mut facts = vcpus(6);
        facts[3..].iter_mut().for_each(|fact| fact.llc = 3);
        assert_eq!(open(&plan(&facts, &[], 1)), [0, 3]);
        assert_eq!(open(&plan(&facts, &[], 3)), [0, 1, 3]);
        facts.iter_mut().for_each(|fact| fact.llc = fact.vcpu);
        assert_eq!(open(&plan(&facts, &[], 0)), [0], "no cache is shared");
    }
}
