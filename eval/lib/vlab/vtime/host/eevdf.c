// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fair class of one pCPU: EEVDF as in kernel/sched/fair.c of Linux 6.12, with its default
 * features (kernel/sched/features.h): PLACE_LAG, PLACE_REL_DEADLINE, RUN_TO_PARITY,
 * DELAY_DEQUEUE, DELAY_ZERO, WAKEUP_PREEMPTION; no hrtick, so a slice that is over is noticed at
 * the next tick or wake-up.
 *
 * An entity stands for a vCPU's thread in a cgroup of its own (as libvirt and the wall-clock lab
 * make them): it has the cgroup's weight at the root of its pCPU. The hierarchy of a VM's cgroup
 * above it is flat here. Runqueues are short, so sums are taken anew instead of kept.
 */
#include "model.h"

bool vt_is_fair(const VtEntity *e)
{
	return e->kind != VT_DUTY;
}

/* calc_delta_fair() */
static int64_t virtual(const VtEntity *e, int64_t ns)
{
	return e->weight == VT_WEIGHT_NORMAL ? ns : ns * VT_WEIGHT_NORMAL / e->weight;
}

static VtEntity *running(const VtPcpu *p)
{
	VtEntity *e = p->curr;

	return e && vt_is_fair(e) && e->queued && !e->delayed ? e : NULL;
}

/* avg_vruntime(): sum is that of weight * (vruntime - base). */
typedef struct Average {
	int64_t base, sum, load;
} Average;

static void average_add(Average *average, const VtEntity *e)
{
	average->sum += e->weight * (e->vruntime - average->base);
	average->load += e->weight;
}

static Average average_of(const VtPcpu *p)
{
	const VtEntity *e = running(p);
	Average average = { 0 };

	average.base = e ? e->vruntime : p->fair.first ? p->fair.first->vruntime : 0;
	if (e)
		average_add(&average, e);
	for (e = p->fair.first; e; e = e->next)
		average_add(&average, e);
	return average;
}

static int64_t average_vruntime(const Average *average)
{
	int64_t sum = average->sum;

	if (!average->load)
		return average->base;
	if (sum < 0)
		sum -= average->load - 1; /* round to the left, as the kernel does */
	return average->base + sum / average->load;
}

/* vruntime_eligible(): lag >= 0, without the division's rounding */
static bool eligible(const Average *average, const VtEntity *e)
{
	return average->sum >= (e->vruntime - average->base) * average->load;
}

/* update_entity_lag() */
static int64_t lag_of(const VtHost *h, const VtPcpu *p, const VtEntity *e)
{
	Average average = average_of(p);
	int64_t lag = average_vruntime(&average) - e->vruntime;
	int64_t slice2 = 2 * h->plan->slice_ns;
	int64_t limit = virtual(e, slice2 > h->tick_ns ? slice2 : h->tick_ns);

	return lag > limit ? limit : lag < -limit ? -limit : lag;
}

/*
 * While an entity is alone its ticks are left out. This is what they would have done since: renew
 * its deadline at the first tick after its slice was over, again and again.
 */
static void renew_by_ticks(const VtHost *h, const VtPcpu *p, VtEntity *e)
{
	int64_t due = e->charged_ns + (e->deadline - e->vruntime) * e->weight / VT_WEIGHT_NORMAL;
	int64_t first = vt_next_tick(h, due - 1), period, last;

	if (first > p->clock)
		return;
	period = (h->plan->slice_ns + h->tick_ns - 1) / h->tick_ns * h->tick_ns;
	last = first + (p->clock - first) / period * period;
	e->deadline = e->vruntime + virtual(e, last - e->charged_ns + h->plan->slice_ns);
}

/* update_curr() and update_deadline(): count what the running entity ran. */
void vt_fair_update(VtHost *h, VtPcpu *p)
{
	VtEntity *e = running(p);
	int64_t ran;

	if (!e || (ran = p->clock - e->charged_ns) <= 0)
		return;
	if (!p->fair.nr)
		renew_by_ticks(h, p, e);
	e->charged_ns = p->clock;
	e->vruntime += virtual(e, ran);
	if (!vt_quota_charge(e, ran))
		p->resched = true;
	if (e->vruntime >= e->deadline) {
		e->deadline = e->vruntime + virtual(e, h->plan->slice_ns);
		if (p->fair.nr)
			p->resched = true;
	}
}

