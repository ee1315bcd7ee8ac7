// SPDX-License-Identifier: GPL-2.0-only
//! Which vCPUs are stragglers, with hysteresis. Pure.

use crate::snapshot::{CAPACITY_SCALE, Estimate, Vcpu, Verdict};

/// A vCPU with this part of a whole core of the best speed is as good as its hypervisor promises.
const GOOD_RATIO: f64 = 0.8;

/// When a vCPU becomes a straggler, and when it no longer is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StragglerRule {
    /// Below this part of the median capacity it becomes one.
    pub enter_ratio: f64,
    /// From this part of the median capacity on it is none any more; above `enter_ratio`.
    pub leave_ratio: f64,
}

impl Default for StragglerRule {
    fn default() -> Self {
        Self { enter_ratio: 0.1, leave_ratio: 0.15 }
    }
}

impl StragglerRule {
    /// Judge each vCPU by its capacity; `verdict` holds the previous judgement. Capacities that are not
    /// trusted leave a straggler one, and make none; nor do those that are low only within their error.
    pub fn judge(self, vcpus: &mut [Vcpu]) {
        let median = median(
            vcpus.iter().filter(|vcpu| vcpu.online).filter_map(trusted_capacity).map(|c| c.value),
        );
        for vcpu in vcpus {
            let was_straggler = vcpu.verdict == Verdict::Straggler;
            vcpu.verdict = match (vcpu.online, trusted_capacity(vcpu), median) {
                (false, ..) => Verdict::Offline,
                (true, Some(capacity), Some(median)) => {
                    let is_straggler = if was_straggler {
                        capacity.value < self.leave_ratio * median
                    } else {
                        let error = capacity.error_ratio() * CAPACITY_SCALE;
                        capacity.value + error < self.enter_ratio * median
                    };
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

/// The upper median: at most half of the values are below it.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
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
        /// Never more than half of the vCPUs, however the capacities are.
        #[test]
        fn at_most_half_are_stragglers(capacities in prop::collection::vec(0.0..1024.0f64, 1..64)) {
            let mut vcpus: Vec<_> =
                capacities.iter().zip(0..).map(|(capacity, id)| vcpu(id, *capacity)).collect();
            StragglerRule::default().judge(&mut vcpus);
            let stragglers =
                vcpus.iter().filter(|vcpu| vcpu.verdict == Verdict::Straggler).count();
            prop_assert!(stragglers <= vcpus.len() / 2);
        }

        /// Noise between the two bounds changes nothing.
        #[test]
        fn between_the_bounds_a_verdict_stays(noise in prop::collection::vec(103.0..153.0f64, 1..40)) {
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
    fn a_vcpu_that_is_slow_only_within_its_error_is_none() {
        let mut vcpus = vec![vcpu(0, 350.0), vcpu(1, 350.0), vcpu(2, 18.0)];
        vcpus[2].capacity = vcpus[2].capacity.map(|c| Estimate { confidence: 0.8, ..c });
        StragglerRule::default().judge(&mut vcpus);
        assert_eq!(vcpus[2].verdict, Verdict::Reduced);
        vcpus[2].capacity = vcpu(2, 18.0).capacity;
        StragglerRule::default().judge(&mut vcpus);
        assert_eq!(vcpus[2].verdict, Verdict::Straggler);
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
