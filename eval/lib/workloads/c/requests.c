// SPDX-License-Identifier: GPL-2.0-only
/*
 * An open-loop request server: requests arrive at random times that do not depend on how the
 * earlier ones fare, and latency counts from the intended arrival, so a stall is seen by all who
 * came meanwhile.
 *
 *   requests RATE_PER_S SERVICE_US WORKERS SECONDS
 *
 * Prints JSON: {"requests": n, "unit": "us", "counts": {"upper bound of a bin": n, ...}}. Bins are
 * 2 % wide. Requests that are not served a second after the end count with the age they then have.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bins.h"
#include "calibrate.h"

#define DRAIN_NS 1000000000ull

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static uint64_t *intended_ns; /* in order of arrival; [served, due) is the queue */
static size_t total, due, served, finished;
static int over;
static uint64_t service_rounds;
static uint64_t counts[BINS];

static void *worker(void *unused)
{
	pthread_mutex_lock(&lock);
	for (;;) {
		size_t mine;

		while (served == due && !over)
			pthread_cond_wait(&arrived, &lock);
		if (over)
			break;
		mine = served++;
		pthread_mutex_unlock(&lock);
		work(service_rounds);
		uint64_t end = now_ns();
		pthread_mutex_lock(&lock);
		if (over)
			break;
		bins_count(counts, end - intended_ns[mine]);
		intended_ns[mine] = 0;
		finished++;
	}
	pthread_mutex_unlock(&lock);
	return unused;
}

static void sleep_until_ns(uint64_t when)
{
	struct timespec t = { .tv_sec = when / 1000000000, .tv_nsec = when % 1000000000 };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* Exponential gaps from a fixed seed: each run gets the same arrivals. */
static void draw_arrivals(double rate_per_s, double seconds)
{
	struct drand48_data state;
	size_t room = rate_per_s * seconds * 1.5 + 1000;
	double at_s = 0;

	srand48_r(1, &state);
	intended_ns = malloc(room * sizeof(*intended_ns));
	while (intended_ns && total < room) {
		double u;

		drand48_r(&state, &u);
		at_s += -log(1 - u) / rate_per_s;
		if (at_s > seconds)
			break;
		intended_ns[total++] = at_s * 1e9;
	}
}

static void hand_over_when_due(void)
{
	uint64_t start = now_ns() + 10000000;

	for (size_t i = 0; i < total; i++)
		intended_ns[i] += start;
	while (due < total) {
		uint64_t now;

		sleep_until_ns(intended_ns[due]);
		now = now_ns();
		pthread_mutex_lock(&lock);
		while (due < total && intended_ns[due] <= now) {
			due++;
			pthread_cond_signal(&arrived);
		}
		pthread_mutex_unlock(&lock);
	}
}

static void drain(void)
{
	uint64_t until = now_ns() + DRAIN_NS;

	pthread_mutex_lock(&lock);
	while (finished < total && now_ns() < until) {
		pthread_mutex_unlock(&lock);
		sleep_until_ns(now_ns() + 1000000);
		pthread_mutex_lock(&lock);
	}
	over = 1;
	for (size_t i = 0; i < total; i++)
		if (intended_ns[i])
			bins_count(counts, now_ns() - intended_ns[i]);
	pthread_cond_broadcast(&arrived);
	pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr, "usage: requests RATE_PER_S SERVICE_US WORKERS SECONDS\n");
		return 64;
	}
	double rate_per_s = atof(argv[1]), service_us = atof(argv[2]), seconds = atof(argv[4]);
	int workers = atoi(argv[3]);
	pthread_t thread[workers];

	service_rounds = service_us * calibrate_rounds_per_us();
	draw_arrivals(rate_per_s, seconds);
	if (!intended_ns || !total)
		return 1;
	for (int i = 0; i < workers; i++)
		if (pthread_create(&thread[i], NULL, worker, NULL))
			return 1;
	hand_over_when_due();
	drain();
	for (int i = 0; i < workers; i++)
		pthread_join(thread[i], NULL);
	printf("{\"requests\": %zu, ", total);
	bins_print(counts);
	printf("}\n");
	return 0;
}
