// SPDX-License-Identifier: GPL-2.0-only
//! Which vCPUs had nothing to do for a while, so that they halted.

use std::collections::{HashMap, HashSet};

use crate::vcap::passive::{ProcStat, TimesSource};

/// Part of the time from which on a vCPU counts as having halted in between. The file that tells has a
/// unit of 10 ms.
const REST_RATIO: f64 = 0.1;

/// Which vCPUs were idle between the last two updates.
#[derive(Debug, Default)]
pub struct Idle {
    updated_ns: u64,
    idle_ns: HashMap<u32, u64>,
    had_rest: HashSet<u32>,
}

impl Idle {
    /// Read the kernel's accounts. What cannot be read was not idle.
    pub fn update(&mut self, now_ns: u64) {
        let times = ProcStat::new(false).read().unwrap_or_default();
        let idle_ns = times.into_iter().map(|(vcpu, times)| (vcpu, times.idle_ns)).collect();
        self.learn(now_ns, idle_ns);
    }

    fn learn(&mut self, now_ns: u64, idle_ns: HashMap<u32, u64>) {
        let enough_ns = REST_RATIO * now_ns.saturating_sub(self.updated_ns) as f64;
        let rested = |(vcpu, now): (&u32, &u64)| {
            let before = self.idle_ns.get(vcpu)?;
            (now.saturating_sub(*before) as f64 >= enough_ns.max(1.0)).then_some(*vcpu)
        };
        self.had_rest = idle_ns.iter().filter_map(rested).collect();
        self.idle_ns = idle_ns;
        self.updated_ns = now_ns;
    }

    /// Whether this vCPU was idle for a good part of the time between the last two updates.
    pub fn had_rest(&self, vcpu: u32) -> bool {
        self.had_rest.contains(&vcpu)
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
}
