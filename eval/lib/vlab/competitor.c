// SPDX-License-Identifier: GPL-2.0-only
/*
 * What competes with a vCPU for a core of the host.
 *
 *   competitor spin CPU                               spin for ever, ordinary priority
 *   competitor duty CPU ON OFF START LOG              times in ns of CLOCK_MONOTONIC
 *
 * duty takes the CPU as SCHED_FIFO from START + k * (ON + OFF) for ON ns, and logs each period
 * it was on as "begin_ns end_ns". Absolute times, so that it never drifts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void sleep_until_ns(uint64_t when)
{
	struct timespec t = { .tv_sec = when / 1000000000, .tv_nsec = when % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static int fail(const char *what)
{
	fprintf(stderr, "competitor: %s: %s\n", what, strerror(errno));
	return 1;
}

static int duty(uint64_t on_ns, uint64_t off_ns, uint64_t start, const char *log_path)
{
	struct sched_param param = { .sched_priority = 10 };
	FILE *log = fopen(log_path, "w");

	if (!log)
		return fail(log_path);
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return fail("mlockall");
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		return fail("SCHED_FIFO");
	for (uint64_t begin = start;; begin += on_ns + off_ns) {
		uint64_t began, ended;

		sleep_until_ns(begin);
		began = now_ns();
		do {
			ended = now_ns();
		} while (ended < begin + on_ns);
		fprintf(log, "%llu %llu\n", (unsigned long long)began, (unsigned long long)ended);
		fflush(log);
	}
}

int main(int argc, char **argv)
{
	cpu_set_t cpus;

	if (argc < 3)
		return 64;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[2]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		return fail("sched_setaffinity");
	if (argc == 7 && !strcmp(argv[1], "duty"))
		return duty(strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10),
			    strtoull(argv[5], NULL, 10), argv[6]);
	if (argc == 3 && !strcmp(argv[1], "spin"))
		for (;;)
			__asm__ volatile("" ::: "memory");
	return 64;
}
