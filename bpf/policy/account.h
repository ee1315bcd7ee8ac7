/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a task is charged for: the time in which its vCPU ran, not the time in which the hypervisor
 * had stopped it.
 */
#ifndef VAWARE_POLICY_ACCOUNT_H
#define VAWARE_POLICY_ACCOUNT_H

#include "../intf.h"
#include "bits.h"
#include "tunables.h"

/* Return how much of @elapsed_ns was run time, if @stolen_ns were stolen meanwhile. */
static inline u64 account_run_ns(u64 elapsed_ns, u64 stolen_ns)
{
	return elapsed_ns > stolen_ns ? elapsed_ns - stolen_ns : 0;
}

/* Return the moving average @avg_ns with @sample_ns in it, one part in four. */
static inline u64 account_average_ns(u64 avg_ns, u64 sample_ns)
{
	return avg_ns - avg_ns / 4 + sample_ns / 4;
}

/*
 * Return the decaying share of stolen time of a vCPU, in 1/1024, after @run_ns of run time and
 * @stolen_ns of stolen time. A stretch of 64 ms or more replaces half of the old value.
 */
static inline u32 account_stolen_1024(u32 share_1024, u64 run_ns, u64 stolen_ns)
{
	u64 total_ns = run_ns + stolen_ns, weight;

	if (!total_ns)
		return share_1024;
	weight = total_ns / (NS_PER_MS / 8);
	if (weight > 512)
		weight = 512;
	return (share_1024 * (1024 - weight) + stolen_ns * 1024 / total_ns * weight) / 1024;
}

/*
 * Return what a task runs between two sleeps, in ns: what it did on average, or does already. A
 * burst that is under way counts at once, for a task that never sleeps has no other.
 */
static inline u64 account_burst_ns(u64 average_ns, u64 burst_ns)
{
	return average_ns > burst_ns ? average_ns : burst_ns;
}

/* Return true if a task that has run for @burst_ns since it woke is CPU-bound. */
static inline bool account_cpu_bound(u64 burst_ns)
{
	return burst_ns >= CPU_BOUND_BURST_NS;
}

/* Return the class of a task (enum vaware_class) from its policy and its burst. */
static inline u32 account_class(bool best_effort, bool own_vcpu_kthread, u64 burst_ns)
{
	if (own_vcpu_kthread)
		return VAWARE_CLASS_KERNEL;
	if (best_effort)
		return VAWARE_CLASS_BEST_EFFORT;
	return burst_ns < LATENCY_BURST_NS ? VAWARE_CLASS_LATENCY : VAWARE_CLASS_THROUGHPUT;
}

/* Return true if tasks of @class do normal work. */
static inline bool account_normal(u32 class)
{
	return class == VAWARE_CLASS_LATENCY || class == VAWARE_CLASS_THROUGHPUT;
}

/*
 * Return the class by which a task of @class waits for a vCPU; @by_work: a CPU-bound task has woken
 * it. What a computation wakes is part of that, and no more urgent, where a timer or a device wakes
 * it for somebody outside.
 */
static inline u32 account_waiting_class(u32 class, bool by_work)
{
	return class == VAWARE_CLASS_LATENCY && by_work ? VAWARE_CLASS_THROUGHPUT : class;
}

/* Return the bucket of the wait histogram that @wait_ns falls into (see VAWARE_WAIT_BUCKETS). */
static inline u32 account_wait_bucket(u64 wait_ns)
{
	u64 us = wait_ns / NS_PER_US;
	u32 bucket = us ? bits_highest(us) + 1 : 0;

	return bucket < VAWARE_WAIT_BUCKETS ? bucket : VAWARE_WAIT_BUCKETS - 1;
}

#endif
