// SPDX-License-Identifier: GPL-2.0-only
//! The policies by name, as sets of bits of `enum vaware_policy`.

use std::str::FromStr;

/// A policy that can be switched on and off while the scheduler runs.
pub struct Policy {
    pub name: &'static str,
    bit: u64,
    /// What it does, for people.
    pub purpose: &'static str,
}

impl Policy {
    const fn new(bit: u32, purpose: &'static str) -> Self {
        Self { name: intf::POLICIES[bit.trailing_zeros() as usize], bit: bit as u64, purpose }
    }
}

/// All policies.
pub const POLICIES: [Policy; intf::POLICIES.len()] = [
    Policy::new(
        intf::VAWARE_POLICY_BVS,
        "latency-sensitive tasks go to the vCPU with the least expected delay",
    ),
    Policy::new(
        intf::VAWARE_POLICY_IVH,
        "CPU-bound tasks leave a vCPU before it is stopped, where that is found to pay",
    ),
    Policy::new(
        intf::VAWARE_POLICY_RESCUE,
        "a wake-up that has not begun to run in time wakes a second vCPU",
    ),
    Policy::new(
        intf::VAWARE_POLICY_RWC,
        "stragglers serve best-effort work only, one vCPU of a stack is used",
    ),
    Policy::new(
        intf::VAWARE_POLICY_CAPACITY,
        "CPU-bound tasks go to the vCPUs with the most capacity",
    ),
    Policy::new(
        intf::VAWARE_POLICY_RETAIN,
        "idle vCPUs poll before they halt, where that is found to pay; not in all",
    ),
    Policy::new(
        intf::VAWARE_POLICY_GATHER,
        "work of short bursts keeps to few vCPUs, as long as it does not wait; not in all",
    ),
    Policy::new(
        intf::VAWARE_POLICY_RESERVE,
        "CPU-bound work leaves one vCPU free for latency-sensitive tasks, where that pays; not in all",
    ),
    Policy::new(
        intf::VAWARE_POLICY_SHOOTDOWN,
        "a process that waits for stopped vCPUs at TLB shootdowns keeps to the steady ones; not in all",
    ),
];

const ALL: &str = "all";

/// Policies that are not in `all`, but are on if they are named: three have not proven themselves, the
/// reserve takes from some work what it gives to other.
const NOT_IN_ALL: u64 = (intf::VAWARE_POLICY_RETAIN
    | intf::VAWARE_POLICY_GATHER
    | intf::VAWARE_POLICY_RESERVE
    | intf::VAWARE_POLICY_SHOOTDOWN) as u64;

/// A set of policies. Written as names joined by commas, or `all` or `none`; in TOML also as a
/// list. `all` can be among the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicySet(u64);

impl PolicySet {
    /// Every policy that is on unless somebody chooses.
    pub fn all() -> Self {
        Self(intf::ALL_POLICIES & !NOT_IN_ALL)
    }

    /// The bits as the kernel half reads them.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Whether `policy` is in it.
    pub fn has(self, policy: &Policy) -> bool {
        self.0 & policy.bit != 0
    }

    /// The names of those in it.
    pub fn names(self) -> Vec<&'static str> {
        POLICIES.iter().filter(|policy| self.has(policy)).map(|policy| policy.name).collect()
    }

    /// Whether vCPUs can be banned from normal work.
    pub fn bans(self) -> bool {
        self.0 & u64::from(intf::VAWARE_POLICY_RWC) != 0
    }

    /// Whether idle vCPUs may poll.
    pub fn retains(self) -> bool {
        self.0 & u64::from(intf::VAWARE_POLICY_RETAIN) != 0
    }

    /// Whether work may be gathered on few vCPUs.
    pub fn gathers(self) -> bool {
        self.0 & u64::from(intf::VAWARE_POLICY_GATHER) != 0
    }

    /// Whether a vCPU may be kept free of CPU-bound work.
    pub fn reserves(self) -> bool {
        self.0 & u64::from(intf::VAWARE_POLICY_RESERVE) != 0
    }

    /// Whether processes may be confined to steady vCPUs.
    pub fn confines(self) -> bool {
        self.0 & u64::from(intf::VAWARE_POLICY_SHOOTDOWN) != 0
    }

    /// The set made of the policies with these names.
    ///
    /// # Errors
    /// A sentence that names the unknown policy and those that exist.
    pub fn from_names<S: AsRef<str>>(names: &[S]) -> Result<Self, String> {
        let mut bits = 0;
        for name in names {
            let name = name.as_ref().trim();
            if name == ALL {
                bits |= Self::all().0;
                continue;
            }
            let Some(policy) = POLICIES.iter().find(|policy| policy.name == name) else {
                let (usual, others): (Vec<_>, Vec<_>) =
                    POLICIES.iter().partition(|policy| Self::all().has(policy));
                let names = |of: Vec<&Policy>| -> Vec<_> { of.iter().map(|p| p.name).collect() };
                let name: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
                return Err(format!(
                    "there is no policy {name:?}; choose from {} (these are all), {}, or write all or none",
                    names(usual).join(", "),
                    names(others).join(", ")
                ));
            };
            bits |= policy.bit;
        }
        Ok(Self(bits))
    }
}

impl FromStr for PolicySet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "none" => Ok(Self(0)),
            names => Self::from_names(&names.split(',').collect::<Vec<_>>()),
        }
    }
}

impl std::fmt::Display for PolicySet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let on = self.names();
        f.write_str(if on.is_empty() { "none".into() } else { on.join(",") }.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_read_again() {
        for text in ["none", "bvs", "rescue,rwc", "bvs,ivh,rescue"] {
            let set: PolicySet = text.parse().unwrap_or(PolicySet(u64::MAX));
            assert_eq!(set.to_string(), text);
        }
        assert_eq!("all".parse(), Ok(PolicySet::all()));
    }

    #[test]
    fn what_is_not_in_all_has_to_be_named() {
        let set = |text: &str| text.parse().unwrap_or(PolicySet(0));
        assert!(!set("all").retains() && !set("all").gathers() && !set("all").reserves());
        assert!(set("reserve").reserves() && set("shootdown").confines() && !set("all").confines());
        assert!(set("all,retain").retains() && set("all,retain").bans());
    }

    #[test]
    fn an_unknown_policy_is_named_with_the_known_ones() {
        let error = "bvs,turbo".parse::<PolicySet>().err().unwrap_or_default();
        assert!(error.contains("turbo") && error.contains("capacity"), "{error}");
    }
}
