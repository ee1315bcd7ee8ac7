// SPDX-License-Identifier: GPL-2.0-only
/* What competes with the vCPUs: when it wants to run. */
#include "model.h"

/* How long it will compute (CPU time) or sleep (time) next. */
static int64_t next_length(VtHost *h, VtEntity *e, bool on)
{
	const VtCompetitorPlan *plan = e->plan;

	switch (e->kind) {
	case VT_BURSTY:
		return vt_random_exponential(h, on ? plan->on_ns : plan->off_ns);
	case VT_RECORDED:
		e->step %= plan->nr_record;
		return plan->record[e->step++];
	default:
		return on ? plan->on_ns : plan->off_ns;
	}
}

static void sleep_until(VtHost *h, VtEntity *e, int64_t when)
{
	e->toggle_ns = when;
	vt_arm_entity(h, e);
}

/* It begins: a hog, a bursty one, or a record at once, a duty at its phase. */
void vt_competitor_start(VtHost *h, VtEntity *e, int64_t now)
{
	if (e->kind == VT_DUTY) {
		e->left_ns = VT_NEVER;
		sleep_until(h, e, now + e->plan->phase_ns);
		return;
	}
	if (e->kind == VT_BURSTY) { /* its state at a random time */
		int64_t cycle = e->plan->on_ns + e->plan->off_ns;

		if (vt_random_below(h, cycle) >= e->plan->on_ns) {
			sleep_until(h, e, now + next_length(h, e, false));
			return;
		}
	}
	e->left_ns = e->kind == VT_HOG ? VT_NEVER : next_length(h, e, true);
	vt_wakeup(h, e, now);
}

/* It has a pCPU from now on. */
void vt_competitor_on(VtHost *h, VtEntity *e, int64_t now)
{
	if (e->left_ns != VT_NEVER)
		sleep_until(h, e, now + e->left_ns);
}

/* It has none from now on. */
void vt_competitor_off(VtHost *h, VtEntity *e, int64_t now)
{
	if (e->left_ns == VT_NEVER)
		return;
	e->left_ns = e->toggle_ns - now;
	sleep_until(h, e, VT_NEVER);
}

/* Its toggle time has come. */
void vt_competitor_timer(VtHost *h, VtEntity *e, int64_t now)
{
	bool duty = e->kind == VT_DUTY;

	if (!e->wants) {
		if (duty)
			sleep_until(h, e, now + e->plan->on_ns); /* has it or not */
		else
			e->left_ns = next_length(h, e, true), sleep_until(h, e, VT_NEVER);
		vt_wakeup(h, e, now);
		return;
	}
	vt_clock_to(&h->pcpu[e->pcpu], now);
	vt_sleep(h, e);
	sleep_until(h, e, now + next_length(h, e, false));
}
