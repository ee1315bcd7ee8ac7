/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a cgroup gets: its share by weights (cpu.weight), and its limit (cpu.max).
 *
 * Shares are flattened. The credit of a cgroup is its part of all that is runnable, in weight: the
 * root's is the sum, and each cgroup shares its own among its children and its own tasks by weight.
 * Its tasks' weights are scaled so that they add up to what the cgroup has.
 */
#ifndef VAWARE_POLICY_CGROUP_H
#define VAWARE_POLICY_CGROUP_H

#include "../intf.h"
#include "tunables.h"
#include "vtime.h"

/* One that neither favors nor holds back a task. */
#define CGROUP_SCALE_ONE (1ULL << 16)

/* Limits that keep products within 64 bits: beyond them shares are coarse, or all shrink alike. */
#define CGROUP_CREDIT_SHIFT 8
#define CGROUP_CREDIT_MAX (1ULL << 38)
#define CGROUP_SCALE_MAX (1ULL << 32)
#define CGROUP_WEIGHT_MAX (1ULL << 25)
#define CGROUP_TASK_WEIGHT_MAX (1ULL << 31)

/* Return the weight of a cgroup with @shares, the kernel's: 1024 << 10 is the default. */
static inline u64 cgroup_weight_of_shares(u64 shares)
{
	u64 weight = (shares >> 10) * WEIGHT_NICE_0 / 1024;

	if (weight > CGROUP_WEIGHT_MAX)
		return CGROUP_WEIGHT_MAX;
	return weight ? weight : 1;
}

/* Return the moving average @average with @sample in it. It gets to @sample in the end. */
static inline u64 cgroup_average(u64 average, u64 sample)
{
	if (sample >= average)
		return average +
		       (sample - average + CGROUP_AVERAGE_PARTS - 1) / CGROUP_AVERAGE_PARTS;
	return average - (average - sample + CGROUP_AVERAGE_PARTS - 1) / CGROUP_AVERAGE_PARTS;
}

/*
 * Return what a cgroup shares its credit among, while it is active: the average weight @own of its
 * own runnable tasks and @children of its children, if it is active for @active_1024 of the time.
 */
static inline u64 cgroup_demand(u64 own, u64 children, u32 active_1024)
{
	u64 demand = (own + children) * 1024 / (active_1024 > 16 ? active_1024 : 16);

	return demand ? demand : 1;
}

/* Return the credit of a cgroup of @weight, of its parent's, who shares it among @parent_demand. */
static inline u64 cgroup_credit(u64 parent_credit, u64 weight, u64 parent_demand)
{
	u64 credit = parent_credit * weight / (parent_demand ? parent_demand : 1);

	/* A child that has just become active is not in the demand yet. */
	if (credit > parent_credit)
		credit = parent_credit;
	return credit ? credit : 1;
}

/* Return the credit of the root, for @load of weight that is runnable in the whole VM. */
static inline u64 cgroup_root_credit(u64 load)
{
	u64 credit = load << CGROUP_CREDIT_SHIFT;

	return load > CGROUP_CREDIT_MAX >> CGROUP_CREDIT_SHIFT ? CGROUP_CREDIT_MAX : credit;
}

/* Return the factor for the tasks of a cgroup with @credit that shares it among @demand. */
static inline u64 cgroup_scale(u64 credit, u64 demand)
{
	u64 scale = (credit << (16 - CGROUP_CREDIT_SHIFT)) / (demand ? demand : 1);

	if (scale > CGROUP_SCALE_MAX)
		return CGROUP_SCALE_MAX;
	return scale ? scale : 1;
}

/* Return true if @a and @b differ by enough to write to what all vCPUs read. */
static inline bool cgroup_scale_differs(u64 a, u64 b)
{
	return (a > b ? a - b : b - a) > b / 64;
}

/* Return the weight of a task of @weight in a cgroup whose factor is @scale. */
static inline u32 cgroup_task_weight(u32 weight, u64 scale)
{
	u64 scaled = weight * scale / CGROUP_SCALE_ONE;

	if (scaled > CGROUP_TASK_WEIGHT_MAX)
		return CGROUP_TASK_WEIGHT_MAX;
	return scaled ? scaled : 1;
}

