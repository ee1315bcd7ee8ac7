// SPDX-License-Identifier: GPL-2.0-only
/* Random numbers by seed. */
#include <math.h>

#include "model.h"

/* splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014) */
uint64_t vt_random(VtHost *h)
{
	uint64_t z = h->random += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* From 0 to bound - 1. */
int64_t vt_random_below(VtHost *h, int64_t bound)
{
	return (int64_t)(vt_random(h) >> 1) % bound;
}

/* At least 1: nothing takes no time. */
int64_t vt_random_exponential(VtHost *h, int64_t mean)
{
	double uniform = ((vt_random(h) >> 11) + 1) * 0x1p-53;

	return 1 + (int64_t)(-log(uniform) * mean);
}
