// SPDX-License-Identifier: GPL-2.0-only
//! What crosses the boundary between the kernel half and everything else: `bpf/intf.h`, bound once. Its
//! structs and constants have their names in C; [`COUNTERS`], [`CLASSES`], [`POLICIES`], [`VERDICTS`],
//! [`OUTCOMES`], [`TARGETS`] and [`STEAL_SOURCES`] are the names of enumerators, in the order of their values, as
//! people see them.

#[allow(dead_code, non_camel_case_types, non_snake_case, non_upper_case_globals, clippy::all)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;

include!(concat!(env!("OUT_DIR"), "/names.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_at_the_values_of_their_enumerators() {
        assert_eq!(COUNTERS.len(), VAWARE_NR_COUNTERS as usize);
        assert_eq!(COUNTERS[VAWARE_YIELD_IGNORED as usize], "yield_ignored");
        assert_eq!(CLASSES.len(), VAWARE_NR_CLASSES as usize);
        assert_eq!(CLASSES[VAWARE_CLASS_BEST_EFFORT as usize], "best-effort");
        assert_eq!(STEAL_SOURCES[VAWARE_STEAL_KVM as usize], "kvm");
        assert_eq!(VERDICTS[VAWARE_TRIAL_LOSES as usize], "loses");
    }

    #[test]
    fn policies_are_bits_without_a_hole() {
        assert_eq!(POLICIES[VAWARE_POLICY_BVS.trailing_zeros() as usize], "bvs");
        assert_eq!(ALL_POLICIES, (1 << POLICIES.len()) - 1);
        assert_eq!(POLICIES.len(), VAWARE_NR_POLICIES as usize);
        assert_eq!(VERDICTS[VAWARE_TRIAL_LOSES as usize], "loses");
        assert_eq!(OUTCOMES[VAWARE_OUTCOME_WAIT as usize], "wait");
    }
}
