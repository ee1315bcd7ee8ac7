// SPDX-License-Identifier: GPL-2.0-only
/* Turns and clocks: the events of the host in order of time, and the vCPU that is next. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

VtHost *vt_host_new(int nr_vcpus, uint64_t seed)
{
	VtHost *h;
	VtPlan *plan;
	char error[128];
	int i;

	if (nr_vcpus < 1 || nr_vcpus > VT_MAX_VCPUS || !(h = calloc(1, sizeof(*h))))
		return NULL;
	h->nr_vcpus = nr_vcpus;
	h->random = seed;
	plan = vt_plan_read("", nr_vcpus, error, sizeof(error));
	if (!plan || !vt_heap_make(&h->runners, VT_MAX_PCPUS) || !vt_section_make_room(h, plan)) {
		vt_plan_free(plan);
		vt_heap_free(&h->runners);
		free(h);
		return NULL;
	}
	for (i = 0; i < nr_vcpus; i++) {
		VtEntity *e = &h->entity[i];

		e->id = e->pcpu = i;
		e->kind = VT_VCPU;
		e->poll_allowed = true;
		e->waits_since = e->wake_ns = e->toggle_ns = e->left_ns = VT_NEVER;
	}
	vt_section_apply(h, 0, 0);
	return h;
}

void vt_host_free(VtHost *h)
{
	if (!h)
		return;
	vt_section_free_room(h);
	vt_heap_free(&h->runners);
	free(h);
}

int vt_host_shape(VtHost *h, const char *text, int64_t now_ns, char *error, size_t size)
{
	VtPlan *plan = vt_plan_read(text, h->nr_vcpus, error, size);

	if (!plan)
		return -1;
	vt_host_advance(h, now_ns);
	if (!vt_section_make_room(h, plan)) {
		vt_plan_free(plan);
		snprintf(error, size, "there is no memory for the shape; use a smaller one");
		return -1;
	}
	now_ns -= h->paused_ns;
	h->cycle_start = h->now > now_ns ? h->now : now_ns;
	vt_section_apply(h, 0, h->cycle_start);
	return 0;
}

static VtEntity *vcpu_of(VtHost *h, int vcpu)
{
	return vcpu >= 0 && vcpu < h->nr_vcpus ? &h->entity[vcpu] : NULL;
}

void vt_host_wake(VtHost *h, int vcpu, int64_t now_ns)
{
	VtEntity *e = vcpu_of(h, vcpu);

	now_ns -= h->paused_ns;
	if (!e || e->wants || e->wake_ns <= now_ns)
		return;
	if (e->wake_ns == VT_NEVER)
		h->nr_wanting++;
	e->wake_ns = now_ns > h->now ? now_ns : h->now;
	if (e->wake_ns < e->seen_ns)
		e->wake_ns = e->seen_ns;
	vt_arm_entity(h, e);
}

void vt_host_halt(VtHost *h, int vcpu, int64_t now_ns)
{
	VtEntity *e = vcpu_of(h, vcpu);
	VtPcpu *p = e ? &h->pcpu[e->pcpu] : NULL;

	if (!e || (!e->wants && e->wake_ns == VT_NEVER))
		return;
	h->nr_wanting--;
	e->truth.halts++;
	if (!e->wants) { /* the wake-up on its way is void */
		e->wake_ns = VT_NEVER;
		vt_arm_entity(h, e);
		return;
	}
	vt_clock_to(p, now_ns - h->paused_ns);
	if (p->curr == e) {
		vt_charge_cost(h, p, h->plan->costs.halt_ns);
		vt_fair_update(h, p);
		if (vt_poll_start(h, p, e))
			return;
	}
	e->blocked = true;
	e->halted_ns = p->clock;
	vt_sleep(h, e);
}

void vt_host_poll_control(VtHost *h, int vcpu, bool enabled)
{
	VtEntity *e = vcpu_of(h, vcpu);

	if (e)
		e->poll_allowed = enabled;
}

static void vcpu_timer(VtHost *h, VtEntity *e, int64_t now)
{
	VtPcpu *p = &h->pcpu[e->pcpu];

	if (e->wake_ns <= now) {
		e->wake_ns = VT_NEVER;
		vt_wakeup(h, e, now);
		vt_arm_entity(h, e);
		return;
	}
	vt_clock_to(p, now);
	vt_schedule(h, p); /* its polling ends */
}

