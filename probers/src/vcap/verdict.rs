// SPDX-License-Identifier: GPL-2.0-only
//! Which vCPUs are stragglers, with hysteresis. Pure.

use crate::snapshot::{CAPACITY_SCALE, Estimate, Vcpu, Verdict};

/// A vCPU with this part of a whole core of the best speed is as good as its hypervisor promises.
const GOOD_RATIO: f64 = 0.8;

/// From this part of the median capacity on a vCPU is no straggler any more.
pub const LEAVE_MEDIAN_RATIO: f64 = 0.3;

/// Up to where a vCPU is a straggler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Below this part of the median capacity.
    pub median_ratio: f64,
    /// As long as all that are as slow or slower have no more than this part of the capacity of all
    /// together: work that has no slowest part to wait for loses so much without them.
    pub total_ratio: f64,
}

/// When a vCPU becomes a straggler, and when it no longer is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StragglerRule {
    /// Within these bounds it becomes one.
    pub enter: Bounds,
    /// Beyond these it is none any more; above `enter`.
    pub leave: Bounds,
}

impl Default for StragglerRule {
    /// Work that waits for its slowest part is better off without a vCPU from half of the usual
    /// capacity down: two that share a usual one both get more. A fifth keeps clear of vCPUs with
    /// half a core among whole ones, whatever their estimates' errors. (vSched 3.4: "significantly
    /// lower (e.g., 10x lower)".)
    fn default() -> Self {
        Self {
            enter: Bounds { median_ratio: 0.2, total_ratio: 0.05 },
            leave: Bounds { median_ratio: LEAVE_MEDIAN_RATIO, total_ratio: 0.075 },
        }
    }
}

impl StragglerRule {
    /// Judge each vCPU by its capacity; `verdict` holds the previous judgement. Capacities that are not
    /// trusted leave a straggler one, and make none. Of those that are, the error does not count: what
    /// a wrong ban costs is bounded, and of an idle vCPU too little is seen for more.
    pub fn judge(self, vcpus: &mut [Vcpu]) {
        let mut known: Vec<f64> = vcpus
            .iter()
            .filter(|vcpu| vcpu.online)
            .filter_map(trusted_capacity)
            .map(|capacity| capacity.value)
            .collect();
        known.sort_by(f64::total_cmp);
        // The upper one: at most half of the values are below it.
        let median = known.get(known.len() / 2).copied();
        let total: f64 = known.iter().sum();
        let up_to = |value: f64| known.iter().take_while(|&&other| other <= value).sum::<f64>();
        for vcpu in vcpus {
            let was_straggler = vcpu.verdict == Verdict::Straggler;
            vcpu.verdict = match (vcpu.online, trusted_capacity(vcpu), median) {
                (false, ..) => Verdict::Offline,
                (true, Some(capacity), Some(median)) => {
                    let bounds = if was_straggler { self.leave } else { self.enter };
                    let is_straggler = capacity.value < bounds.median_ratio * median
                        && up_to(capacity.value) <= bounds.total_ratio * total;
                    if is_straggler {
                        Verdict::Straggler
                    } else if capacity.value >= GOOD_RATIO * CAPACITY_SCALE {
                        Verdict::Good
                    } else {
                        Verdict::Reduced
                    }
                }
                (true, ..) if was_straggler => Verdict::Straggler,
                (true, ..) => Verdict::Unknown,
            };
        }
    }
}

