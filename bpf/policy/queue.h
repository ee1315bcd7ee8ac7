/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who runs next: preemption on wake-up, the end of a slice, the pull between queues and the bound
 * on waiting.
 */
#ifndef VAWARE_POLICY_QUEUE_H
#define VAWARE_POLICY_QUEUE_H

#include "../intf.h"
#include "account.h"
#include "tunables.h"
#include "vtime.h"

/* Who runs on a vCPU, as far as a decision about it needs to know. */
struct running {
	u32 class;	 /* enum vaware_class; VAWARE_CLASS_NONE if no sched_ext task runs */
	u32 weight;	 /* nice 0: WEIGHT_NICE_0 */
	u64 vtime;	 /* as of the last beat */
	u64 ran_ns;	 /* since it was switched in */
	u64 burst_ns;	 /* run time since it woke, as of the last beat */
	u64 unbilled_ns; /* since the last beat */
	bool migrated;	 /* it has been moved here to run on, as long as nobody of here needs it */
	bool rcu_reader; /* it was one when it was switched in */
};

/* Return the deadline that the running task would have if it were queued now. */
static inline u64 queue_running_deadline(const struct running *r)
{
	return vtime_deadline(r->vtime + vtime_of_run(r->unbilled_ns, r->weight), r->weight,
			      SLICE_NS);
}

/*
 * Return for how long @r runs undisturbed by a waiting task of @class. CPU-bound work is not
 * protected from who is latency-sensitive: what is refused waits for the next tick, and a timer in
 * step with the tick would be refused each time.
 */
static inline u64 queue_protected_ns(u32 class, const struct running *r)
{
	if (class == VAWARE_CLASS_LATENCY && account_cpu_bound(r->burst_ns) && !r->rcu_reader)
		return 0;
	return PROTECTED_RUN_NS;
}

/* Return for how many ns more @r runs undisturbed by a waiting task of @class. */
static inline u64 queue_protected_rest_ns(u32 class, const struct running *r)
{
	u64 protected_ns = queue_protected_ns(class, r);

	return protected_ns > r->ran_ns ? protected_ns - r->ran_ns : 0;
}

/*
 * Return true if a waiting task of @class with @deadline takes the vCPU from @r within its slice:
 * at once from best-effort work and from a migrated task (IRS 3.3: or two tasks would chase each
 * other), from other work, and from RCU readers, once that has run its protected time and would
 * queue up behind it.
 */
static inline bool queue_preempts(u32 class, u64 deadline, const struct running *r)
{
	if (r->class == VAWARE_CLASS_NONE || class == VAWARE_CLASS_BEST_EFFORT)
		return false;
	if (!r->rcu_reader && (r->class == VAWARE_CLASS_BEST_EFFORT || r->migrated))
		return true;
	return r->ran_ns >= queue_protected_ns(class, r) &&
	       vtime_before(deadline, queue_running_deadline(r));
}

/* Return what a task is charged for taking the vCPU from one that has run for @ran_ns. */
static inline u64 queue_preemption_ns(u64 ran_ns)
{
	return ran_ns < SWITCHES_NS ? SWITCHES_NS - ran_ns : 0;
}

/*
 * Return true if the running task goes on when its slice has ended, though a task with
 * @head_deadline waits: it is still the one with the earliest deadline.
 */
static inline bool queue_keeps(const struct running *r, u64 head_deadline)
{
	return vtime_before(queue_running_deadline(r), head_deadline);
}

/* Return the slice for a task while @waiting others wait for the same vCPU. */
static inline u64 queue_slice_ns(u32 waiting)
{
	return waiting ? SLICE_NS : SLICE_ALONE_NS;
}

/*
 * Return true if a busy vCPU with @own_waiting tasks in its queue should take one from a queue with
 * @other_waiting whose head has waited @head_wait_ns. One more is taken in turns, so that an odd
 * task does not halve the share of the same two for ever; a stuck queue is helped in any case.
 */
static inline bool queue_pulls(u32 own_waiting, u32 other_waiting, u64 head_wait_ns)
{
	if (!other_waiting)
		return false;
	return other_waiting > own_waiting || head_wait_ns >= STUCK_NS;
}

/* Return true if a task that has waited @wait_ns goes before all others, to keep @bound_ns. */
static inline bool queue_overdue(u64 wait_ns, u64 bound_ns)
{
	return wait_ns >= bound_ns / 2;
}

/*
 * Return in how many ns one of @nr_vcpus looks into the next OVERDUE_SKIP queues of others: all are
 * looked into as often, however many there are.
 */
static inline u64 queue_overdue_others_ns(bool found, u64 bound_ns, u32 nr_vcpus)
{
	return found ? SLICE_NS : bound_ns / 4 / (nr_vcpus / OVERDUE_SKIP + 1);
}

/* Return in how many ns to look for overdue tasks again; soon while there are some. */
static inline u64 queue_overdue_again_ns(bool found, u64 bound_ns)
{
	return found ? SLICE_NS : bound_ns / 4;
}

#endif
