/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler's global variables: writable as the loader would have them before load, and put
 * back for the next simulation. And the kernel's per-CPU symbols, whose values src/bpf/ keeps.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kfuncs.h"

extern char __start_sim_bpf_data[] __attribute__((weak));
extern char __stop_sim_bpf_data[] __attribute__((weak));
extern char __start_sim_bpf_bss[] __attribute__((weak));
extern char __stop_sim_bpf_bss[] __attribute__((weak));
extern char __start_sim_bpf_rodata[] __attribute__((weak));
extern char __stop_sim_bpf_rodata[] __attribute__((weak));

struct kvm_steal_time steal_time;
struct kernel_cpustat kernel_cpustat;
struct hrtimer_cpu_base hrtimer_bases;
u32 __preempt_count;
struct rq runqueues;

static char *saved_data, *saved_rodata;

static char *save(char *from, char *to)
{
	char *copy = malloc(to - from + 1);

	if (copy)
		memcpy(copy, from, to - from);
	return copy;
}

/* Return 0, or -1 if memory protection could not be changed or there is no memory. */
int sim_state_reset(void)
{
	uintptr_t page = sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)__start_sim_bpf_rodata & ~(page - 1);

	if (!saved_data) {
		if (mprotect((void *)from, (uintptr_t)__stop_sim_bpf_rodata - from,
			     PROT_READ | PROT_WRITE))
			return -1;
		saved_data = save(__start_sim_bpf_data, __stop_sim_bpf_data);
		saved_rodata = save(__start_sim_bpf_rodata, __stop_sim_bpf_rodata);
		if (!saved_data || !saved_rodata)
			return -1;
	}
	memcpy(__start_sim_bpf_data, saved_data, __stop_sim_bpf_data - __start_sim_bpf_data);
	memcpy(__start_sim_bpf_rodata, saved_rodata,
	       __stop_sim_bpf_rodata - __start_sim_bpf_rodata);
	memset(__start_sim_bpf_bss, 0, __stop_sim_bpf_bss - __start_sim_bpf_bss);
	return 0;
}

/* Return true if @address is in a global variable of the scheduler's. */
bool sim_is_global(u64 address)
{
	const char *at = (const char *)address;

	return (at >= __start_sim_bpf_data && at < __stop_sim_bpf_data) ||
	       (at >= __start_sim_bpf_bss && at < __stop_sim_bpf_bss) ||
	       (at >= __start_sim_bpf_rodata && at < __stop_sim_bpf_rodata);
}

/* Tracepoint programs, if the scheduler has them. */
extern int vaware_lock_begin(unsigned long long *ctx) __attribute__((weak));
extern int vaware_lock_end(unsigned long long *ctx) __attribute__((weak));

void sim_contention_begin(void *lock)
{
	unsigned long long ctx[] = { (uintptr_t)lock, 1 };

	if (vaware_lock_begin)
		vaware_lock_begin(ctx);
}

void sim_contention_end(void *lock)
{
	unsigned long long ctx[] = { (uintptr_t)lock, 0 };

	if (vaware_lock_end)
		vaware_lock_end(ctx);
}
