// SPDX-License-Identifier: GPL-2.0-only
/*
 * CFS bandwidth control (cpu.max), as kernel/sched/fair.c: a quota has a runtime per period, from
 * which each pCPU takes slices of 5 ms as its members run there. With nothing left they are
 * throttled on that pCPU until the next period. What a pCPU overran (by a tick) it pays back.
 */
#include <string.h>

#include "model.h"

#define SLICE_NS 5000000       /* sysctl_sched_cfs_bandwidth_slice */
#define SLACK_DELAY_NS 5000000 /* cfs_bandwidth_slack_period */
#define KEPT_NS 1000000	       /* min_cfs_rq_runtime: an idle pCPU keeps so much */

/* assign_cfs_rq_runtime(): take a slice. Return true if the pCPU has runtime. */
static bool take(VtQuota *q, VtQuotaPcpu *on, int64_t wanted)
{
	int64_t amount = wanted - on->left_ns;

	if (amount > q->left_ns)
		amount = q->left_ns;
	q->left_ns -= amount;
	on->left_ns += amount;
	return on->left_ns > 0;
}

/* account_cfs_rq_runtime(), at each level. Return false if there is none left. */
bool vt_quota_charge(VtEntity *e, int64_t ns)
{
	bool left = true;
	int i;

	for (i = 0; i < 2; i++) {
		VtQuota *q = e->quota[i];

		if (!q)
			continue;
		q->on[e->pcpu].left_ns -= ns;
		if (q->on[e->pcpu].left_ns <= 0 && !take(q, &q->on[e->pcpu], SLICE_NS))
			left = false;
	}
	return left;
}

/* throttle_cfs_rq(): all members leave the pCPU's queue. */
static void throttle(VtHost *h, VtQuota *q, int pcpu)
{
	VtPcpu *p = &h->pcpu[pcpu];
	int i;

	q->on[pcpu].throttled = true;
	q->on[pcpu].after = -1;
	if (q->last_throttled >= 0)
		q->on[q->last_throttled].after = pcpu;
	else
		q->first_throttled = pcpu;
	q->last_throttled = pcpu;
	for (i = vt_mask_next(&q->plan->vcpus, 0); i >= 0 && i < h->nr_vcpus;
	     i = vt_mask_next(&q->plan->vcpus, i + 1)) {
		VtEntity *e = &h->entity[i];
		bool ran = p->curr == e;

		if (e->pcpu != pcpu || !e->queued)
			continue;
		if (e->polls)
			vt_poll_give_up(h, e);
		if (e->delayed) /* it wakes right now, or it sleeps: vt_queue() sees to it then */
			vt_fair_finish_delayed(h, p, e);
		if (!e->queued || !e->wants)
			continue;
		e->throttled = true;
		vt_unqueue(h, e, VT_DEQUEUE_THROTTLE);
		if (ran)
			vt_waits(e, p->clock);
		vt_event(h, p->clock, pcpu, e, VT_WHY_THROTTLED);
	}
}

/* Throttle if need be. Return true if the entity may not run on this pCPU. */
bool vt_quota_stops(VtHost *h, VtEntity *e, int pcpu)
{
	bool stops = false;
	int i;

	for (i = 0; i < 2; i++) {
		VtQuota *q = e->quota[i];

		if (!q)
			continue;
		if (!q->on[pcpu].throttled && q->on[pcpu].left_ns <= 0 &&
		    !take(q, &q->on[pcpu], SLICE_NS))
			throttle(h, q, pcpu);
		stops |= q->on[pcpu].throttled;
	}
	return stops;
}

void vt_quota_joins(VtEntity *e, int pcpu)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (e->quota[i])
			e->quota[i]->on[pcpu].members++;
	}
}

/* return_cfs_rq_runtime(): where no member is left, so is no more runtime than KEPT_NS. */
void vt_quota_leaves(VtHost *h, VtEntity *e, int pcpu, int64_t now)
{
	int i;

	for (i = 0; i < 2; i++) {
		VtQuota *q = e->quota[i];
		int64_t slack;

		if (!q || --q->on[pcpu].members)
			continue;
		slack = q->on[pcpu].left_ns - KEPT_NS;
		if (slack <= 0)
			continue;
		q->on[pcpu].left_ns -= slack;
		q->left_ns += slack;
		if (q->left_ns > SLICE_NS && q->first_throttled >= 0 && q->slack_ns == VT_NEVER) {
			q->slack_ns = now + SLACK_DELAY_NS;
			vt_quota_arm(h, q);
		}
	}
}

static void unthrottle(VtHost *h, VtQuota *q, int pcpu, int64_t now)
{
	VtPcpu *p = &h->pcpu[pcpu];
	int i;

	q->on[pcpu].throttled = false;
	for (i = vt_mask_next(&q->plan->vcpus, 0); i >= 0 && i < h->nr_vcpus;
	     i = vt_mask_next(&q->plan->vcpus, i + 1)) {
		VtEntity *e = &h->entity[i];
		VtQuota *other = e->quota[!q->plan->level];

		if (e->pcpu != pcpu || !e->throttled || (other && other->on[pcpu].throttled))
			continue;
		e->throttled = false;
		vt_clock_to(p, now);
		vt_event(h, p->clock, pcpu, e, VT_WHY_UNTHROTTLED);
		vt_queue(h, p, e);
	}
}

/* distribute_cfs_runtime(): first come, first served, 1 ns more than their debt. */
static void distribute(VtHost *h, VtQuota *q, int64_t now)
{
	int last = q->last_throttled, pcpu;

	while (q->left_ns > 0 && (pcpu = q->first_throttled) >= 0) {
		if (!take(q, &q->on[pcpu], 1))
			return;
		q->first_throttled = q->on[pcpu].after;
		if (q->first_throttled < 0)
			q->last_throttled = -1;
		unthrottle(h, q, pcpu, now);
		if (pcpu == last)
			return; /* what has been throttled again waits */
	}
}

/* sched_cfs_period_timer() and sched_cfs_slack_timer() */
void vt_quota_timer(VtHost *h, VtQuota *q, int64_t now)
{
	q->slack_ns = VT_NEVER;
	if (q->period_ns <= now) {
		q->period_ns += q->plan->period_ns;
		q->left_ns = q->plan->runtime_ns;
	}
	distribute(h, q, now);
	vt_quota_arm(h, q);
}

void vt_quota_arm(VtHost *h, VtQuota *q)
{
	vt_heap_set(&h->timers, VT_TIMER_QUOTA + q->index,
		    q->slack_ns < q->period_ns ? q->slack_ns : q->period_ns);
}

/* Begin anew at `now` with a full quota, as a write to cpu.max does. */
void vt_quota_reset(VtHost *h, VtQuota *q, const VtQuotaPlan *plan, int64_t now)
{
	int64_t phase;

	q->plan = plan;
	q->left_ns = plan->runtime_ns;
	q->slack_ns = VT_NEVER;
	q->first_throttled = q->last_throttled = -1;
	memset(q->on, 0, sizeof(*q->on) * h->nr_pcpus);
	/* init_cfs_bandwidth() offsets the timers of the groups at random (Linux 6.3). */
	phase = plan->phase_ns < 0 ? vt_random_below(h, plan->period_ns)
				   : plan->phase_ns % plan->period_ns;
	q->period_ns = now + (phase ? phase : plan->period_ns);
	vt_quota_arm(h, q);
}