/* place_entity() */
static void place(const VtHost *h, const VtPcpu *p, VtEntity *e)
{
	Average average = average_of(p);
	int64_t lag = e->lag;

	/* Adding it moves the average towards it: enlarge its lag, so that so much remains. */
	if (average.load)
		lag = lag * (average.load + e->weight) / average.load;
	else
		lag = 0;
	e->vruntime = average_vruntime(&average) - lag;
	e->deadline = e->vruntime + (e->relative ? e->deadline : virtual(e, h->plan->slice_ns));
	e->relative = false;
}

/* enqueue_entity(); of a delayed one requeue_delayed_entity() */
void vt_fair_enqueue(VtHost *h, VtPcpu *p, VtEntity *e)
{
	if (e->delayed) {
		e->delayed = false;
		if (lag_of(h, p, e) <= 0)
			return;
		/* DELAY_ZERO: it has slept its debt off, and gains no more by that. */
		vt_list_remove(&p->fair, e);
		e->lag = 0;
	}
	place(h, p, e);
	vt_list_add(&p->fair, e);
	e->queued = true;
}

/*
 * dequeue_entity(), of one that runs or waits. A sleeper that has had more than its share stays
 * queued (delayed) until the others have caught up: sleeping shall not wipe the debt out.
 */
void vt_fair_dequeue(VtHost *h, VtPcpu *p, VtEntity *e, VtDequeue how)
{
	Average average = average_of(p);
	bool runs = p->curr == e;

	if (how == VT_DEQUEUE_SLEEP && !eligible(&average, e)) {
		e->delayed = true;
		if (runs)
			vt_list_add(&p->fair, e);
		return;
	}
	e->lag = lag_of(h, p, e);
	if (how == VT_DEQUEUE_MIGRATE) {
		e->deadline -= e->vruntime;
		e->relative = true;
	}
	if (!runs)
		vt_list_remove(&p->fair, e);
	e->queued = false;
}

/* finish_delayed_dequeue_entity() */
void vt_fair_finish_delayed(VtHost *h, VtPcpu *p, VtEntity *e)
{
	e->lag = lag_of(h, p, e);
	if (e->lag > 0)
		e->lag = 0;
	vt_list_remove(&p->fair, e);
	e->delayed = e->queued = false;
}

/* put_prev_entity() of one that would go on */
void vt_fair_put(VtPcpu *p, VtEntity *e)
{
	vt_list_add(&p->fair, e);
}

/* set_next_entity(): from now on it is protected until it has had its slice. */
void vt_fair_set(VtPcpu *p, VtEntity *e)
{
	vt_list_remove(&p->fair, e);
	e->protected_deadline = e->deadline;
	e->charged_ns = p->clock;
}

/* pick_eevdf(): of the eligible the one with the earliest deadline, the running one protected. */
VtEntity *vt_fair_best(const VtPcpu *p)
{
	Average average = average_of(p);
	VtEntity *curr = running(p), *best = NULL, *e;

	if (!p->fair.nr)
		return curr;
	if (p->fair.nr == 1 && !curr)
		return p->fair.first;
	if (curr && !eligible(&average, curr))
		curr = NULL;
	if (curr && curr->protected_deadline == curr->deadline)
		return curr;
	for (e = p->fair.first; e; e = e->next) {
		if ((!best || e->deadline < best->deadline) && eligible(&average, e))
			best = e;
	}
	return !best || (curr && curr->deadline < best->deadline) ? curr : best;
}

/* pick_next_entity(): delayed ones leave as they come up. NULL: nothing to run. */
VtEntity *vt_fair_pick(VtHost *h, VtPcpu *p)
{
	VtEntity *e;

	while ((e = vt_fair_best(p)) && e->delayed)
		vt_fair_finish_delayed(h, p, e);
	return e;
}

int vt_fair_runnable(const VtPcpu *p)
{
	int count = running(p) && !p->curr->polls;
	const VtEntity *e;

	for (e = p->fair.first; e; e = e->next)
		count += !e->delayed;
	return count;
}

/* cpu_load() without its averaging over time */
int64_t vt_fair_load(const VtPcpu *p)
{
	int64_t load = running(p) ? p->curr->weight : 0;
	const VtEntity *e;

	for (e = p->fair.first; e; e = e->next)
		load += e->delayed ? 0 : e->weight;
	return load;
}
