/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sets of vCPUs in words of 64 bits. BPF has no instruction to find a bit.
 */
#ifndef VAWARE_POLICY_BITS_H
#define VAWARE_POLICY_BITS_H

#include "../intf.h"

/*
 * Return the number of the lowest bit that is set in @bits, which is not 0: the ones below it are
 * counted in parallel, without a branch for the verifier to follow.
 */
static inline u32 bits_lowest(u64 bits)
{
	u64 below = (bits & -bits) - 1; /* a one for each bit below */

	below -= (below >> 1) & 0x5555555555555555ULL;
	below = (below & 0x3333333333333333ULL) + ((below >> 2) & 0x3333333333333333ULL);
	below = (below + (below >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return (below * 0x0101010101010101ULL) >> 56;
}

#endif