static void handle(VtHost *h, int timer, int64_t now)
{
	VtEntity *e;

	h->nr_events++;
	if (timer == VT_TIMER_SECTION) {
		if (!h->next_section)
			h->cycle_start = now;
		vt_section_apply(h, h->next_section, now);
	} else if (timer < vt_timer_entity(h, 0)) {
		vt_quota_timer(h, &h->quota[timer - VT_TIMER_QUOTA], now);
	} else if (timer < vt_timer_pcpu(h, 0)) {
		e = &h->entity[timer - vt_timer_entity(h, 0)];
		if (e->kind == VT_VCPU)
			vcpu_timer(h, e, now);
		else
			vt_competitor_timer(h, e, now);
	} else {
		vt_tick(h, &h->pcpu[timer - vt_timer_pcpu(h, 0)], now);
	}
}

/* How fast a pCPU works, when its sibling is busy or not. */
static int64_t rate_ppm(const VtHost *h, const VtPcpu *p)
{
	if (p->sibling >= 0 && h->pcpu[p->sibling].curr)
		return p->speed_ppm * h->section->smt_ppm / VT_PPM;
	return p->speed_ppm;
}

static int64_t at_speed(int64_t ns, int64_t ppm)
{
	return ns / VT_PPM * ppm + ns % VT_PPM * ppm / VT_PPM;
}

VtNext vt_host_next(VtHost *h, int64_t limit_ns, VtTurn *turn)
{
	int64_t limit = limit_ns - h->paused_ns, event, first, end;
	VtPcpu *p;

	for (;;) {
		event = vt_heap_first_time(&h->timers);
		first = vt_heap_first_time(&h->runners);
		if (event == VT_NEVER || event > first || event > limit)
			break;
		if (first == VT_NEVER && !h->nr_wanting)
			return VT_IDLE;
		if (event > h->now)
			h->now = event;
		handle(h, h->timers.order[0], event);
	}
	if (first == VT_NEVER && !h->nr_wanting)
		return VT_IDLE;
	if (first >= limit) {
		if (limit > h->now)
			h->now = limit;
		return VT_LIMIT;
	}
	if (first > h->now)
		h->now = first;
	p = &h->pcpu[h->runners.order[0]];
	end = event < limit ? event : limit;
	turn->vcpu = p->curr->id;
	turn->pcpu = p->index;
	turn->now_ns = p->clock + h->paused_ns;
	turn->work_ns = end == VT_NEVER ? VT_NEVER : at_speed(end - p->clock, rate_ppm(h, p));
	if (turn->work_ns < 1)
		turn->work_ns = 1;
	return VT_RUN;
}

void vt_host_ran(VtHost *h, int vcpu, int64_t work_ns, int64_t cost_ns)
{
	VtEntity *e = vcpu_of(h, vcpu);
	VtPcpu *p = e ? &h->pcpu[e->pcpu] : NULL;
	int64_t rate, ns;

	if (!e || p->curr != e || e->polls || work_ns < 0)
		return;
	rate = rate_ppm(h, p);
	if (rate == VT_PPM) {
		ns = work_ns;
	} else {
		ns = work_ns * VT_PPM + p->remainder;
		p->remainder = ns % rate;
		ns /= rate;
	}
	vt_clock_run(h, p, ns);
	vt_charge_cost(h, p, cost_ns);
}

int64_t vt_host_frontier_ns(const VtHost *h)
{
	return h->now + h->paused_ns;
}

void vt_host_advance(VtHost *h, int64_t now_ns)
{
	int64_t now = now_ns - h->paused_ns, event;

	while ((event = vt_heap_first_time(&h->timers)) != VT_NEVER && event <= now &&
	       event <= vt_heap_first_time(&h->runners)) {
		if (event > h->now)
			h->now = event;
		handle(h, h->timers.order[0], event);
	}
	if (vt_heap_first_time(&h->runners) < now)
		now = vt_heap_first_time(&h->runners);
	if (now > h->now)
		h->now = now;
}

void vt_host_pause(VtHost *h, int64_t ns)
{
	if (ns > 0)
		h->paused_ns += ns;
}

const char *vt_host_competitor(const VtHost *h, int n)
{
	return n >= 0 && n < h->nr_entities - h->nr_vcpus ? h->entity[h->nr_vcpus + n].name : NULL;
}

int vt_host_nr_pcpus(const VtHost *h)
{
	return h->nr_pcpus;
}

const VtCosts *vt_host_costs(const VtHost *h)
{
	return &h->plan->costs;
}

int64_t vt_host_halt_poll_ns(const VtHost *h, int vcpu)
{
	return vcpu >= 0 && vcpu < h->nr_vcpus ? h->entity[vcpu].halt_poll_ns : 0;
}

int64_t vt_host_nr_events(const VtHost *h)
{
	return h->nr_events;
}
