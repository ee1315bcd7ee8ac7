// SPDX-License-Identifier: GPL-2.0-only
/*
 * A pipeline: threads of a stage take an item from the queue before it, work on it, and put it into
 * the queue behind it. Queues are short, so threads sleep and are woken all the time.
 *
 *   stages STAGES THREADS_PER_STAGE WORK_US SECONDS
 *
 * The first stage makes items, the last one drops them. Prints "done N", items, and "rate N":
 * of them per second.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "calibrate.h"

#define ROOM 16

/* Items are alike, so a queue is their number. */
struct queue {
	pthread_mutex_t lock;
	pthread_cond_t filled, emptied;
	int items;
};

static struct queue *queues; /* queue i is before stage i; 0 is not used */
static int stages;
static uint64_t rounds;
static atomic_bool over;
static atomic_ullong done;

static void put(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	while (q->items == ROOM && !over)
		pthread_cond_wait(&q->emptied, &q->lock);
	q->items++;
	pthread_cond_signal(&q->filled);
	pthread_mutex_unlock(&q->lock);
}

static void take(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	while (!q->items && !over)
		pthread_cond_wait(&q->filled, &q->lock);
	q->items--;
	pthread_cond_signal(&q->emptied);
	pthread_mutex_unlock(&q->lock);
}

static void *worker(void *number)
{
	int stage = (int)(intptr_t)number;

	while (!over) {
		if (stage)
			take(&queues[stage]);
		work(rounds);
		if (stage + 1 < stages)
			put(&queues[stage + 1]);
		else
			atomic_fetch_add(&done, 1);
	}
	return NULL;
}

/* Under the locks, so that nobody looks before and sleeps after. */
static void end_all(void)
{
	for (int i = 0; i < stages; i++)
		pthread_mutex_lock(&queues[i].lock);
	over = true;
	for (int i = 0; i < stages; i++) {
		pthread_cond_broadcast(&queues[i].filled);
		pthread_cond_broadcast(&queues[i].emptied);
		pthread_mutex_unlock(&queues[i].lock);
	}
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr, "usage: stages STAGES THREADS_PER_STAGE WORK_US SECONDS\n");
		return 64;
	}
	stages = atoi(argv[1]);
	int threads = stages * atoi(argv[2]);
	pthread_t thread[threads];

	queues = calloc(stages, sizeof(*queues));
	if (!queues)
		return 1;
	for (int i = 0; i < stages; i++) {
		pthread_mutex_init(&queues[i].lock, NULL);
		pthread_cond_init(&queues[i].filled, NULL);
		pthread_cond_init(&queues[i].emptied, NULL);
	}
	rounds = atof(argv[3]) * calibrate_rounds_per_us();
	uint64_t begin = now_ns();

	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, worker, (void *)(intptr_t)(i % stages)))
			return 1;
	usleep(atof(argv[4]) * 1e6);
	end_all();
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	printf("done %llu\nrate %.6g\n", done, done * 1e9 / (now_ns() - begin));
	return 0;
}
