/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Intra-VM harvesting (vSched 3.3): a CPU-bound task leaves its vCPU before that is stopped, for
 * one that is proven awake. The source claims a target and kicks it; the target, once it runs, says
 * so and kicks the source; the source lets the task go if that is fresh. Nobody waits for anybody.
 */
#ifndef VAWARE_POLICY_IVH_H
#define VAWARE_POLICY_IVH_H

#include "../intf.h"
#include "tunables.h"

/* A running task that might leave. */
struct ivh_task {
	u32 class;	 /* enum vaware_class */
	u64 ran_ns;	 /* since it was switched in here */
	u64 burst_ns;	 /* run time since it last woke */
	u32 hazard_1024; /* that its vCPU is stopped before another is awake, in 1/1024 */
	u64 stop_ns;	 /* how long a moment of stopped time lasts there in all, on average */
};

/*
 * Return true if it is time to wake another vCPU for @t: by the stop that may come it loses several
 * times what the move costs. Tasks that sleep often, as those that talk to others do, are left
 * alone: they lose more by the move.
 */
static inline bool ivh_leaves(const struct ivh_task *t)
{
	return t->class == VAWARE_CLASS_THROUGHPUT && t->burst_ns >= IVH_MIN_BURST_NS &&
	       t->ran_ns >= IVH_MIN_RUN_NS && t->hazard_1024 * t->stop_ns / 1024 >= IVH_WORTH_NS;
}

/*
 * Return how far ahead to look, where decisions are @interval_ns apart: until the next one, and
 * until a target is awake that is expected to take @wake_ns, with a margin: a move too early costs
 * little, one too late a whole stop.
 */
static inline u64 ivh_ahead_ns(u64 interval_ns, u64 wake_ns)
{
	return interval_ns + IVH_WAKE_MARGIN * wake_ns;
}

/*
 * Return true if a target that was asked at @asked_ns is to be given up at @now: it takes too long,
 * or the source has been stopped meanwhile (@last_preemption_ns), which it was asked to forestall.
 */
static inline bool ivh_gives_up(u64 asked_ns, u64 last_preemption_ns, u64 now)
{
	return now - asked_ns >= IVH_PATIENCE_NS || last_preemption_ns > asked_ns;
}

/*
 * Return true if a vCPU that has been idle for @idle_ns may be woken for a task: not between two
 * messages of tasks that talk to each other.
 */
static inline bool ivh_idle_enough(u64 idle_ns)
{
	return idle_ns >= IVH_IDLE_NS;
}

enum ivh_answer {
	IVH_PENDING, /* the target is not awake yet */
	IVH_GO,
	IVH_LATE,    /* its word is too old, or it gave none in time */
	IVH_USELESS, /* the task has gone, or has only just come */
};

/*
 * Return what the source does at @now about a target that was asked at @asked_ns and was awake at
 * @awake_ns (before @asked_ns: not yet).
 */
static inline enum ivh_answer ivh_judge(u64 asked_ns, u64 awake_ns, bool same_task, u64 now)
{
	if (!same_task)
		return IVH_USELESS;
	if ((s64)(awake_ns - asked_ns) < 0)
		return now - asked_ns < IVH_PATIENCE_NS ? IVH_PENDING : IVH_LATE;
	return (s64)(now - awake_ns) < (s64)IVH_FRESH_NS ? IVH_GO : IVH_LATE;
}

#endif
