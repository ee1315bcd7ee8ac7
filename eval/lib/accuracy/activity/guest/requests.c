// SPDX-License-Identifier: GPL-2.0-only
/*
 * An open-loop request server: requests WORKERS WORK_US PERIOD_US
 *
 * Each worker is due for a request of WORK_US every PERIOD_US, whether or not it is through with
 * the last one, and sleeps between. The work is a number of rounds, not a time: what the host takes
 * makes a request late, not small.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../../workloads/c/calibrate.h"

static uint64_t rounds, period_ns;

static void *serve(void *unused)
{
	uint64_t due = now_ns();

	for (;; due += period_ns) {
		struct timespec t = { .tv_sec = due / 1000000000, .tv_nsec = due % 1000000000 };

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
			;
		work(rounds);
	}
	return unused;
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 64;
	rounds = calibrate_rounds_per_us() * strtoull(argv[2], NULL, 10);
	period_ns = strtoull(argv[3], NULL, 10) * 1000;
	for (int i = 1; i < atoi(argv[1]); i++) {
		struct timespec apart = { .tv_nsec = period_ns / atoi(argv[1]) };
		pthread_t thread;

		errno = pthread_create(&thread, NULL, serve, NULL);
		if (errno) {
			perror("requests");
			return 1;
		}
		nanosleep(&apart, NULL);
	}
	serve(NULL);
}
