/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Relaxed work conservation (vSched 3.4): some vCPUs are better left idle. Stragglers serve
 * best-effort work; of vCPUs that are stacked on one core, one is used. A task that may run
 * nowhere else runs there all the same. vCPUs that gathering has parked are left idle alike,
 * the reserve serves latency-sensitive tasks only, and unsteady vCPUs no confined process.
 */
#ifndef VAWARE_POLICY_RWC_H
#define VAWARE_POLICY_RWC_H

#include "../intf.h"
#include "tunables.h"

/* Return true if tasks of @class keep away from a vCPU with @flags (enum vaware_vcpu_flag). */
static inline bool rwc_banned(u32 flags, u32 class)
{
	if (class == VAWARE_CLASS_KERNEL)
		return false;
	if (flags & VAWARE_VCPU_STACKED)
		return true;
	if ((flags & VAWARE_VCPU_RESERVE) && class != VAWARE_CLASS_LATENCY)
		return true;
	return (flags & (VAWARE_VCPU_STRAGGLER | VAWARE_VCPU_PARKED | VAWARE_VCPU_UNSTEADY)) &&
	       class != VAWARE_CLASS_BEST_EFFORT;
}

/*
 * Return true if a vCPU with @own flags may take tasks of @class from the queue of one with @other
 * flags. One that is banned takes from those alone that are banned as well: what waits there may
 * have no other choice.
 */
static inline bool rwc_takes(u32 own, u32 other, u32 class)
{
	return !rwc_banned(own, class) || rwc_banned(other, class);
}

#endif
