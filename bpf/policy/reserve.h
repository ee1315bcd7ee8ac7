/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A reserve: one vCPU is kept free of CPU-bound work, for tasks that somebody waits for. Its host
 * owes it time, as it uses little, and runs it as soon as it wakes. What the host does for such
 * tasks in the coordinated scheduling of 2016 a guest can do by leaving time alone. Which vCPU it
 * is, and whether there is one, the daemon decides (hints/src/reserve.rs).
 */
#ifndef VAWARE_POLICY_RESERVE_H
#define VAWARE_POLICY_RESERVE_H

#include "../intf.h"
#include "account.h"
#include "tunables.h"

/*
 * A task that runs on the reserve pays for that with time: it has paid until some time, at most
 * RESERVE_AHEAD_NS ahead. (The paper counts voluntary sleeps instead, which cost a task nothing: a
 * CPU-bound one that sleeps for a moment, over and over, passes for one that waits.)
 */

/* Return until when a task has paid at @now, after @run_ns more on the reserve. */
static inline u64 reserve_pay(u64 paid_until_ns, u64 run_ns, u64 now)
{
	u64 from_ns = paid_until_ns > now ? paid_until_ns : now;

	return from_ns + run_ns * RESERVE_PARTS;
}

/* Return true if a task that has paid until @paid_until_ns may use the reserve. */
static inline bool reserve_paid(u64 paid_until_ns, u64 now)
{
	return paid_until_ns < now + RESERVE_AHEAD_NS;
}

/*
 * Return true if a task of @class leaves the reserve, though it wants to run on: it has turned out
 * to be CPU-bound. Until then it is let alone, for a move costs more than a burst has left.
 */
static inline bool reserve_evicts(u32 class, u64 burst_ns)
{
	return class == VAWARE_CLASS_BEST_EFFORT ||
	       (class == VAWARE_CLASS_THROUGHPUT && account_cpu_bound(burst_ns));
}

#endif
