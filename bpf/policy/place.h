/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a waking task goes, and one whose slice ended.
 */
#ifndef VAWARE_POLICY_PLACE_H
#define VAWARE_POLICY_PLACE_H

#include "../intf.h"
#include "account.h"
#include "bvs.h"
#include "tunables.h"

/*
 * Return true if a wakee whose waker says that it is about to sleep should follow it rather than
 * wake an idle vCPU. So it should where that takes long: vCPUs are stopped often (@stolen_1024), so
 * that to wake one is to wait for the hypervisor. And so it should if the waker will have slept by
 * the time that another vCPU is awake, which takes @wake_ns: it has run for @burst_ns since it
 * woke, and runs for @average_ns on average.
 */
static inline bool place_waker_first(u32 stolen_1024, u64 average_ns, u64 burst_ns, u64 wake_ns)
{
	u64 off_ns = average_ns > burst_ns ? average_ns - burst_ns : burst_ns - average_ns;

	return stolen_1024 >= STEAL_COSTLY_1024 || off_ns < wake_ns;
}

/*
 * Return true if a task whose slice ended should look for an idle vCPU. It should not while only
 * its own vCPU's kernel threads are before it: those are short, and a move costs a wake-up of the
 * other vCPU and the cache.
 */
static inline bool place_leave_on_expiry(u32 others, bool pinned)
{
	return others && !pinned;
}

/*
 * Return among how many of @nr candidates a few are looked at: among the first @nr_near, which
 * share the cache, if those are enough. At least one.
 */
static inline u32 place_few_of(u32 nr_near, u32 nr)
{
	u32 of = nr_near >= WAKE_LOOKS ? nr_near : nr;

	return of ? of : 1;
}

/*
 * Return what a vCPU of @capacity_1024 gives to a CPU-bound task: less where the other hardware
 * thread of its core is busy.
 */
static inline u32 place_effective_capacity(u32 capacity_1024, bool sibling_busy)
{
	u32 effective_capacity = capacity_1024 < 1024 ? capacity_1024 : 1024;

	return sibling_busy ? effective_capacity * SMT_SHARE_1024 / 1024 : effective_capacity;
}

/*
 * Return how long a task is expected to run when it is placed, in ns: its burst, but no longer than
 * it stays where it is put.
 */
static inline u64 place_burst_ns(u64 average_ns, u64 burst_ns)
{
	u64 whole_ns = account_burst_ns(average_ns, burst_ns);

	return whole_ns < SLICE_ALONE_NS ? whole_ns : SLICE_ALONE_NS;
}

/*
 * Return what a task with @burst_ns of work loses on a vCPU that gives it @effective_capacity, in
 * ns, to be added to the expected delay.
 */
static inline u64 place_loss_ns(u32 effective_capacity, u64 burst_ns)
{
	if (!effective_capacity)
		effective_capacity = 1; /* next to nothing; all of it is lost */
	return effective_capacity < 1024
		       ? burst_ns * (1024 - effective_capacity) / effective_capacity
		       : 0;
}

/*
 * Return what normal work that runs on a vCPU loses when a task with @burst_ns of work is placed
 * there, in ns: it waits for as long, but no longer than a slice. Without this a task would rather
 * take a vCPU from others than use an idle one.
 */
static inline u64 place_displaced_ns(u64 burst_ns)
{
	return burst_ns < SLICE_NS ? burst_ns : SLICE_NS;
}

/*
 * Return what it costs to place a task with @burst_ns of work on @c, where it loses @loss_ns: until
 * it runs, what it loses, and what those lose that are there already. The same stops make an idle
 * vCPU slow to wake and leave it little: the greater one counts, or short bursts would rather queue
 * up elsewhere.
 */
static inline u64 place_cost_ns(const struct candidate *c, u64 loss_ns, u64 burst_ns)
{
	u64 cost_ns = bvs_delay_ns(c) + loss_ns;
	bool others = c->waiting;

	if (c->class == VAWARE_CLASS_NONE)
		cost_ns -= c->wake_ns < loss_ns ? c->wake_ns : loss_ns;
	else
		others |= c->class != VAWARE_CLASS_BEST_EFFORT;
	return others ? cost_ns + place_displaced_ns(burst_ns) : cost_ns;
}

/*
 * Return what it counts for that a task of @class would cost @cost_ns on a vCPU other than that of
 * its caches. For a latency-sensitive one that is how soon it would run, which is known by few
 * samples: tasks that go by a little less are on the move all the time.
 */
static inline u64 place_away_ns(u32 class, u64 cost_ns)
{
	return MOVE_NS + (class == VAWARE_CLASS_LATENCY ? AWAY_TIMES * cost_ns : cost_ns);
}

/* Return what a vCPU costs that gives @there_1024: the less the more it gives. */
static inline u64 place_capacity_cost(u32 there_1024)
{
	return (2048 - (there_1024 < 1024 ? there_1024 : 1024)) * VAWARE_CLEARLY_LESS;
}

/* Return what one has to cost less than to be worth a move from one that gives @here_1024. */
static inline u64 place_gain_cost(u32 here_1024)
{
	return 2048 * VAWARE_CLEARLY_LESS -
	       (here_1024 < 1024 ? here_1024 : 1024) * VAWARE_CLEARLY_MORE;
}

#endif