fn trusted_capacity(vcpu: &Vcpu) -> Option<Estimate> {
    vcpu.capacity.filter(Estimate::is_trusted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Estimate;
    use proptest::prelude::*;

    fn vcpu(id: u32, capacity: f64) -> Vcpu {
        let capacity = Some(Estimate { value: capacity, age_s: 0.0, confidence: 0.98 });
        Vcpu { id, online: true, capacity, ..Vcpu::default() }
    }

    fn verdicts(vcpus: &[Vcpu]) -> Vec<Verdict> {
        vcpus.iter().map(|vcpu| vcpu.verdict).collect()
    }

    proptest! {
        /// Never more than half of the vCPUs nor a twentieth of what they have, however that is.
        #[test]
        fn little_is_given_up(capacities in prop::collection::vec(0.0..1024.0f64, 1..64)) {
            let mut vcpus: Vec<_> =
                capacities.iter().zip(0..).map(|(capacity, id)| vcpu(id, *capacity)).collect();
            StragglerRule::default().judge(&mut vcpus);
            let stragglers = || vcpus.iter().filter(|vcpu| vcpu.verdict == Verdict::Straggler);
            prop_assert!(stragglers().count() <= vcpus.len() / 2);
            let given_up: f64 = stragglers().map(|vcpu| capacities[vcpu.id as usize]).sum();
            prop_assert!(given_up <= 0.0501 * capacities.iter().sum::<f64>());
        }

        /// Each vCPU that is far slower than whole ones is found, where those have nearly all.
        #[test]
        fn few_slow_ones_among_whole_ones_are_stragglers(slow in 1..5u32, capacity in 0.0..100.0f64) {
            let mut vcpus: Vec<_> = (0..slow).map(|id| vcpu(id, capacity)).collect();
            vcpus.extend((slow..12).map(|id| vcpu(id, 1024.0)));
            StragglerRule::default().judge(&mut vcpus);
            let found = vcpus.iter().filter(|vcpu| vcpu.verdict == Verdict::Straggler).count();
            let given_up = f64::from(slow) * capacity / f64::from(12 - slow) / 1024.0;
            prop_assert!(found == slow as usize || given_up > 0.05, "{} were found", found);
        }

        /// Noise between the two bounds changes nothing.
        #[test]
        fn between_the_bounds_a_verdict_stays(noise in prop::collection::vec(205.0..307.0f64, 1..40)) {
            for before in [Verdict::Straggler, Verdict::Reduced] {
                let mut vcpus: Vec<_> = (1..9).map(|id| vcpu(id, 1024.0)).collect();
                vcpus.push(Vcpu { verdict: before, ..vcpu(0, 0.0) });
                for capacity in &noise {
                    vcpus[8].capacity = vcpu(0, *capacity).capacity;
                    StragglerRule::default().judge(&mut vcpus);
                    prop_assert_eq!(vcpus[8].verdict, before);
                }
            }
        }

        /// The same of what all of them have together.
        #[test]
        fn between_the_bounds_of_the_total_a_verdict_stays(
            noise in prop::collection::vec(108.0..165.0f64, 1..40)
        ) {
            for before in [Verdict::Straggler, Verdict::Reduced] {
                let mut vcpus = vec![vcpu(0, 1024.0), vcpu(1, 1024.0), vcpu(2, 0.0)];
                vcpus[2].verdict = before;
                for capacity in &noise {
                    vcpus[2].capacity = vcpu(2, *capacity).capacity;
                    StragglerRule::default().judge(&mut vcpus);
                    prop_assert_eq!(vcpus[2].verdict, before);
                }
            }
        }
    }

    #[test]
    fn each_verdict_has_its_range() {
        let mut vcpus = vec![vcpu(0, 1024.0), vcpu(1, 900.0), vcpu(2, 500.0), vcpu(3, 40.0)];
        vcpus[1].online = false;
        StragglerRule::default().judge(&mut vcpus);
        let found = verdicts(&vcpus);
        let expected = [Verdict::Good, Verdict::Offline, Verdict::Reduced, Verdict::Straggler];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_known_of_an_idle_vcpu_is_enough() {
        let mut vcpus: Vec<_> = (0..10).map(|id| vcpu(id, 500.0)).collect();
        vcpus.extend([vcpu(10, 50.0), vcpu(11, 45.0)]);
        for vcpu in &mut vcpus {
            vcpu.capacity = vcpu.capacity.map(|c| Estimate { confidence: 0.6, ..c });
        }
        StragglerRule::default().judge(&mut vcpus);
        assert_eq!(
            verdicts(&vcpus[9..]),
            [Verdict::Reduced, Verdict::Straggler, Verdict::Straggler]
        );
    }

    #[test]
    fn without_trust_nothing_is_judged_and_nothing_is_acquitted() {
        let mut vcpus = vec![vcpu(0, 1024.0), vcpu(1, 1024.0), vcpu(2, 10.0), vcpu(3, 10.0)];
        vcpus[3].verdict = Verdict::Straggler;
        for vcpu in &mut vcpus[2..] {
            vcpu.capacity = vcpu.capacity.map(|c| Estimate { confidence: 0.1, ..c });
        }
        StragglerRule::default().judge(&mut vcpus);
        assert_eq!(verdicts(&vcpus)[2..], [Verdict::Unknown, Verdict::Straggler]);
    }
}
