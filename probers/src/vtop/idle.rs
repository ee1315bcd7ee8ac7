// SPDX-License-Identifier: GPL-2.0-only
//! Which vCPUs had nothing to do for a while, so that they halted; and whether the VM had.

use std::collections::{HashMap, HashSet};

use crate::vcap::passive::{ProcStat, TimesSource};

/// Part of the time from which on a vCPU counts as having halted in between. The file that tells has a
/// unit of 10 ms.
const REST_RATIO: f64 = 0.1;

/// Part of the time from which on, over all vCPUs, a VM counts as having nothing to do.
const QUIET_RATIO: f64 = 0.97;

/// Which vCPUs were idle between the last two updates.
#[derive(Debug, Default)]
pub struct Idle {
    updated_ns: u64,
    idle_ns: HashMap<u32, u64>,
    had_rest: HashSet<u32>,
    is_quiet: bool,
}

impl Idle {
    /// Read the kernel's accounts. What cannot be read was not idle.
    pub fn update(&mut self, now_ns: u64) {
        let times = ProcStat::new(false).read().unwrap_or_default();
        let idle_ns = times.into_iter().map(|(vcpu, times)| (vcpu, times.idle_ns)).collect();
        self.learn(now_ns, idle_ns);
    }

    fn learn(&mut self, now_ns: u64, idle_ns: HashMap<u32, u64>) {
        let passed_ns = now_ns.saturating_sub(self.updated_ns) as f64;
        let enough_ns = (REST_RATIO * passed_ns).max(1.0);
        let rest = |(vcpu, now): (&u32, &u64)| {
            let before = self.idle_ns.get(vcpu)?;
            Some((*vcpu, now.saturating_sub(*before) as f64))
        };
        let rests: HashMap<u32, f64> = idle_ns.iter().filter_map(rest).collect();
        let all_ns = passed_ns * idle_ns.len() as f64;
        self.is_quiet = all_ns > 0.0 && rests.values().sum::<f64>() >= QUIET_RATIO * all_ns;
        let had_rest = |(vcpu, ns): (u32, f64)| (ns >= enough_ns).then_some(vcpu);
        self.had_rest = rests.into_iter().filter_map(had_rest).collect();
        self.idle_ns = idle_ns;
        self.updated_ns = now_ns;
    }

    /// Whether this vCPU was idle for a good part of the time between the last two updates.
    pub fn had_rest(&self, vcpu: u32) -> bool {
        self.had_rest.contains(&vcpu)
    }

    /// Whether the VM had next to nothing to do between the last two updates.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_is_a_good_part_of_the_time_between_two_updates() {
        let mut idle = Idle::default();
        idle.learn(1_000, HashMap::from([(0, 500), (1, 500)]));
        assert!(!idle.had_rest(0));
        idle.learn(2_000, HashMap::from([(0, 1_400), (1, 510), (2, 900)]));
        assert!(idle.had_rest(0) && !idle.had_rest(1) && !idle.had_rest(2));
        idle.learn(3_000, HashMap::from([(0, 1_400), (1, 1_500)]));
        assert!(!idle.had_rest(0) && idle.had_rest(1));
    }

    #[test]
    fn a_vm_is_quiet_while_all_its_vcpus_are() {
        let mut idle = Idle::default();
        idle.learn(1_000, HashMap::from([(0, 500), (1, 500)]));
        idle.learn(2_000, HashMap::from([(0, 1_490), (1, 1_480)]));
        assert!(idle.is_quiet());
        idle.learn(3_000, HashMap::from([(0, 2_490), (1, 2_300)]));
        assert!(!idle.is_quiet());
        idle.learn(4_000, HashMap::new());
        assert!(!idle.is_quiet());
    }
}
