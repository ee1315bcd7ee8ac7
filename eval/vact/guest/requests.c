// SPDX-License-Identifier: GPL-2.0-only
/*
 * An open-loop request server: requests WORKERS WORK_US PERIOD_US
 *
 * Each worker is due for a request of WORK_US every PERIOD_US, whether or not it is through with
 * the last one, and sleeps between. The work is a number of turns, not a time: what the host takes
 * makes a request late, not small.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRIALS 50

static uint64_t turns, period_ns;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void work(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		__asm__ volatile("" ::: "memory");
}

/* The quickest of several trials is the one in which nothing was taken. */
static uint64_t turns_per_ms(void)
{
	uint64_t best_ns = UINT64_MAX;
	const uint64_t count = 100000;

	for (int i = 0; i < TRIALS; i++) {
		uint64_t began = now_ns(), took;

		work(count);
		took = now_ns() - began;
		if (took < best_ns)
			best_ns = took;
	}
	return count * 1000000 / best_ns;
}

static void *serve(void *unused)
{
	uint64_t due = now_ns();

	for (;; due += period_ns) {
		struct timespec t = { .tv_sec = due / 1000000000, .tv_nsec = due % 1000000000 };

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
			;
		work(turns);
	}
	return unused;
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 64;
	turns = turns_per_ms() * strtoull(argv[2], NULL, 10) / 1000;
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
