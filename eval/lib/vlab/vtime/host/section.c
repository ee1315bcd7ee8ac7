// SPDX-License-Identifier: GPL-2.0-only
/* The part of a description that holds now: pCPUs, quotas and competitors are set up anew. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

typedef struct Room {
	int entities, quotas, pcpus;
} Room;

static int count_competitors(const VtSection *section)
{
	int i, count = 0;

	for (i = 0; i < section->nr_competitors; i++)
		count += vt_competitor_count(&section->competitor[i]);
	return count;
}

/* What the largest of the sections needs. */
static Room needed(const VtHost *h, const VtPlan *plan)
{
	Room room = { h->nr_vcpus, 0, 0 };
	int i;

	for (i = 0; i < plan->nr_sections; i++) {
		const VtSection *section = &plan->section[i];
		int entities = h->nr_vcpus + count_competitors(section);

		room.entities = entities > room.entities ? entities : room.entities;
		room.quotas = section->nr_quotas > room.quotas ? section->nr_quotas : room.quotas;
		room.pcpus = section->nr_pcpus > room.pcpus ? section->nr_pcpus : room.pcpus;
	}
	return room;
}

static void free_quotas(VtQuota *quota, int count)
{
	while (quota && count > 0)
		free(quota[--count].on);
	free(quota);
}

static VtQuota *make_quotas(const Room *room)
{
	VtQuota *quota = calloc(room->quotas + 1, sizeof(*quota));
	int i;

	for (i = 0; quota && i < room->quotas; i++) {
		quota[i].index = i;
		quota[i].on = calloc(room->pcpus, sizeof(*quota[i].on));
		if (!quota[i].on) {
			free_quotas(quota, i);
			return NULL;
		}
	}
	return quota;
}

/* Take every vCPU off its pCPU, and end the competitors. Who wanted to run waits. */
static void stop_all(VtHost *h)
{
	int i;

	for (i = 0; i < h->nr_vcpus; i++) {
		VtEntity *e = &h->entity[i];
		VtPcpu *p = &h->pcpu[e->pcpu];
		bool on = p->curr == e;

		vt_clock_to(p, h->now);
		if (on && e->polls) {
			vt_event(h, p->clock, p->index, e, VT_WHY_POLL_END);
			vt_event(h, p->clock, p->index, e, VT_WHY_HALTED);
			e->blocked = true;
		} else if (on) {
			vt_waits(e, p->clock);
			vt_event(h, p->clock, p->index, e, VT_WHY_PREEMPTED);
		}
		if (on)
			p->curr = NULL;
		e->polls = e->queued = e->delayed = e->throttled = e->relative = false;
		e->lag = 0;
		e->toggle_ns = VT_NEVER;
		e->quota[0] = e->quota[1] = NULL;
	}
	for (i = 0; i < h->nr_pcpus; i++) {
		VtPcpu *p = &h->pcpu[i];

		vt_clock_to(p, h->now);
		if (p->curr)
			vt_event(h, p->clock, p->index, p->curr, VT_WHY_HALTED);
		p->curr = NULL;
	}
	h->nr_pcpus = h->nr_quotas = 0;
	h->nr_entities = h->nr_vcpus;
}

void vt_section_free_room(VtHost *h)
{
	free_quotas(h->quota, h->room_quotas);
	free(h->entity);
	vt_heap_free(&h->timers);
	vt_plan_free(h->plan);
}

/* Take over the plan, and make room for all its sections. false: no memory, nothing changed. */
bool vt_section_make_room(VtHost *h, VtPlan *plan)
{
	Room room = needed(h, plan);
	int timers = VT_TIMER_QUOTA + room.quotas + room.entities + room.pcpus;
	VtEntity *entity = calloc(room.entities, sizeof(*entity));
	VtQuota *quota = make_quotas(&room);
	VtHeap heap = { 0 };

	if (!vt_heap_make(&heap, timers) || !entity || !quota) {
		vt_heap_free(&heap);
		free_quotas(quota, room.quotas);
		free(entity);
		return false;
	}
	if (h->entity) {
		stop_all(h);
		memcpy(entity, h->entity, sizeof(*entity) * h->nr_vcpus);
		vt_section_free_room(h);
	}
	h->entity = entity;
	h->quota = quota;
	h->room_quotas = room.quotas;
	h->room_timers = timers;
	h->timers = heap;
	h->plan = plan;
	return true;
}

/* What real-time competitors leave of a pCPU: the kernel's scale_rt_capacity(). */
static int64_t capacity(const VtSection *section, int pcpu)
{
	int64_t left = VT_PPM;
	int i;

	for (i = 0; i < section->nr_competitors; i++) {
		const VtCompetitorPlan *plan = &section->competitor[i];

		if (plan->kind == VT_DUTY && vt_mask_has(&plan->on, pcpu))
			left = left * plan->off_ns / (plan->on_ns + plan->off_ns);
	}
	left = left * section->speed_ppm[pcpu] / VT_PPM;
	return left > VT_PPM / 100 ? left : VT_PPM / 100;
}

