// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where entities run that may run on several pCPUs, after kernel/sched/fair.c: placement at
 * wake-up, the pull of a pCPU that falls idle, the periodic balance. All pCPUs are one domain.
 */
#include "model.h"

#define HOT_NS 500000	      /* sysctl_sched_migration_cost */
#define IMBALANCE_PERCENT 117 /* sd->imbalance_pct of a domain of cores */
#define BUSY_FACTOR 16	      /* sd->busy_factor: a busy pCPU balances so much less often */
#define MOST_FAILED 8	      /* of which each halves what a task's load counts */
#define CACHE_NICE_TRIES 1    /* sd->cache_nice_tries: then hot tasks move as well */

static bool idle(const VtPcpu *p)
{
	return !p->curr && !p->rt.nr && !vt_fair_runnable(p);
}

/* select_idle_sibling() in short: the previous pCPU, an idle core, an idle pCPU, the previous. */
VtPcpu *vt_balance_place(VtHost *h, VtEntity *e)
{
	bool stays = vt_mask_has(&e->allowed, e->pcpu);
	int first = vt_mask_next(&e->allowed, 0), found = -1, start, i;

	if (stays && (idle(&h->pcpu[e->pcpu]) || vt_mask_next(&e->allowed, first + 1) < 0))
		return &h->pcpu[e->pcpu];
	/* for_each_cpu_wrap() */
	start = vt_mask_next(&e->allowed, e->pcpu + 1);
	start = i = start < 0 ? first : start;
	do {
		const VtPcpu *p = &h->pcpu[i];

		if (idle(p)) {
			if (p->sibling < 0 || idle(&h->pcpu[p->sibling]))
				return &h->pcpu[i];
			if (found < 0)
				found = i;
		}
		i = vt_mask_next(&e->allowed, i + 1);
		if (i < 0)
			i = first;
	} while (i != start);
	return &h->pcpu[found >= 0 ? found : stays ? e->pcpu : start];
}

/* can_migrate_task() of one that waits */
static bool movable(const VtEntity *e, const VtPcpu *to, bool hot_too)
{
	return !e->delayed && vt_mask_has(&e->allowed, to->index) &&
	       (hot_too || to->clock - e->seen_ns >= HOT_NS);
}

static VtEntity *first_movable(const VtPcpu *from, const VtPcpu *to, bool hot_too, int64_t most)
{
	VtEntity *e;

	for (e = from->fair.first; e; e = e->next) {
		if (movable(e, to, hot_too) && e->weight <= most)
			return e;
	}
	return NULL;
}

/* Move one that waits or runs. */
static void pull(VtHost *h, VtEntity *e, VtPcpu *from, VtPcpu *to)
{
	bool ran = from->curr == e;

	vt_clock_to(from, to->clock);
	vt_unqueue(h, e, VT_DEQUEUE_MIGRATE);
	if (ran) {
		vt_waits(e, from->clock);
		vt_event(h, from->clock, from->index, e, VT_WHY_PREEMPTED);
	}
	e->pcpu = to->index;
	e->truth.migrations++;
	vt_event(h, to->clock, to->index, e, VT_WHY_MIGRATED);
	vt_queue(h, to, e);
	if (!from->curr)
		vt_schedule(h, from);
}

/* get_sd_balance_interval(): the domain's weight in ms */
static int64_t interval_ns(const VtHost *h, bool idle)
{
	return h->nr_pcpus * (idle ? 1 : BUSY_FACTOR) * 1000000ll;
}

/* cpu_load() in relation to what the pCPU gives */
static int64_t relative_load(const VtPcpu *p)
{
	return vt_fair_load(p) * VT_PPM / p->capacity_ppm;
}

/*
 * sched_balance_newidle(), without its guess whether the idle time is worth the search. Return
 * true if something was found, which has been scheduled.
 */
