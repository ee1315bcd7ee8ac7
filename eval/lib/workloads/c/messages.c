// SPDX-License-Identifier: GPL-2.0-only
/*
 * Message threads that hand requests to worker threads, after the model of schbench: a worker
 * reports that it is free and sleeps, its message thread wakes it, it computes for a while, and
 * reports again. What counts is how long a worker takes from being woken to running.
 *
 *   messages MESSAGE_THREADS WORKERS_OF_EACH THINK_US SECONDS
 *
 * Prints JSON: {"requests": n, "rate": requests per second, "unit": "us", "counts": {"upper bound
 * of a bin": n, ...}}. Bins are 2 % wide.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bins.h"
#include "calibrate.h"

struct message_thread;

struct worker {
	pthread_t thread;
	struct message_thread *boss;
	struct worker *next; /* in the boss's list of free workers */
	atomic_uint go;
	uint64_t woken_ns;
	uint64_t counts[BINS];
};

struct message_thread {
	pthread_t thread;
	_Atomic(struct worker *) idle; /* workers that wait for a request */
	atomic_uint posts;
};

static uint64_t rounds;
static atomic_bool over;

static void futex_wait(atomic_uint *word, unsigned int seen)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void report(struct worker *w)
{
	struct message_thread *boss = w->boss;

	w->next = atomic_load(&boss->idle);
	while (!atomic_compare_exchange_weak(&boss->idle, &w->next, w))
		;
	atomic_fetch_add(&boss->posts, 1);
	futex_wake(&boss->posts);
}

static void *work_on_requests(void *worker)
{
	struct worker *w = worker;

	for (;;) {
		report(w);
		while (!atomic_load(&w->go) && !atomic_load(&over))
			futex_wait(&w->go, 0);
		if (atomic_load(&over))
			return NULL;
		bins_count(w->counts, now_ns() - w->woken_ns);
		atomic_store(&w->go, 0);
		work(rounds);
	}
}

static void wake(struct worker *w)
{
	w->woken_ns = now_ns();
	atomic_store(&w->go, 1);
	futex_wake(&w->go);
}

static void *hand_out_requests(void *message_thread)
{
	struct message_thread *boss = message_thread;

	while (!atomic_load(&over)) {
		unsigned int seen = atomic_load(&boss->posts);
		struct worker *w = atomic_exchange(&boss->idle, NULL);

		if (!w)
			futex_wait(&boss->posts, seen);
		while (w) {
			struct worker *next = w->next; /* it reports again once it is woken */

			wake(w);
			w = next;
		}
	}
	return NULL;
}

static void end_all(struct message_thread *bosses, int message_threads, struct worker *workers,
		    int all)
{
	atomic_store(&over, true);
	for (int i = 0; i < message_threads; i++) {
		atomic_fetch_add(&bosses[i].posts, 1);
		futex_wake(&bosses[i].posts);
		pthread_join(bosses[i].thread, NULL);
	}
	for (int i = 0; i < all; i++) {
		atomic_store(&workers[i].go, 1);
		futex_wake(&workers[i].go);
	}
	for (int i = 0; i < all; i++)
		pthread_join(workers[i].thread, NULL);
}

int main(int argc, char **argv)
{
	int message_threads = argc == 5 ? atoi(argv[1]) : 0;
	int each = argc == 5 ? atoi(argv[2]) : 0, all = message_threads * each;

	if (message_threads < 1 || each < 1) {
		fprintf(stderr,
			"usage: messages MESSAGE_THREADS WORKERS_OF_EACH THINK_US SECONDS\n");
		return 64;
	}
	uint64_t counts[BINS] = { 0 }, requests = 0;
	struct message_thread *bosses = calloc(message_threads, sizeof(*bosses));
	struct worker *workers = calloc(all, sizeof(*workers));

	if (!bosses || !workers)
		return 1;
	rounds = atof(argv[3]) * calibrate_rounds_per_us();

	uint64_t begin = now_ns(), took_ns;

	for (int i = 0; i < message_threads; i++)
		if (pthread_create(&bosses[i].thread, NULL, hand_out_requests, &bosses[i]))
			return 1;
	for (int i = 0; i < all; i++) {
		workers[i].boss = &bosses[i % message_threads];
		if (pthread_create(&workers[i].thread, NULL, work_on_requests, &workers[i]))
			return 1;
	}
	usleep(atof(argv[4]) * 1e6);
	took_ns = now_ns() - begin;
	end_all(bosses, message_threads, workers, all);
	for (int i = 0; i < all; i++)
		for (int bin = 0; bin < BINS; bin++) {
			counts[bin] += workers[i].counts[bin];
			requests += workers[i].counts[bin];
		}
	printf("{\"requests\": %llu, \"rate\": %.6g, ", (unsigned long long)requests,
	       requests * 1e9 / took_ns);
	bins_print(counts);
	printf("}\n");
	return 0;
}
