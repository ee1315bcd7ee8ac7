// SPDX-License-Identifier: GPL-2.0-only
/* A histogram of latencies from a microsecond on, in bins that are 2 % wide. */
#ifndef VAWARE_BINS_H
#define VAWARE_BINS_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>

#define BIN_GROWTH 1.02
#define BINS 1200

static inline void bins_count(uint64_t *counts, uint64_t latency_ns)
{
	double us = latency_ns / 1000.0;
	int bin = us <= 1 ? 0 : (int)ceil(log(us) / log(BIN_GROWTH));

	counts[bin < BINS ? bin : BINS - 1]++;
}

/* As members of a JSON object: the unit, and by upper bound how many there are. */
static inline void bins_print(const uint64_t *counts)
{
	printf("\"unit\": \"us\", \"counts\": {");
	for (int bin = 0, first = 1; bin < BINS; bin++) {
		if (!counts[bin])
			continue;
		printf("%s\"%.4g\": %llu", first ? "" : ", ", pow(BIN_GROWTH, bin),
		       (unsigned long long)counts[bin]);
		first = 0;
	}
	printf("}");
}

#endif
