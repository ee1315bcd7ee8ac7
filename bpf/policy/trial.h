/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A policy on trial. Whether harvesting pays depends on the host: how long its slices are, when it
 * ends them, how soon it wakes a vCPU. So it is measured: time is cut into epochs, some with the
 * policy and some without, drawn at random for all vCPUs alike, and what CPU-bound tasks obtained
 * in both decides how often it is on.
 */
#ifndef VAWARE_POLICY_TRIAL_H
#define VAWARE_POLICY_TRIAL_H

#include "../intf.h"
#include "tunables.h"

/* Return the number of the epoch that @now is in. */
static inline u64 trial_epoch(u64 now)
{
	return now / TRIAL_EPOCH_NS;
}

/* Return true if the policy is on in @epoch, after @verdict (enum vaware_verdict). */
static inline bool trial_is_on(u64 epoch, u32 verdict)
{
	u32 dice = (u32)epoch * 2654435761U >> 26; /* 0 to 63; Knuth's multiplicative hash */

	if (verdict == VAWARE_TRIAL_WINS)
		return dice >= TRIAL_WITHOUT_64;
	return dice < (verdict == VAWARE_TRIAL_LOSES ? TRIAL_LOSING_64 : TRIAL_OPEN_64);
}

/* Add to @arm what a task ran within @wall_ns. Older epochs fade. */
static inline void trial_add(struct vaware_trial_arm *arm, u64 run_ns, u64 wall_ns)
{
	arm->run_ns += run_ns < wall_ns ? run_ns : wall_ns;
	arm->wall_ns += wall_ns;
	if (arm->wall_ns > TRIAL_EPOCHS_MAX * TRIAL_EPOCH_NS) {
		arm->run_ns /= 2;
		arm->wall_ns /= 2;
	}
}

/* Return which part of the time tasks ran, in 1/1024. */
static inline u64 trial_share_1024(const struct vaware_trial_arm *arm)
{
	return arm->wall_ns ? arm->run_ns * 1024 / arm->wall_ns : 0;
}

/*
 * Return the verdict after @before: a policy that gives one in @margin more wins, and stays on
 * until it gives less than half of that.
 */
static inline u32 trial_verdict(u32 before, const struct vaware_trial_arm *with,
				const struct vaware_trial_arm *without, u32 margin)
{
	u32 parts = before == VAWARE_TRIAL_WINS ? 2 * margin : margin;

	if (with->wall_ns < TRIAL_EPOCHS_MIN * TRIAL_EPOCH_NS ||
	    without->wall_ns < TRIAL_EPOCHS_MIN * TRIAL_EPOCH_NS)
		return before;
	return trial_share_1024(with) * parts >= trial_share_1024(without) * (parts + 1)
		       ? VAWARE_TRIAL_WINS
		       : VAWARE_TRIAL_LOSES;
}

#endif
