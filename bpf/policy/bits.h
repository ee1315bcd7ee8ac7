/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Bits in words of 64. BPF has no instruction to find one.
 */
#ifndef VAWARE_POLICY_BITS_H
#define VAWARE_POLICY_BITS_H

#include "../intf.h"

/* Return how many bits are set in @bits: counted in parallel, with no branch for the verifier. */
static inline u32 bits_count(u64 bits)
{
	bits -= (bits >> 1) & 0x5555555555555555ULL;
	bits = (bits & 0x3333333333333333ULL) + ((bits >> 2) & 0x3333333333333333ULL);
	bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return (bits * 0x0101010101010101ULL) >> 56;
}

/* Return the number of the lowest bit that is set in @bits, which is not 0. */
static inline u32 bits_lowest(u64 bits)
{
	return bits_count((bits & -bits) - 1); /* a one for each bit below */
}

/* Return the number of the highest bit that is set in @bits, which is not 0. */
static inline u32 bits_highest(u64 bits)
{
	u32 by;

	for (by = 1; by < 64; by *= 2)
		bits |= bits >> by; /* a one for each bit below, and for itself */
	return bits_count(bits) - 1;
}

#endif
