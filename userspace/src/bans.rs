// SPDX-License-Identifier: GPL-2.0-only
//! For how long each vCPU has been banned from normal work.

use std::collections::BTreeMap;
use std::time::Duration;

use hints::VcpuHints;

/// The bans of one vCPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ban {
    /// Whether it is banned at present.
    pub now: bool,
    /// How long it has been, all bans together.
    pub total: Duration,
}

/// The bans of every vCPU that inputs have been told of, by number.
pub type Bans = BTreeMap<u32, Ban>;

/// What was told last has held for `passed`; from now on `told` holds, and bans if `rwc` is on.
pub fn account(bans: &mut Bans, passed: Duration, told: &[VcpuHints], rwc: bool) {
    for ban in bans.values_mut().filter(|ban| ban.now) {
        ban.total += passed;
        ban.now = false;
    }
    for inputs in told {
        bans.entry(inputs.vcpu).or_default().now = rwc && inputs.banned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hints::{VcpuFacts, plan};

    const S: Duration = Duration::from_secs(1);

    /// vCPUs 0 and 1, of which vCPU 1 is banned.
    fn stacked() -> Vec<VcpuHints> {
        plan(&[VcpuFacts::unknown(0), VcpuFacts { stack: 0, ..VcpuFacts::unknown(1) }], &[], 9)
    }

    fn of(bans: &Bans, vcpu: u32) -> (bool, Duration) {
        bans.get(&vcpu).map_or((false, Duration::ZERO), |ban| (ban.now, ban.total))
    }

    #[test]
    fn time_counts_from_the_ban_to_its_end() {
        let mut bans = Bans::new();
        account(&mut bans, S * 5, &stacked(), true);
        assert_eq!((of(&bans, 0), of(&bans, 1)), ((false, Duration::ZERO), (true, Duration::ZERO)));
        account(&mut bans, S * 2, &stacked(), true);
        account(&mut bans, S, &plan(&[VcpuFacts::unknown(0), VcpuFacts::unknown(1)], &[], 9), true);
        account(&mut bans, S * 9, &stacked(), true);
        assert_eq!((of(&bans, 0), of(&bans, 1)), ((false, Duration::ZERO), (true, S * 3)));
    }

    #[test]
    fn nobody_is_banned_without_the_policy_or_while_offline() {
        let mut bans = Bans::new();
        account(&mut bans, S, &stacked(), false);
        assert!(!of(&bans, 1).0);
        account(&mut bans, S, &stacked(), true);
        account(&mut bans, S, &stacked()[..1], true);
        account(&mut bans, S, &stacked()[..1], true);
        assert_eq!(of(&bans, 1), (false, S));
    }
}
