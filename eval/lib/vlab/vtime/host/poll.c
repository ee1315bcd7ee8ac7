// SPDX-License-Identifier: GPL-2.0-only
/*
 * KVM's halt polling, as kvm_vcpu_halt() in virt/kvm/kvm_main.c of Linux 6.12: a vCPU that halts
 * keeps its pCPU for up to its halt_poll_ns, unless another task is there. halt_poll_ns grows if
 * the vCPU blocked for less than the maximum, and shrinks if it blocked for longer.
 */
#include "model.h"

/* The vCPU has halted. Return true if it keeps its pCPU. */
bool vt_poll_start(VtHost *h, VtPcpu *p, VtEntity *e)
{
	e->halted_ns = p->clock;
	if (e->halt_poll_ns > h->plan->poll_max_ns)
		e->halt_poll_ns = h->plan->poll_max_ns;
	/* kvm_vcpu_can_poll(): single_task_running() */
	if (!e->poll_allowed || !e->halt_poll_ns || p->rt.nr || vt_fair_runnable(p) > 1)
		return false;
	e->wants = false;
	e->polls = true;
	e->toggle_ns = p->clock + e->halt_poll_ns;
	vt_heap_set(&h->runners, p->index, VT_NEVER);
	vt_arm_entity(h, e);
	vt_event(h, p->clock, p->index, e, VT_WHY_POLL_START);
	return true;
}

static void end(VtHost *h, VtEntity *e)
{
	const VtPcpu *p = &h->pcpu[e->pcpu];

	e->polls = false;
	e->toggle_ns = VT_NEVER;
	vt_arm_entity(h, e);
	vt_event(h, p->clock, p->index, e, VT_WHY_POLL_END);
}

/* It was woken in time, and goes on. */
void vt_poll_success(VtHost *h, VtEntity *e)
{
	VtPcpu *p = &h->pcpu[e->pcpu];

	end(h, e);
	vt_poll_adapt(h, e, p->clock);
	vt_heap_set(&h->runners, p->index, p->clock);
	vt_charge_cost(h, p, h->plan->costs.wake_polled_ns);
	vt_arm_tick(h, p);
}

/* The time is up, or another task wants the pCPU: it blocks. The caller schedules. */
void vt_poll_give_up(VtHost *h, VtEntity *e)
{
	VtPcpu *p = &h->pcpu[e->pcpu];

	end(h, e);
	e->blocked = true;
	vt_unqueue(h, e, VT_DEQUEUE_SLEEP);
	vt_event(h, p->clock, p->index, e, VT_WHY_HALTED);
}

/* It runs again: the rest of kvm_vcpu_halt(). */
void vt_poll_adapt(VtHost *h, VtEntity *e, int64_t now)
{
	int64_t halted = now - e->halted_ns, max = h->plan->poll_max_ns;

	if (!e->poll_allowed)
		return;
	if (!max) {
		e->halt_poll_ns = 0;
	} else if (halted <= e->halt_poll_ns) {
		return;
	} else if (e->halt_poll_ns && halted > max) { /* shrink_halt_poll_ns() */
		e->halt_poll_ns = h->plan->poll_shrink ? e->halt_poll_ns / h->plan->poll_shrink : 0;
		if (e->halt_poll_ns < h->plan->poll_grow_start_ns)
			e->halt_poll_ns = 0;
	} else if (e->halt_poll_ns < max && halted < max && h->plan->poll_grow) {
		e->halt_poll_ns *= h->plan->poll_grow; /* grow_halt_poll_ns() */
		if (e->halt_poll_ns < h->plan->poll_grow_start_ns)
			e->halt_poll_ns = h->plan->poll_grow_start_ns;
	}
}
