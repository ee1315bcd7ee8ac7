/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A policy on trial. Whether it pays depends on the host: how long its slices are, when it ends
 * them, how soon it wakes a vCPU. So it is measured: time is cut into epochs, some with the policy
 * and some without, drawn at random for all vCPUs alike, and what came of both decides how often it
 * is on. Harvesting goes by what CPU-bound tasks obtained, rescue by how long wakees waited.
 */
#ifndef VAWARE_POLICY_TRIAL_H
#define VAWARE_POLICY_TRIAL_H

#include "../intf.h"
#include "tunables.h"

/* In how many epochs of 64 a policy is on. */
struct trial_odds {
	u32 open_64;
	u32 losing_64;
	u32 winning_64;
	u32 seed; /* so that two trials do not draw the same */
};

/* Return the number of the epoch that @now is in. */
static inline u64 trial_epoch(u64 now)
{
	return now / TRIAL_EPOCH_NS;
}

/* Return true if the policy is on in @epoch, after @verdict (enum vaware_verdict). */
static inline bool trial_is_on(u64 epoch, u32 verdict, const struct trial_odds *odds)
{
	u32 dice = (u32)epoch * 2654435761U ^ odds->seed; /* Knuth's multiplicative hash */

	dice = (dice ^ dice >> 15) * 2246822519U >> 26; /* 0 to 63 */
	if (verdict == VAWARE_TRIAL_OPEN)
		return dice < odds->open_64;
	return dice < (verdict == VAWARE_TRIAL_WINS ? odds->winning_64 : odds->losing_64);
}

/* Add to @arm that of @whole it was @part. Older samples fade beyond @whole_max. */
static inline void trial_add(struct vaware_trial_arm *arm, u64 part, u64 whole, u64 whole_max)
{
	arm->part += part;
	arm->whole += whole;
	if (arm->whole > whole_max) {
		arm->part /= 2;
		arm->whole /= 2;
	}
}

/* Return the part in 1/1024 of the whole. */
static inline u64 trial_share_1024(const struct vaware_trial_arm *arm)
{
	return arm->whole ? arm->part * 1024 / arm->whole : 0;
}

/*
 * Return the verdict after @before, from @whole_min of both kinds on: a policy wins if the share of
 * @more is larger than that of @less by one in @margin, and goes on winning until it is less than
 * half of that.
 */
static inline u32 trial_verdict(u32 before, const struct vaware_trial_arm *more,
				const struct vaware_trial_arm *less, u32 margin, u64 whole_min)
{
	u32 parts = before == VAWARE_TRIAL_WINS ? 2 * margin : margin;

	if (more->whole < whole_min || less->whole < whole_min)
		return before;
	return trial_share_1024(more) * parts >= trial_share_1024(less) * (parts + 1)
		       ? VAWARE_TRIAL_WINS
		       : VAWARE_TRIAL_LOSES;
}

#endif
