// SPDX-License-Identifier: GPL-2.0-only
/* Which entity has a pCPU: switches, wake-ups, ticks. After kernel/sched/core.c. */
#include "model.h"

void vt_charge_cost(VtHost *h, VtPcpu *p, int64_t cost_ns)
{
	if (cost_ns <= 0)
		return;
	vt_clock_run(h, p, cost_ns);
	p->curr->truth.overhead_ns += cost_ns;
}

/* The caller's times can be ahead of a pCPU by a quantum; what an entity saw is not undone. */
static void come_in(VtHost *h, VtPcpu *p, VtEntity *e)
{
	int64_t cost_ns = e->cost_ns;

	vt_clock_to(p, e->seen_ns);
	if (vt_is_fair(e))
		vt_fair_set(p, e);
	p->curr = e;
	vt_waited(e, p->clock);
	e->truth.slices++;
	if (p->last && p->last != e)
		cost_ns += h->plan->costs.host_switch_ns;
	p->last = e;
	e->cost_ns = 0;
	vt_event(h, p->clock, p->index, e, VT_WHY_IN);
	if (e->kind != VT_VCPU) {
		vt_competitor_on(h, e, p->clock);
		return;
	}
	if (e->blocked)
		vt_poll_adapt(h, e, p->clock);
	e->blocked = false;
	vt_heap_set(&h->runners, p->index, p->clock);
	vt_charge_cost(h, p, cost_ns);
}

static void leave(VtHost *h, VtPcpu *p)
{
	if (p->curr->kind == VT_VCPU)
		vt_heap_set(&h->runners, p->index, VT_NEVER);
	else
		vt_competitor_off(h, p->curr, p->clock);
	p->curr = NULL;
}

static VtEntity *pick(VtHost *h, VtPcpu *p)
{
	return p->rt.first ? p->rt.first : vt_fair_pick(h, p);
}

/* __schedule() */
void vt_schedule(VtHost *h, VtPcpu *p)
{
	VtEntity *next;

	if (p->curr && p->curr->polls)
		vt_poll_give_up(h, p->curr);
	vt_fair_update(h, p);
	if (p->curr && vt_is_fair(p->curr))
		vt_quota_stops(h, p->curr, p->index);
	p->resched = false;
	next = pick(h, p);
	if (!next && h->balances && vt_balance_newly_idle(h, p))
		return; /* which has scheduled what it found */
	if (next != p->curr) {
		VtEntity *curr = p->curr;

		if (curr) {
			leave(h, p);
			if (vt_is_fair(curr))
				vt_fair_put(p, curr);
			vt_waits(curr, p->clock);
			vt_event(h, p->clock, p->index, curr, VT_WHY_PREEMPTED);
		}
		if (next)
			come_in(h, p, next);
	}
	vt_arm_tick(h, p);
}

/* Make it runnable on its pCPU, and give it the pCPU if it is due: wakeup_preempt(). */
void vt_queue(VtHost *h, VtPcpu *p, VtEntity *e)
{
	if (!vt_is_fair(e)) {
		vt_list_add(&p->rt, e);
		if (!p->curr || vt_is_fair(p->curr))
			vt_schedule(h, p);
		return;
	}
	if (vt_quota_stops(h, e, p->index)) {
		e->throttled = true;
		vt_event(h, p->clock, p->index, e, VT_WHY_THROTTLED);
		if (!p->curr) /* it was of the same quota */
			vt_schedule(h, p);
		return;
	}
	vt_fair_update(h, p);
	vt_fair_enqueue(h, p, e);
	vt_quota_joins(e, p->index);
	if (!p->curr || p->curr->polls || p->resched ||
	    (vt_is_fair(p->curr) && vt_fair_best(p) == e))
		vt_schedule(h, p);
	else
		vt_arm_tick(h, p);
}

/* Take it off its pCPU's queue; the caller schedules. */
void vt_unqueue(VtHost *h, VtEntity *e, VtDequeue how)
{
	VtPcpu *p = &h->pcpu[e->pcpu];

	if (vt_is_fair(e)) {
		vt_fair_update(h, p);
		vt_fair_dequeue(h, p, e, how);
		vt_quota_leaves(h, e, p->index, p->clock);
	} else {
		vt_list_remove(&p->rt, e);
	}
	if (p->curr == e)
		leave(h, p);
}

/* try_to_wake_up() */
void vt_wakeup(VtHost *h, VtEntity *e, int64_t now)
{
	VtPcpu *p = &h->pcpu[e->pcpu];

	e->wants = true;
	if (e->polls) {
		vt_clock_to(p, now);
		vt_poll_success(h, e);
		return;
	}
	if (e->kind == VT_VCPU)
		e->cost_ns = h->plan->costs.wake_ns;
	p = vt_balance_place(h, e);
	if (p->index != e->pcpu) {
		if (e->delayed) {
			VtPcpu *old = &h->pcpu[e->pcpu];

			vt_clock_to(old, now);
			vt_fair_update(h, old);
			vt_fair_finish_delayed(h, old, e);
		}
		e->pcpu = p->index;
		e->truth.migrations++;
	}
	vt_clock_to(p, now);
	vt_event(h, now, p->index, e, VT_WHY_WOKEN);
	vt_waits(e, now);
	vt_queue(h, p, e);
}

/* The running or waiting entity goes to sleep by its own will. */
void vt_sleep(VtHost *h, VtEntity *e)
{
	VtPcpu *p = &h->pcpu[e->pcpu];

	e->wants = false;
	vt_waited(e, p->clock);
	if (e->throttled)
		e->throttled = false; /* and off its queue already */
	else
		vt_unqueue(h, e, VT_DEQUEUE_SLEEP);
	vt_event(h, p->clock, p->index, e, VT_WHY_HALTED);
	if (!p->curr)
		vt_schedule(h, p);
}

/* sched_tick() */
void vt_tick(VtHost *h, VtPcpu *p, int64_t now)
{
	vt_clock_to(p, now);
	vt_fair_update(h, p);
	vt_balance_tick(h, p);
	if (p->resched)
		vt_schedule(h, p);
	else
		vt_arm_tick(h, p);
}

/* The first tick after `now`. All pCPUs tick at once: skew_tick is off by default. */
int64_t vt_next_tick(const VtHost *h, int64_t now)
{
	return now + h->tick_ns - (now - h->tick_phase) % h->tick_ns;
}

/*
 * Arm the tick if it can change anything: a slice or a quota can end, or tasks can be pulled. An
 * idle pCPU looks for tasks when its time to balance has come, as the kernel's idle balancer
 * does for all that have stopped their tick.
 */
void vt_arm_tick(VtHost *h, VtPcpu *p)
{
	const VtEntity *e = p->curr;
	bool needed =
		e && vt_is_fair(e) && (p->fair.nr || e->quota[0] || e->quota[1] || h->balances);
	int64_t when = VT_NEVER;

	if (needed)
		when = vt_next_tick(h, p->clock);
	else if (!e && h->balances)
		when = vt_next_tick(h, p->balance_ns > p->clock ? p->balance_ns : p->clock);
	vt_heap_set(&h->timers, vt_timer_pcpu(h, p->index), when);
}

void vt_arm_entity(VtHost *h, VtEntity *e)
{
	vt_heap_set(&h->timers, vt_timer_entity(h, e->id),
		    e->wake_ns < e->toggle_ns ? e->wake_ns : e->toggle_ns);
}