static void set_up_pcpus(VtHost *h, const VtSection *section, int64_t now)
{
	int i;

	h->nr_pcpus = section->nr_pcpus;
	vt_heap_clear(&h->runners, VT_MAX_PCPUS);
	for (i = 0; i < h->nr_pcpus; i++) {
		VtPcpu *p = &h->pcpu[i];
		int64_t clock = p->clock > now ? p->clock : now; /* ahead by what a turn took */

		memset(p, 0, sizeof(*p));
		p->index = i;
		p->clock = clock;
		p->speed_ppm = section->speed_ppm[i];
		p->capacity_ppm = capacity(section, i);
		p->sibling = section->smt_ppm && (i ^ 1) < h->nr_pcpus ? i ^ 1 : -1;
		p->balance_ns = now + vt_random_below(h, 16 * h->nr_pcpus) * 1000000;
	}
}

static void add_competitor(VtHost *h, const VtCompetitorPlan *plan, int pcpu, int n)
{
	static const char *const names[] = { "vcpu", "hog", "bursty", "recorded", "duty" };
	VtEntity *e = &h->entity[h->nr_entities];

	memset(e, 0, sizeof(*e));
	e->id = h->nr_entities++;
	e->kind = plan->kind;
	e->plan = plan;
	e->weight = plan->weight;
	e->waits_since = e->wake_ns = e->toggle_ns = e->left_ns = VT_NEVER;
	e->pcpu = pcpu;
	if (plan->floats) {
		e->allowed = plan->on;
		snprintf(e->name, sizeof(e->name), "%s %d, floating", names[plan->kind], n);
	} else {
		vt_mask_add(&e->allowed, pcpu);
		snprintf(e->name, sizeof(e->name), "%s %d on %d", names[plan->kind], n, pcpu);
	}
	h->balances |= vt_mask_count(&e->allowed) > 1;
}

static void add_competitors(VtHost *h, const VtSection *section)
{
	int i, pcpu, n;

	for (i = 0; i < section->nr_competitors; i++) {
		const VtCompetitorPlan *plan = &section->competitor[i];

		pcpu = vt_mask_next(&plan->on, 0);
		for (n = 0; plan->floats ? n < plan->floats : pcpu >= 0; n++) {
			add_competitor(h, plan, pcpu, i);
			pcpu = vt_mask_next(&plan->on, pcpu + 1);
			if (pcpu < 0 && plan->floats)
				pcpu = vt_mask_next(&plan->on, 0);
		}
	}
}

static void set_up_vcpus(VtHost *h, const VtSection *section)
{
	int i, place = -1;

	for (i = 0; i < h->nr_vcpus; i++) {
		VtEntity *e = &h->entity[i];
		const VtVcpuPlan *plan = &section->vcpu[i];

		e->allowed = plan->on;
		e->weight = plan->weight;
		h->balances |= vt_mask_count(&e->allowed) > 1;
		if (e->pcpu < h->nr_pcpus && vt_mask_has(&e->allowed, e->pcpu))
			continue;
		place = vt_mask_next(&e->allowed, place + 1);
		if (place < 0)
			place = vt_mask_next(&e->allowed, 0);
		e->pcpu = place;
	}
}

static void set_up_quotas(VtHost *h, const VtSection *section, int64_t now)
{
	int i, v;

	for (i = 0; i < h->nr_quotas; i++) {
		vt_quota_reset(h, &h->quota[i], &section->quota[i], now);
		for (v = 0; v < h->nr_vcpus; v++) {
			if (vt_mask_has(&section->quota[i].vcpus, v))
				h->entity[v].quota[section->quota[i].level] = &h->quota[i];
		}
	}
}

/* From now on this section holds. */
void vt_section_apply(VtHost *h, int index, int64_t now)
{
	const VtSection *section = &h->plan->section[index];
	int i;

	stop_all(h);
	h->tick_ns = h->plan->tick_ns;
	h->balances = false;
	h->nr_quotas = section->nr_quotas;
	vt_heap_clear(&h->timers, h->room_timers);
	set_up_pcpus(h, section, now);
	set_up_vcpus(h, section);
	add_competitors(h, section);
	set_up_quotas(h, section, now);
	h->section = section;
	h->tick_phase = -vt_random_below(h, h->tick_ns);

	for (i = 0; i < h->nr_vcpus; i++) {
		VtEntity *e = &h->entity[i];

		vt_arm_entity(h, e);
		if (!e->wants)
			continue;
		e->pcpu = vt_balance_place(h, e)->index;
		vt_queue(h, &h->pcpu[e->pcpu], e);
	}
	for (; i < h->nr_entities; i++)
		vt_competitor_start(h, &h->entity[i], now);
	for (i = 0; h->balances && i < h->nr_pcpus; i++)
		vt_arm_tick(h, &h->pcpu[i]);

	/* the next one */
	h->next_section = (index + 1) % h->plan->nr_sections;
	if (h->next_section)
		h->section_ns = h->cycle_start + h->plan->section[h->next_section].at_ns;
	else
		h->section_ns = h->plan->cycle_ns ? h->cycle_start + h->plan->cycle_ns : VT_NEVER;
	vt_heap_set(&h->timers, VT_TIMER_SECTION, h->section_ns);
}
