// SPDX-License-Identifier: GPL-2.0-only
/*
 * Data-parallel loops (OpenMP): each region has the same pieces of work and ends with a barrier.
 *
 *   parallel static|dynamic THREADS SECONDS
 *
 * static: each thread has its share fixed, so the slowest vCPU sets the pace; dynamic: threads take
 * pieces as they get done. Prints "done N", pieces, and "rate N": of them per second.
 * OMP_WAIT_POLICY says how threads wait.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate.h"

#define PIECE_US 500
#define PIECES_PER_THREAD 8

int main(int argc, char **argv)
{
	if (argc != 4 || (strcmp(argv[1], "static") && strcmp(argv[1], "dynamic"))) {
		fprintf(stderr, "usage: parallel static|dynamic THREADS SECONDS\n");
		return 64;
	}
	int threads = atoi(argv[2]), pieces = threads * PIECES_PER_THREAD;
	uint64_t rounds = PIECE_US * calibrate_rounds_per_us(), done = 0;
	uint64_t begin = now_ns(), until = begin + atof(argv[3]) * 1e9;

	omp_set_num_threads(threads);
	omp_set_schedule(strcmp(argv[1], "static") ? omp_sched_dynamic : omp_sched_static,
			 strcmp(argv[1], "static") ? 1 : 0);
	while (now_ns() < until) {
#pragma omp parallel for schedule(runtime)
		for (int i = 0; i < pieces; i++)
			work(rounds);
		done += pieces;
	}
	printf("done %llu\nrate %.6g\n", (unsigned long long)done, done * 1e9 / (now_ns() - begin));
	return 0;
}
