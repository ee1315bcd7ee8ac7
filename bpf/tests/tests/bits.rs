// SPDX-License-Identifier: GPL-2.0-only
//! Properties of sets of vCPUs.

use policy_tests::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn the_lowest_bit_is_found(bits in 1..=u64::MAX, shift in 0..64u32) {
        prop_assert_eq!(pure!(bits_lowest(bits)), bits.trailing_zeros());
        prop_assert_eq!(pure!(bits_lowest(1 << shift)), shift);
    }

    #[test]
    fn the_highest_bit_is_found(bits in 1..=u64::MAX, shift in 0..64u32) {
        prop_assert_eq!(pure!(bits_highest(bits)), 63 - bits.leading_zeros());
        prop_assert_eq!(pure!(bits_highest(1 << shift)), shift);
    }
}
