/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Weighted virtual time. Each vCPU has a virtual clock of its own, for a VM-wide one would be a
 * cache line that every vCPU writes. A task's virtual time is relative to the clock of the vCPU
 * whose queue it is in, and is carried over when it moves (Earliest Eligible Virtual Deadline
 * First, Stoica and Abdel-Wahab 1995, with the lag of a timer wakee bounded).
 */
#ifndef VAWARE_POLICY_VTIME_H
#define VAWARE_POLICY_VTIME_H

#include "../intf.h"
#include "tunables.h"

/* Return true if virtual time @a is before @b; both wrap. */
static inline bool vtime_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* Return run time @run_ns of a task of @weight (nice 0: WEIGHT_NICE_0) as virtual time. */
static inline u64 vtime_of_run(u64 run_ns, u32 weight)
{
	if (weight == WEIGHT_NICE_0) /* most tasks: no division */
		return run_ns;
	return run_ns * WEIGHT_NICE_0 / (weight ? weight : 1);
}

/* Return @vtime, relative to the clock @from, relative to the clock @to. */
static inline u64 vtime_rebase(u64 vtime, u64 from, u64 to)
{
	return vtime - from + to;
}

/*
 * Return the virtual time with which a task enters a queue whose clock reads @vclock: its own, but
 * not further behind than @lag_max: after a sleep LAG_MAX_NS, lest a long one buys a long turn.
 */
static inline u64 vtime_enter(u64 vtime, u64 vclock, u64 lag_max)
{
	u64 earliest = vclock - lag_max;

	return vtime_before(vtime, earliest) ? earliest : vtime;
}

/*
 * Return how far a task of @weight that has not slept may be behind the queue that it enters. A
 * heavy one would have the vCPU alone for long to make up for as much as a light one.
 */
static inline u64 vtime_lag_max(u32 weight)
{
	u64 lag_ns = vtime_of_run(LAG_SHARES_RUN_NS, weight);

	return lag_ns < LAG_SHARES_MAX_NS ? lag_ns : LAG_SHARES_MAX_NS;
}

/*
 * Return @vtime, of a task of @weight, not further ahead of @vclock than one turn: what it was
 * charged by a weight that is no longer its own is forgotten.
 */
static inline u64 vtime_bound(u64 vtime, u64 vclock, u32 weight)
{
	u64 latest = vclock + vtime_of_run(AHEAD_MAX_NS, weight);

	return vtime_before(latest, vtime) ? latest : vtime;
}

/* Return the deadline by which queues are ordered: when a slice of @slice_ns will be used up. */
static inline u64 vtime_deadline(u64 vtime, u32 weight, u64 slice_ns)
{
	return vtime + vtime_of_run(slice_ns, weight);
}

/*
 * Return the deadline of a task that was preempted as an RCU reader, in a queue whose clock reads
 * @vclock: before all others. What the VM frees by RCU waits for it, so that not its weight may
 * decide when it goes on (Prasad et al., The RCU-Reader Preemption Problem in VMs, ATC'17). It is
 * charged as ever, and makes up for it afterwards.
 */
static inline u64 vtime_reader_deadline(u64 vclock)
{
	return vclock - LAG_MAX_NS;
}

/*
 * Return the deadline of an overdue task that has lost the vCPU before it had a slice, in a queue
 * whose clock reads @vclock: before all that wait in turn, not before who wakes behind its share.
 */
static inline u64 vtime_overdue_deadline(u64 vclock)
{
	return vclock;
}

#endif
