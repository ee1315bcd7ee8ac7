/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The wait bound: a task that has waited for long goes before all others.
 */
#include "overdue.bpf.h"

/*
 * A variable, and not static: compared with a constant, the verifier of 6.12 would follow each pass
 * of the search on its own, and look back through all of those before it.
 */
u32 overdue_scan = OVERDUE_SCAN;

/* Written without a lock: two vCPUs that look at once look at the same queue. */
u64 overdue_others_ns;
static u32 overdue_cursor;

/* Global: the verifier checks it once, not at each call. */
int overdue_take(s32 victim, bool best_effort, s32 cpu, bool from_tail);

/*
 * Take the first overdue task that waits for @victim and may run on @cpu, from the head or the tail
 * of the queue. Return true if there was one.
 */
__noinline int overdue_take(s32 victim, bool best_effort, s32 cpu, bool from_tail)
{
	u64 from = from_tail ? SCX_DSQ_ITER_REV : 0;
	struct task_struct *p;
	u32 looked_at = 0;

	bpf_for_each (scx_dsq, p, vcpu_dsq(victim, best_effort), from) {
		struct task_ctx *t;
		bool goes_on;

		if (looked_at++ >= overdue_scan)
			break;
		t = task_ctx_of(p);
		if (!t)
			continue;
		goes_on = overdue_goes_on(t);
		if (!goes_on && !queue_overdue(waited_ns(p), wait_bound_ns))
			continue;
		/* Not in its own queue either: affinity may change between choice and wake-up. */
		if (!task_allows(p, cpu) || (victim != cpu && is_pinned(p)))
			continue;
		if (!scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0))
			continue;
		if (!goes_on)
			t->overdue_until_ns = t->burst_ns + SLICE_NS;
		return true;
	}
	return false;
}

/*
 * The same from both ends of both queues: those of little weight are at the tail; of many alike,
 * those that have waited for longest are at the head. Which end goes first is random, or one would
 * starve the other.
 */
static bool overdue_take_any(s32 victim, s32 cpu)
{
	bool from_tail = bpf_get_prandom_u32() & 1;

	return overdue_take(victim, true, cpu, from_tail) ||
	       overdue_take(victim, true, cpu, !from_tail) ||
	       overdue_take(victim, false, cpu, from_tail) ||
	       overdue_take(victim, false, cpu, !from_tail);
}

bool overdue_search_own(s32 cpu, struct vcpu_ctx *v, u64 now)
{
	bool found = overdue_take_any(cpu, cpu);

	v->overdue_next_ns = now + queue_overdue_again_ns(found, wait_bound_ns);
	if (found)
		count(VAWARE_DISPATCH_OVERDUE);
	return found;
}

bool overdue_search_others(s32 cpu, u64 now)
{
	u32 other = overdue_cursor, i;
	bool found;

	/* The next queue that is not empty, by itself: here a hint that was lost would matter. */
	bpf_for (i, 0, OVERDUE_SKIP) {
		other = other + 1 < nr_vcpus ? other + 1 : 0;
		if (scx_bpf_dsq_nr_queued(vcpu_dsq(other, false)) ||
		    scx_bpf_dsq_nr_queued(vcpu_dsq(other, true)))
			break;
	}
	overdue_cursor = other;
	found = other != cpu && overdue_take_any(other, cpu);
	overdue_others_ns = now + queue_overdue_others_ns(found, wait_bound_ns, nr_vcpus);
	if (found)
		count(VAWARE_DISPATCH_OVERDUE);
	return found;
}
