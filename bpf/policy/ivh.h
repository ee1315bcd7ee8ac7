/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Intra-VM harvesting (vSched 3.3): a CPU-bound task leaves its vCPU before that is stopped, for
 * one that is proven awake. The source claims a target and kicks it; the target, once it runs, says
 * so and kicks the source; the source lets the task go if that is fresh. Nobody waits for anybody.
 */
#ifndef VAWARE_POLICY_IVH_H
#define VAWARE_POLICY_IVH_H

#include "../intf.h"
#include "trial.h"
#include "tunables.h"

/* A running task that might leave. */
struct ivh_task {
	u32 class;	 /* enum vaware_class */
	u64 ran_ns;	 /* since it was switched in here */
	u64 burst_ns;	 /* run time since it last woke */
	u32 hazard_1024; /* that its vCPU is stopped before another is awake, in 1/1024 */
	u64 stop_ns;	 /* how long a moment of stopped time lasts there in all, on average */
};

/*
 * Return true if it is time to wake another vCPU for @t: by the stop that may come it loses several
 * times what the move costs. Tasks that sleep often, as those that talk to others do, are left
 * alone: they lose more by the move.
 */
static inline bool ivh_leaves(const struct ivh_task *t)
{
	return t->class == VAWARE_CLASS_THROUGHPUT && t->burst_ns >= IVH_MIN_BURST_NS &&
	       t->ran_ns >= IVH_MIN_RUN_NS && t->hazard_1024 * t->stop_ns / 1024 >= IVH_WORTH_NS;
}

/*
 * Return how far ahead to look, where decisions are @interval_ns apart: until the next one, and
 * until a target is awake that is expected to take @wake_ns, with a margin: a move too early costs
 * little, one too late a whole stop.
 */
static inline u64 ivh_ahead_ns(u64 interval_ns, u64 wake_ns)
{
	return interval_ns + IVH_WAKE_MARGIN * wake_ns;
}

/*
 * Return true if a target that was asked at @asked_ns is to be given up at @now: it takes too long,
 * or the source has been stopped meanwhile (@last_preemption_ns), which it was asked to forestall.
 */
static inline bool ivh_gives_up(u64 asked_ns, u64 last_preemption_ns, u64 now)
{
	return now - asked_ns >= IVH_PATIENCE_NS || last_preemption_ns > asked_ns;
}

/*
 * Return true if a vCPU that has been idle for @idle_ns may be woken for a task: not between two
 * messages of tasks that talk to each other.
 */
static inline bool ivh_idle_enough(u64 idle_ns)
{
	return idle_ns >= IVH_IDLE_NS;
}

enum ivh_answer {
	IVH_PENDING, /* the target is not awake yet */
	IVH_GO,
	IVH_LATE,    /* its word is too old, or it gave none in time */
	IVH_USELESS, /* the task has gone, or has only just come */
};

/*
 * Return true if tasks are harvested in @epoch, after @verdict (enum vaware_verdict). It is open by
 * a steal clock only.
 */
static inline bool ivh_in_epoch(u64 epoch, u32 verdict)
{
	const struct trial_odds odds = {
		.open_64 = 32,
		.losing_64 = 4,
		.winning_64 = 60,
		.seed = 0x51ed270b,
	};

	return trial_is_on(epoch, verdict, &odds);
}

/*
 * Return true if what tasks obtain at @now says something of harvesting: the last stop that it may
 * evade, or has evaded, was at @stop_ns (0: never). What comes long after that is as good without.
 */
static inline bool ivh_trial_counts(u64 stop_ns, u64 now)
{
	return stop_ns && (s64)(now - stop_ns) < (s64)IVH_QUIET_NS;
}

/*
 * Note in @trial a stop, or a move, at @now. The first one after a quiet time tells of another host
 * than the one that was judged: all begins anew, with @verdict.
 */
static inline void ivh_trial_stop(struct vaware_trial *trial, u32 verdict, u64 now)
{
	if (!ivh_trial_counts(trial->stop_ns, now)) {
		trial->with = (struct vaware_trial_arm){};
		trial->without = (struct vaware_trial_arm){};
		trial->verdict = verdict;
	}
	trial->stop_ns = now;
}

/*
 * Add to @arm of the trial what a task ran within @wall_ns in @epoch; by late stamps it may seem
 * more. Epochs are counted, for what many tasks obtain in the same one is a single observation.
 */
static inline void ivh_trial_add(struct vaware_trial_arm *arm, u64 run_ns, u64 wall_ns, u64 epoch)
{
	arm->part += run_ns < wall_ns ? run_ns : wall_ns;
	arm->whole += wall_ns;
	if (arm->last_epoch == epoch)
		return;
	arm->last_epoch = epoch;
	if (++arm->epochs <= IVH_TRIAL_MAX)
		return;
	arm->part /= 2;
	arm->whole /= 2;
	arm->epochs /= 2;
}

/* Return the verdict on @trial. */
static inline u32 ivh_trial_verdict(const struct vaware_trial *trial, u32 margin)
{
	if (trial->with.epochs < IVH_TRIAL_MIN || trial->without.epochs < IVH_TRIAL_MIN)
		return trial->verdict;
	return trial_verdict(trial->verdict, &trial->with, &trial->without, margin, 1);
}

/*
 * Return what the source does at @now about a target that was asked at @asked_ns and was awake at
 * @awake_ns (before @asked_ns: not yet).
 */
static inline enum ivh_answer ivh_judge(u64 asked_ns, u64 awake_ns, bool same_task, u64 now)
{
	if (!same_task)
		return IVH_USELESS;
	if ((s64)(awake_ns - asked_ns) < 0)
		return now - asked_ns < IVH_PATIENCE_NS ? IVH_PENDING : IVH_LATE;
	return (s64)(now - awake_ns) < (s64)IVH_FRESH_NS ? IVH_GO : IVH_LATE;
}

#endif
