/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What every file of the kernel half needs: what the daemon has set, counters, kicks.
 */
#ifndef VAWARE_VAWARE_BPF_H
#define VAWARE_VAWARE_BPF_H

#include <scx/common.bpf.h>

#include "clock.bpf.h"
#include "intf.h"
#include "policy/tunables.h"

/* Set before load by the daemon, userspace/src/scheduler.rs; defined in main.bpf.c. */
extern const volatile u32 nr_vcpus;	  /* nr_cpu_ids: possible vCPUs, offline ones included */
extern const volatile u32 steal_source;	  /* enum vaware_steal_source */
extern const volatile bool activity_on;	  /* off to measure what detection costs */
extern const volatile bool log_activity;  /* preemptions go to the activity log */
extern const volatile bool queued_wakeup; /* the kernel has idle vCPUs activate what wakes */

/* Set after load by the daemon. */
extern u64 tick_ns;	  /* 1 s / HZ; as a constant it takes the verifier longer */
extern u64 policies;	  /* bits of enum vaware_policy; changes at run time */
extern u64 wait_bound_ns; /* no runnable task waits longer for an active vCPU; likewise */
extern u32 daemon_tgid;	  /* process that feeds us; 0 until it has said so */

/* Policies that are not used at present, as they do not pay; written by governor.bpf.c. */
extern u64 resting;

/* vCPUs that run best-effort work; kept by run.bpf.c. */
extern u32 best_effort_vcpus;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to nr_cpu_ids before load */
	__type(key, u32);
	__type(value, struct vaware_stats);
} vcpu_stats SEC(".maps") __weak;

/* Return true if @policy is on. Only the file of a policy asks this about it. */
static inline bool policy_on(enum vaware_policy policy)
{
	return policies & ~resting & policy;
}

/* Return the statistics of @cpu. */
static inline struct vaware_stats *stats_of(s32 cpu)
{
	u32 key = cpu;

	return bpf_map_lookup_elem(&vcpu_stats, &key);
}

/* Return those of the vCPU that this runs on. */
static inline struct vaware_stats *stats_here(void)
{
	return stats_of(bpf_get_smp_processor_id());
}

static inline void count(enum vaware_counter counter)
{
	struct vaware_stats *s = stats_here();

	if (s)
		s->counters[counter]++;
}

static inline void kick(s32 cpu, u64 flags)
{
	scx_bpf_kick_cpu(cpu, flags);
	count(VAWARE_KICKS);
}

#endif /* VAWARE_VAWARE_BPF_H */
