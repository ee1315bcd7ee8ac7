// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads that synchronise: what a stopped lock holder, or a straggler at a barrier, costs the
 * others.
 *
 *   sync mutex|barrier block|adaptive|spin THREADS SECONDS
 *
 * mutex: each thread works 50 us alone and 10 us under one lock. barrier: each works 200 us, then
 * all meet. block sleeps at once, adaptive spins shortly before it does, spin never sleeps. Prints
 * "done N", critical sections or rounds of the barrier, and "rate N": of them per second.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "calibrate.h"

#define ALONE_US 50
#define LOCKED_US 10
#define BARRIER_US 200
#define SPIN_BEFORE_SLEEP 2000 /* looks at the flag: some 10 us */

enum how { BLOCK, ADAPTIVE, SPIN };

static enum how how;
static double rounds_per_us;
static uint32_t threads;
static atomic_bool over;
static atomic_ullong done;
static pthread_mutex_t mutex;
static pthread_spinlock_t spinlock;
static atomic_uint arrived, generation;

static void relax(void)
{
	__builtin_ia32_pause();
}

static void *with_mutex(void *unused)
{
	uint64_t alone = ALONE_US * rounds_per_us, locked = LOCKED_US * rounds_per_us, sections = 0;

	while (!atomic_load(&over)) {
		work(alone);
		if (how == SPIN)
			pthread_spin_lock(&spinlock);
		else
			pthread_mutex_lock(&mutex);
		work(locked);
		if (how == SPIN)
			pthread_spin_unlock(&spinlock);
		else
			pthread_mutex_unlock(&mutex);
		sections++;
	}
	atomic_fetch_add(&done, sections);
	return unused;
}

/* Wait until the generation is no longer `seen`. */
static void wait_for_generation(unsigned int seen)
{
	for (int i = 0; how == SPIN || (how == ADAPTIVE && i < SPIN_BEFORE_SLEEP); i++) {
		if (atomic_load(&generation) != seen)
			return;
		relax();
	}
	while (atomic_load(&generation) == seen)
		syscall(SYS_futex, &generation, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

/* All meet here; the last one to arrive lets the others go. */
static void meet(void)
{
	unsigned int seen = atomic_load(&generation);

	if (atomic_fetch_add(&arrived, 1) + 1 < threads) {
		wait_for_generation(seen);
		return;
	}
	atomic_store(&arrived, 0);
	atomic_fetch_add(&generation, 1);
	if (how != SPIN)
		syscall(SYS_futex, &generation, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

static void *with_barrier(void *is_first)
{
	static atomic_bool
		last_round; /* decided by one, between two meetings, so that all leave together */
	uint64_t alone = BARRIER_US * rounds_per_us;

	for (;;) {
		work(alone);
		if (is_first && atomic_load(&over))
			atomic_store(&last_round, true);
		meet();
		if (atomic_load(&last_round))
			return NULL;
		meet();
		if (is_first)
			atomic_fetch_add(&done, 1);
	}
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "block", "adaptive", "spin" };
	pthread_mutexattr_t attributes;
	int found = 0;

	for (int i = 0; argc == 5 && i < 3; i++)
		if (!strcmp(argv[2], names[i])) {
			how = i;
			found = 1;
		}
	if (!found || (strcmp(argv[1], "mutex") && strcmp(argv[1], "barrier"))) {
		fprintf(stderr, "usage: sync mutex|barrier block|adaptive|spin THREADS SECONDS\n");
		return 64;
	}
	int is_mutex = !strcmp(argv[1], "mutex");
	double seconds = atof(argv[4]);

	threads = atoi(argv[3]);
	rounds_per_us = calibrate_rounds_per_us();
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_settype(&attributes, how == ADAPTIVE ? PTHREAD_MUTEX_ADAPTIVE_NP
							       : PTHREAD_MUTEX_NORMAL);
	pthread_mutex_init(&mutex, &attributes);
	pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE);

	pthread_t thread[threads];
	uint64_t begin = now_ns();

	for (uint32_t i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, is_mutex ? with_mutex : with_barrier,
				   i ? NULL : &threads))
			return 1;
	usleep(seconds * 1e6);
	atomic_store(&over, true);
	for (uint32_t i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	printf("done %llu\nrate %.6g\n", atomic_load(&done),
	       atomic_load(&done) * 1e9 / (now_ns() - begin));
	return 0;
}
