// SPDX-License-Identifier: GPL-2.0-only
//! Whether a vCPU is kept free of CPU-bound work, and which. Where CPU-bound work fills the VM, and
//! its host is overcommitted, each vCPU has used up what its host owes it: a task that wakes waits
//! for the host. One that is mostly idle runs at once (coordinated scheduling, 2016).

use crate::pace::Pace;
use crate::{CAPACITY_STEP_1024, VcpuHints};

/// With fewer usable vCPUs none can be spared.
const VCPUS_MIN: usize = 2;
/// With less steal time a wake-up does not wait for the host: as where the scheduler takes steal
/// time for costly.
const STEAL_RATIO_MIN: f64 = 0.05;
/// Tasks that somebody waits for wake so often. The later their timers are, the less often they wake.
const WAKES_PER_S_MIN: f64 = 10.0;
/// CPU-bound work takes this part of all vCPUs but one: else there is an idle one anyway.
const FULL_RATIO: f64 = 0.9;
/// Rounds for which the vCPU stays free after the last one that asked for it: work pauses.
const ROUNDS_HELD: u32 = 8;

/// Whether there is a reserve, from round to round.
#[derive(Clone, Debug, Default)]
pub struct Reserve {
    rounds_left: u32,
}

impl Reserve {
    /// Whether one of the `usable` vCPUs is kept free in the next round, after one that went as
    /// `pace` says.
    pub fn round(&mut self, usable: usize, pace: &Pace) -> bool {
        let asked = usable >= VCPUS_MIN
            && pace.steal_ratio >= STEAL_RATIO_MIN
            && pace.latency_wakes_per_s >= WAKES_PER_S_MIN
            && pace.cpu_bound_vcpus >= FULL_RATIO * (usable - 1) as f64;
        self.rounds_left = match asked {
            true => ROUNDS_HELD,
            false if usable >= VCPUS_MIN => self.rounds_left.saturating_sub(1),
            false => 0,
        };
        self.rounds_left > 0
    }
}

/// Keep one of the vCPUs of `told` free: the usable one with the most capacity; that of `before` while
/// no other has more, else the last one, for interrupts come to the first. Others' work looks at it
/// last.
pub fn keep_free(told: &mut [VcpuHints], before: &[VcpuHints]) {
    let was = |vcpu: u32| before.iter().any(|old| old.vcpu == vcpu && old.reserve);
    let usable = |told: &&mut VcpuHints| !told.banned() && !told.parked;
    let rank = |told: &&mut VcpuHints| {
        (told.capacity_1024 / CAPACITY_STEP_1024, was(told.vcpu), told.vcpu)
    };
    let Some(best) = told.iter_mut().filter(usable).max_by_key(rank) else { return };
    best.reserve = true;
    let reserve = best.vcpu;
    for told in told.iter_mut() {
        let Some(at) = told.candidates.iter().position(|&vcpu| vcpu == reserve) else { continue };
        if at < told.nr_near as usize {
            told.nr_near -= 1;
        }
        told.candidates.sort_by_key(|&vcpu| vcpu == reserve);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{VcpuFacts, plan};

    /// Work that asks for a reserve among four vCPUs.
    fn full() -> Pace {
        Pace {
            latency_wakes_per_s: 200.0,
            steal_ratio: 0.5,
            cpu_bound_vcpus: 4.0,
            ..Pace::default()
        }
    }

    #[test]
    fn all_conditions_have_to_hold() {
        assert!(Reserve::default().round(4, &full()));
        let kept = Pace { cpu_bound_vcpus: 3.0, ..full() };
        assert!(Reserve::default().round(4, &kept), "nor does it end for what it has done itself");
        for (usable, pace) in [
            (1, full()),
            (0, full()),
            (4, Pace { steal_ratio: 0.04, ..full() }),
            (4, Pace { latency_wakes_per_s: 9.0, ..full() }),
            (4, Pace { cpu_bound_vcpus: 2.0, ..full() }),
        ] {
            assert!(!Reserve::default().round(usable, &pace), "{usable} {pace:?}");
        }
    }

    #[test]
    fn it_outlasts_a_pause_and_ends() {
        let mut reserve = Reserve::default();
        let quiet = Pace::default();
        assert!(reserve.round(4, &full()));
        let held = (0..100).take_while(|_| reserve.round(4, &quiet)).count();
        assert_eq!(held as u32, ROUNDS_HELD - 1);
        assert!(reserve.round(4, &full()) && !reserve.round(1, &full()));
        assert!(!reserve.round(4, &quiet));
    }

    fn kept_free(told: &[VcpuHints]) -> Vec<u32> {
        told.iter().filter(|told| told.reserve).map(|told| told.vcpu).collect()
    }

    #[test]
    fn the_best_usable_one_is_kept_free_and_stays_so() {
        let mut facts: Vec<_> = (0..4).map(VcpuFacts::unknown).collect();
        facts[3].straggler = true;
        let mut first = plan(&facts, &[], usize::MAX);
        keep_free(&mut first, &[]);
        assert_eq!(kept_free(&first), [2]);
        assert_eq!((first[0].candidates.as_slice(), first[0].nr_near), ([1, 3, 2].as_slice(), 1));
        facts[3].straggler = false;
        let mut second = plan(&facts, &first, usize::MAX);
        keep_free(&mut second, &first);
        assert_eq!(kept_free(&second), [2]);
        facts[2].capacity_1024 = 500;
        let mut third = plan(&facts, &second, usize::MAX);
        keep_free(&mut third, &second);
        assert_eq!(kept_free(&third), [3]);
        assert!(third[3].flags() & intf::VAWARE_VCPU_RESERVE != 0);
    }

    #[test]
    fn none_is_where_none_is_usable() {
        let facts = [VcpuFacts { straggler: true, ..VcpuFacts::unknown(0) }];
        let mut told = plan(&facts, &[], usize::MAX);
        told[0].straggler = true;
        keep_free(&mut told, &[]);
        assert!(kept_free(&told).is_empty());
    }
}
