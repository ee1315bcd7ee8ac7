// SPDX-License-Identifier: GPL-2.0-only
/*
 * Finds gaps without a scheduler's help: witness THRESHOLD_US
 *
 * A pinned spinner on each vCPU reads the clock all the time; until SIGINT, which makes it print a
 * line of JSON for each gap longer than the threshold, as scx_vaware --activity-log does. Nothing
 * else may run in the guest, or its time is a gap too.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GAPS_MAX 100000

struct vcpu {
	int number;
	int gaps;
	uint64_t (*gap)[2];
	pthread_t thread;
};

static atomic_int over;
static uint64_t threshold_ns;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void *watch(void *argument)
{
	struct vcpu *vcpu = argument;
	uint64_t last = 0;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(vcpu->number, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		return vcpu;
	while (!over && vcpu->gaps < GAPS_MAX) {
		uint64_t now = now_ns();

		if (last && now - last > threshold_ns) {
			vcpu->gap[vcpu->gaps][0] = last;
			vcpu->gap[vcpu->gaps++][1] = now;
		}
		last = now;
		/* Under emulation, a clock that is read without pause is itself a source of gaps.
		 */
		for (int i = 0; i < 1000; i++)
			__asm__ volatile("" ::: "memory");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int count = sysconf(_SC_NPROCESSORS_ONLN), received;
	struct vcpu *vcpus = calloc(count, sizeof(*vcpus));
	sigset_t end;

	if (argc != 2 || !vcpus)
		return 64;
	threshold_ns = strtoull(argv[1], NULL, 10) * 1000;
	sigemptyset(&end);
	sigaddset(&end, SIGINT);
	sigprocmask(SIG_BLOCK, &end, NULL);
	for (int i = 0; i < count; i++) {
		vcpus[i].number = i;
		vcpus[i].gap = calloc(GAPS_MAX, sizeof(*vcpus[i].gap));
		errno = vcpus[i].gap ? pthread_create(&vcpus[i].thread, NULL, watch, &vcpus[i])
				     : ENOMEM;
		if (errno) {
			perror("witness");
			return 1;
		}
	}
	sigwait(&end, &received);
	over = 1;
	for (int i = 0; i < count; i++) {
		pthread_join(vcpus[i].thread, NULL);
		for (int g = 0; g < vcpus[i].gaps; g++)
			printf("{\"vcpu\":%d,\"start_ns\":%llu,\"end_ns\":%llu,\"source\":"
			       "\"witness\"}\n",
			       i, (unsigned long long)vcpus[i].gap[g][0],
			       (unsigned long long)vcpus[i].gap[g][1]);
	}
	return 0;
}