bool vt_balance_newly_idle(VtHost *h, VtPcpu *p)
{
	VtPcpu *busiest = NULL;
	VtEntity *e = NULL;
	int64_t most = 0;
	int i;

	for (i = 1; i < h->nr_pcpus; i++) {
		VtPcpu *from =
			&h->pcpu[(p->index + i) % h->nr_pcpus]; /* as sd->groups goes round */
		VtEntity *candidate;

		if (!from->fair.nr || relative_load(from) <= most)
			continue;
		candidate = first_movable(from, p, false, INT64_MAX);
		if (candidate) {
			busiest = from;
			e = candidate;
			most = relative_load(from);
		}
	}
	if (!e) {
		/* update_next_balance(): idle, it looks again sooner */
		if (p->balance_ns > p->clock + interval_ns(h, true))
			p->balance_ns = p->clock + interval_ns(h, true);
		return false;
	}
	pull(h, e, busiest, p);
	return p->curr;
}

/*
 * Active balance, for an idle core: SD_PREFER_SIBLING wants no core with two tasks beside one
 * without any; as they run, they are pushed, after some failures (need_active_balance()).
 */
static void balance_cores(VtHost *h, VtPcpu *p)
{
	int i;

	if (p->sibling < 0 || !idle(p) || !idle(&h->pcpu[p->sibling]))
		return;
	for (i = 1; i < h->nr_pcpus; i++) {
		VtPcpu *from = &h->pcpu[(p->index + i) % h->nr_pcpus];
		VtEntity *e = from->curr;

		if (!e || e->polls || !vt_is_fair(e) || !vt_mask_has(&e->allowed, p->index) ||
		    from->sibling < 0 || idle(&h->pcpu[from->sibling]))
			continue;
		if (p->balance_failed++ > CACHE_NICE_TRIES + 2) {
			p->balance_failed = 0;
			pull(h, e, from, p);
		}
		return;
	}
}

/*
 * sched_balance_rq() at the tick: pull from the pCPU with the most load, but not more than makes
 * both even. After failures ever heavier tasks may move, so that an odd one goes round.
 */
void vt_balance_tick(VtHost *h, VtPcpu *p)
{
	int64_t total = 0, capacity = 0, local = relative_load(p), most = 0, mean, imbalance,
		interval;
	VtPcpu *busiest = NULL;
	VtEntity *e;
	int i, failed;

	if (!h->balances || p->clock < p->balance_ns)
		return;
	/*
	 * get_sd_balance_interval(): the domain's weight in ms. The rest of a real host's work
	 * shifts balance and slices against each other; without that, some entity would never wait
	 * then.
	 */
	interval = h->nr_pcpus * (p->curr ? BUSY_FACTOR : 1) * 1000000ll;
	p->balance_ns = p->clock + interval * 3 / 4 + vt_random_below(h, interval / 2);
	for (i = 0; i < h->nr_pcpus; i++) {
		VtPcpu *from = &h->pcpu[(p->index + i) % h->nr_pcpus];

		total += vt_fair_load(from);
		capacity += from->capacity_ppm;
		if (from != p && from->fair.nr && relative_load(from) > most) {
			most = relative_load(from);
			busiest = from;
		}
	}
	if (!busiest || most * 100 <= local * IMBALANCE_PERCENT) {
		balance_cores(h, p);
		return;
	}
	/* calculate_imbalance(): so much that neither crosses the mean; an idle one takes all */
	mean = total * VT_PPM / capacity;
	imbalance = most - mean < mean - local ? most - mean : mean - local;
	imbalance = local ? imbalance * p->capacity_ppm / VT_PPM : INT64_MAX >> MOST_FAILED;
	if (imbalance <= 0)
		return;
	failed = p->balance_failed < MOST_FAILED ? p->balance_failed : MOST_FAILED;
	e = first_movable(busiest, p, failed > CACHE_NICE_TRIES, imbalance << failed);
	if (!e) {
		p->balance_failed++;
		return;
	}
	p->balance_failed = 0;
	pull(h, e, busiest, p);
}
