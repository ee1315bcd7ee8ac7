// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads of one process that return memory all the time, as allocators and garbage collectors do:
 * each time the vCPUs of all threads have to forget old translations, and a stopped one does so
 * late.
 *
 *   shootdown THREADS WORK_US SECONDS
 *
 * Each thread works for so long, touches a page of its own, and returns it. Prints "done N", pages,
 * and "rate N": of them per second.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calibrate.h"

#define PAGE_BYTES 4096

struct worker {
	pthread_t thread;
	uint64_t pages;
};

static uint64_t rounds;
static atomic_bool over;

static void *run(void *of)
{
	struct worker *w = of;
	char *page =
		mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		exit(1);
	while (!atomic_load(&over)) {
		work(rounds);
		*(volatile char *)page = 1;
		madvise(page, PAGE_BYTES, MADV_DONTNEED);
		w->pages++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc == 4 ? atoi(argv[1]) : 0;
	struct worker *workers;
	uint64_t begin, pages = 0;

	if (threads < 1) {
		fprintf(stderr, "usage: shootdown THREADS WORK_US SECONDS\n");
		return 64;
	}
	workers = calloc(threads, sizeof(*workers));
	if (!workers)
		return 1;
	rounds = atof(argv[2]) * calibrate_rounds_per_us();
	begin = now_ns();
	for (int i = 0; i < threads; i++)
		if (pthread_create(&workers[i].thread, NULL, run, &workers[i]))
			return 1;
	usleep(atof(argv[3]) * 1e6);
	atomic_store(&over, true);
	for (int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		pages += workers[i].pages;
	}
	printf("done %llu\nrate %.6g\n", (unsigned long long)pages,
	       pages * 1e9 / (now_ns() - begin));
	return 0;
}
