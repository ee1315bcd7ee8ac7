/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which vCPUs have work waiting in their queues.
 */
#include "waiting.bpf.h"

u64 waiting[2][WAITING_WORDS];

__noinline int waiting_next(u32 start, u32 offset, u32 end, u32 best_effort)
{
	u32 i;

	/* Each pass ends a word, or the circle, which may be in the midst of one. */
	bpf_for (i, 0, WAITING_WORDS + 1) {
		u32 at = (start + offset) % nr_vcpus, rest;
		u64 bits;

		if (offset >= end)
			break;
		bits = *waiting_word(at, best_effort) >> (at & 63);
		if (bits) {
			offset += bits_lowest(bits);
			return offset < end ? offset : -1;
		}
		rest = 64 - (at & 63);
		offset += rest < nr_vcpus - at ? rest : nr_vcpus - at;
	}
	return -1;
}
