// SPDX-License-Identifier: GPL-2.0-only
/* Who ran when: the clocks of the pCPUs, what is counted as they move, and the events. */
#include "model.h"

void vt_event(VtHost *h, int64_t now, int pcpu, const VtEntity *e, VtWhy why)
{
	if (h->on_switch)
		h->on_switch(h->on_switch_arg, now + h->paused_ns, pcpu, e->id, why);
}

static void pass(VtPcpu *p, int64_t ns)
{
	VtEntity *e = p->curr;

	p->clock += ns;
	if (!e)
		return;
	e->seen_ns = p->clock;
	*(e->polls ? &e->truth.polled_ns : &e->truth.ran_ns) += ns;
}

/* A vCPU's pCPU moves by what the vCPU does, all others with the events of the host. */
void vt_clock_run(VtHost *h, VtPcpu *p, int64_t ns)
{
	pass(p, ns);
	vt_heap_set(&h->runners, p->index, p->clock);
}

void vt_clock_to(VtPcpu *p, int64_t now)
{
	if (now > p->clock && !(p->curr && p->curr->kind == VT_VCPU && !p->curr->polls))
		pass(p, now - p->clock);
}

void vt_waits(VtEntity *e, int64_t now)
{
	e->waits_since = now;
}

void vt_waited(VtEntity *e, int64_t now)
{
	if (e->waits_since == VT_NEVER)
		return;
	if (now > e->waits_since)
		e->truth.stolen_ns += now - e->waits_since;
	e->waits_since = VT_NEVER;
}

bool vt_host_truth(const VtHost *h, int entity, VtTruth *truth)
{
	const VtEntity *e;
	const VtPcpu *p;

	if (entity < 0 || entity >= h->nr_entities)
		return false;
	e = &h->entity[entity];
	p = &h->pcpu[e->pcpu];
	*truth = e->truth;
	truth->pcpu = e->pcpu;
	truth->on_pcpu = p->curr == e;
	truth->wants = e->wants;
	/* pCPUs that run no vCPU are brought up to date only when something happens there. */
	if (p->curr == e && h->now > p->clock)
		*(e->polls ? &truth->polled_ns : &truth->ran_ns) += h->now - p->clock;
	if (e->waits_since < h->now)
		truth->stolen_ns += h->now - e->waits_since;
	return true;
}

void vt_host_on_switch(VtHost *h, VtOnSwitch *call, void *arg)
{
	h->on_switch = call;
	h->on_switch_arg = arg;
}
