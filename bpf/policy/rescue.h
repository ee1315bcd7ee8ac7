/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rescue: nothing runnable waits behind a stopped vCPU. A wake-up that has not begun to run in time
 * is hedged: a second vCPU is woken, and the first of the two that is awake takes the task.
 */
#ifndef VAWARE_POLICY_RESCUE_H
#define VAWARE_POLICY_RESCUE_H

#include "../intf.h"
#include "tunables.h"

/*
 * Return the moving lower quartile @typical_ns of wake-up latencies in this VM with @sample_ns in
 * it: what a wake-up costs where nobody holds it up. It rises by a 64th for each longer sample and
 * falls by three for each shorter one, so that a quarter of them is below.
 */
static inline u64 rescue_typical_ns(u64 typical_ns, u64 sample_ns)
{
	u64 step_ns = typical_ns / 64 + 1;

	if (sample_ns > typical_ns)
		return typical_ns + step_ns;
	return typical_ns > 3 * step_ns ? typical_ns - 3 * step_ns : 0;
}

/* Return after how many ns a wake-up that has not begun to run is hedged. */
static inline u64 rescue_after_ns(u64 typical_ns)
{
	u64 bound_ns = 2 * typical_ns;

	if (bound_ns < RESCUE_AFTER_MIN_NS)
		return RESCUE_AFTER_MIN_NS;
	return bound_ns < RESCUE_AFTER_MAX_NS ? bound_ns : RESCUE_AFTER_MAX_NS;
}

/*
 * Return true if a task that wakes on a vCPU whose wake-ups take @wake_ns had better be
 * within reach of the others meanwhile, and be watched by a timer: that costs locks and more
 * wake-ups, which take @typical_ns each. Elsewhere the kernel leaves it to the vCPU, which
 * activates it when it is awake: nobody has to wait for a runqueue's lock that a stopped vCPU
 * holds.
 */
static inline bool rescue_in_reach(u64 wake_ns, u64 typical_ns)
{
	return wake_ns >= REACH_WORTH_NS && wake_ns >= REACH_WORTH_WAKES * typical_ns;
}

/*
 * Return true if a task that waits for a vCPU which is expected to be awake in @wake_ns had better
 * move to one that runs, and is expected to be stopped for @stops_ns within the next slice: it
 * would wait again there.
 */
static inline bool rescue_worth_a_move(u64 wake_ns, u64 stops_ns)
{
	return wake_ns > stops_ns + MOVE_NS;
}

/*
 * Return in how many ns to look again after a wake-up that has been under way for @age_ns: when it
 * has lasted a quarter longer, so that few looks cover even a long stop.
 */
static inline u64 rescue_again_ns(u64 age_ns, u64 after_ns)
{
	return age_ns / 4 > after_ns ? age_ns / 4 : after_ns;
}

#endif