/* What the tasks of a vCPU share. */
struct share {
	u64 weight;   /* of all that are runnable */
	u32 capacity; /* of the vCPU: more is faster */
	u64 clock;    /* virtual time that they have got to, by the clock that vCPUs share */
};

/* Return the virtual time that tasks of @weight get to on a vCPU of @capacity until all settles. */
static inline s64 cgroup_advance_ns(u64 weight, u32 capacity)
{
	return BALANCE_SETTLE_NS * capacity / 1024 * WEIGHT_NICE_0 / (weight ? weight : 1);
}

/*
 * Return true if a vCPU that has @here should take a task of @weight from where there is @there.
 * At once if it evens out what a vCPU's capacity is shared among. If that is as uneven afterwards,
 * when the task has fallen behind by a slice, so that it goes round. When it gets more uneven,
 * which may still be the only way to share alike, when it has also fallen behind by what the others
 * there gain without it before that is undone: else both vCPUs would overtake each other for ever.
 */
static inline bool cgroup_pulls(const struct share *here, const struct share *there, u32 weight)
{
	u64 after = (here->weight + weight) * there->capacity;
	u64 before = there->weight * here->capacity;
	s64 ahead = here->clock - there->clock;

	if (after + after / 16 < before)
		return true;
	if (ahead < (s64)vtime_of_run(SLICE_NS, weight))
		return false;
	if (after <= before + before / 16)
		return true;
	return there->weight > weight &&
	       ahead >= cgroup_advance_ns(there->weight - weight, there->capacity) -
				cgroup_advance_ns(here->weight + weight, here->capacity);
}

/* cpu.max of a cgroup. */
struct cgroup_quota {
	u64 quota_ns; /* in each period; 0: no limit */
	u64 period_ns;
	u64 burst_ns;
};

/* Return true if @a and @b are the same limit. */
static inline bool cgroup_quota_same(const struct cgroup_quota *a, const struct cgroup_quota *b)
{
	return a->quota_ns == b->quota_ns && a->period_ns == b->period_ns &&
	       a->burst_ns == b->burst_ns;
}

/* Return how many periods have begun from @due_ns on, until @now. */
static inline u64 cgroup_periods(u64 due_ns, u64 now, u64 period_ns)
{
	if ((s64)(now - due_ns) < 0)
		return 0;
	return (now - due_ns) / (period_ns ? period_ns : 1) + 1;
}

/*
 * Return what a cgroup with a limit owes at most. At least what it can run over its limit again and
 * again: @nr_vcpus begin at once, and each goes on until LIMIT_KERNEL_TICKS have found it.
 */
static inline u64 cgroup_debt_max_ns(const struct cgroup_quota *q, u32 nr_vcpus, u64 tick_ns)
{
	u64 periods_ns = LIMIT_DEBT_PERIODS * q->quota_ns;
	u64 at_once_ns = LIMIT_KERNEL_TICKS * tick_ns * nr_vcpus;

	return periods_ns > at_once_ns ? periods_ns : at_once_ns;
}

/*
 * Return what the pool of @left_ns gets when @periods begin: a debt, if negative, of which no more
 * than @debt_max_ns counts. What is left over is kept up to the burst. A pool that was not looked
 * after for long, as the VM was paused, gets no more than one look is late at most.
 */
static inline s64 cgroup_refill_ns(s64 left_ns, const struct cgroup_quota *q, u64 periods,
				   u64 debt_max_ns)
{
	u64 most = LIMIT_LATE_NS / (q->period_ns ? q->period_ns : 1) + 1;
	s64 refill_ns = q->quota_ns * (periods < most ? periods : most);

	if (!periods)
		return 0;
	if (left_ns > (s64)q->burst_ns)
		refill_ns -= left_ns - (s64)q->burst_ns;
	else if (left_ns < -(s64)debt_max_ns)
		refill_ns -= left_ns + (s64)debt_max_ns;
	return refill_ns;
}

/* Return in how many ns the timer comes that is wanted at @at_ns. */
static inline u64 cgroup_timer_in_ns(u64 now, u64 at_ns)
{
	u64 in_ns = at_ns > now ? at_ns - now : 0;

	return in_ns > LIMIT_TIMER_MIN_NS ? in_ns : LIMIT_TIMER_MIN_NS;
}

#endif
