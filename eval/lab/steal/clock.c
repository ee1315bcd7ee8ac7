// SPDX-License-Identifier: GPL-2.0-only
/*
 * Imitates KVM's steal clock for as long as it lives:
 *
 *   clock OBJECT MEMORY TID:OFFSET...
 *
 * OBJECT is clock.bpf.o, MEMORY the file that is the guest's RAM, TID the thread of a vCPU, and
 * OFFSET (hexadecimal) where in MEMORY its struct kvm_steal_time is. Says "ready" once it runs. The
 * kernel detaches the programs and lets go of the memory when this process ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "clock.h"

#define PAGE 4096ull
#define PIDFD_THREAD O_EXCL /* linux/pidfd.h of 6.9 and later */

static int fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	return 1;
}

/* Run delay of a thread of any process, ns; 0 if it cannot be read. */
static unsigned long long run_delay_ns(unsigned int tid)
{
	unsigned long long ran, delayed;
	char path[64];
	FILE *file;
	int read;

	snprintf(path, sizeof(path), "/proc/%u/schedstat", tid);
	file = fopen(path, "r");
	if (!file)
		return 0;
	read = fscanf(file, "%llu %llu", &ran, &delayed);
	fclose(file);
	return read == 2 ? delayed : 0;
}

static int add_vcpu(int map, int memory, const char *text)
{
	struct vcpu_clock vcpu = {};
	unsigned long long offset;
	int thread, failed;
	unsigned int tid;
	char *page;

	if (sscanf(text, "%u:%llx", &tid, &offset) != 2) {
		errno = EINVAL;
		return -1;
	}
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, offset / PAGE * PAGE);
	if (page == MAP_FAILED)
		return -1;
	vcpu.guest = (void *)(page + offset % PAGE);
	vcpu.run_delay_ns = run_delay_ns(tid);
	thread = syscall(SYS_pidfd_open, tid, PIDFD_THREAD);
	if (thread < 0)
		return -1;
	failed = bpf_map_update_elem(map, &thread, &vcpu, BPF_ANY);
	close(thread);
	return failed;
}

int main(int argc, char **argv)
{
	struct bpf_program *program;
	struct bpf_object *object;
	int map, memory;

	if (argc < 4)
		return 64;
	memory = open(argv[2], O_RDWR);
	if (memory < 0)
		return fail(argv[2]);
	object = bpf_object__open_file(argv[1], NULL);
	if (!object || bpf_object__load(object))
		return fail("the kernel does not take the BPF programs");
	map = bpf_object__find_map_fd_by_name(object, "vcpus");
	for (int i = 3; i < argc; i++)
		if (add_vcpu(map, memory, argv[i]))
			return fail(argv[i]);
	bpf_object__for_each_program(
		program,
		object) if (!bpf_program__attach(program)) return fail("the kernel does not attach "
								       "the BPF programs");
	printf("ready\n");
	fflush(stdout);
	for (;;)
		pause();
}
