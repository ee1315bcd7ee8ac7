/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Gathering (Gleaner, section 5): work that blocks often keeps to few vCPUs, the open ones, so that
 * those need not be woken so often. Which are open the daemon decides (hints/src/gathering.rs);
 * this is where a task that wakes had better not keep to them.
 */
#ifndef VAWARE_POLICY_GATHER_H
#define VAWARE_POLICY_GATHER_H

#include "../intf.h"
#include "tunables.h"

/* Return true if a task of @class with bursts of @burst_ns keeps to the open vCPUs. */
static inline bool gather_keeps(u32 class, u64 burst_ns)
{
	return (class == VAWARE_CLASS_LATENCY || class == VAWARE_CLASS_THROUGHPUT) &&
	       burst_ns < CPU_BOUND_BURST_NS;
}

/*
 * Return how long a task with bursts of @burst_ns is expected to wait on a busy vCPU, where
 * @waiting tasks wait, and one runs that has done @ran_ns of a burst, which is @average_ns on
 * average. One that is over its average is expected to run for as long once more.
 */
static inline u64 gather_wait_ns(u64 average_ns, u64 ran_ns, u32 waiting, u64 burst_ns)
{
	u64 rest_ns = average_ns > ran_ns ? average_ns - ran_ns : ran_ns;

	return rest_ns + waiting * burst_ns;
}

/* Return true if a wait of @wait_ns on an open vCPU is longer than to wake another one: @wake_ns.
 */
static inline bool gather_spills(u64 wait_ns, u64 wake_ns)
{
	return wait_ns > wake_ns;
}

/* Return the bucket of `wakes_together` for @together wake-ups, at least one. */
static inline u32 gather_together_bucket(u32 together)
{
	u32 bucket = 0;

	for (u32 i = 1; i < VAWARE_TOGETHER_BUCKETS; i++)
		bucket += together >> i ? 1 : 0;
	return bucket & (VAWARE_TOGETHER_BUCKETS - 1);
}

#endif
