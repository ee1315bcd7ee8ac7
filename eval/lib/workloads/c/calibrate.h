// SPDX-License-Identifier: GPL-2.0-only
/*
 * Work of a known length, for the load generators: a loop without clock reads or memory traffic, so
 * that a stolen vCPU delays it and nothing else does.
 */
#ifndef VAWARE_CALIBRATE_H
#define VAWARE_CALIBRATE_H

#include <stdint.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/*
 * Do `rounds` rounds of work. A round has many steps: emulated vCPUs differ by a cycle or two in
 * what the end of a round takes them, which would be a fifth of a single step.
 */
static inline void work(uint64_t rounds)
{
	uint64_t x = rounds;

	for (uint64_t i = 0; i < rounds; i++)
#pragma GCC unroll 16
		for (int step = 0; step < 16; step++) {
			x = x * 6364136223846793005ull + 1442695040888963407ull;
			__asm__ volatile("" : "+r"(x));
		}
}

/* Rounds of work() in a microsecond of an undisturbed vCPU: the fastest of many short batches. */
static inline double calibrate_rounds_per_us(void)
{
	const uint64_t rounds = 1500;
	uint64_t best_ns = UINT64_MAX;

	for (int i = 0; i < 100; i++) {
		uint64_t begin = now_ns(), took;

		work(rounds);
		took = now_ns() - begin;
		if (took < best_ns)
			best_ns = took;
	}
	return rounds * 1000.0 / best_ns;
}

#endif
