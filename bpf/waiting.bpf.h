/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which vCPUs have work waiting in their queues: a bit for each, so that who looks for work does
 * not ask all queues.
 *
 * A hint. It is set before a task is queued, for that happens after the callback; it is cleared by
 * whoever finds the queue empty, except by a thief while its vCPU is being woken. A task that is
 * queued at that moment is not advertised: until the next tick of its own vCPU, which never goes by
 * the hint.
 */
#ifndef VAWARE_WAITING_BPF_H
#define VAWARE_WAITING_BPF_H

#include "vaware.bpf.h"

#include "policy/bits.h"

#define WAITING_WORDS 128 /* CONFIG_NR_CPUS of distributions is 8192 at most */

/* Words that are looked at to tell that nothing waits. */
#define WAITING_WORDS_ASKED 16

extern u64 waiting[2][WAITING_WORDS]; /* [1] best-effort work */

/* Return the word that holds the bit of @cpu. (The verifier takes a bool for any number.) */
static inline u64 *waiting_word(s32 cpu, u32 best_effort)
{
	return &waiting[best_effort & 1][((u32)cpu / 64) % WAITING_WORDS];
}

/* Return true if work is believed to wait for @cpu. */
static inline bool waiting_at(s32 cpu, u32 best_effort)
{
	return *waiting_word(cpu, best_effort) >> (cpu & 63) & 1;
}

/* Note that work waits for @cpu. Written only if that is new: all share the word. */
static inline void waiting_set(s32 cpu, u32 best_effort)
{
	u64 *word = waiting_word(cpu, best_effort), bit = 1ULL << (cpu & 63);

	if (!(*word & bit))
		__sync_fetch_and_or(word, bit);
}

/* The queue of @cpu was found empty. */
static inline void waiting_clear(s32 cpu, u32 best_effort)
{
	u64 *word = waiting_word(cpu, best_effort), bit = 1ULL << (cpu & 63);

	if (*word & bit)
		__sync_fetch_and_and(word, ~bit);
}

/*
 * Return true if no work is believed to wait. Unrolled: the verifier knows how many vCPUs there
 * are, and deletes what they do not need. Beyond 1024 of them it says no.
 */
static __always_inline bool waiting_nowhere(u32 best_effort)
{
	u32 nr = nr_vcpus, i; /* one read: it is volatile */

#pragma unroll
	for (i = 0; i < WAITING_WORDS_ASKED; i++) {
		if (nr <= i * 64)
			return true;
		if (waiting[best_effort & 1][i])
			return false;
	}
	return nr <= WAITING_WORDS_ASKED * 64;
}

/*
 * Return the least offset from @offset on, below @end, at which work waits: for vCPU @start plus
 * that, counted in a circle. -1 if there is none. Global: the verifier checks it once.
 */
int waiting_next(u32 start, u32 offset, u32 end, u32 best_effort);

#endif /* VAWARE_WAITING_BPF_H */
