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
static inline u64 rescue_hedge_ns(u64 typical_ns)
{
	u64 bound_ns = 2 * typical_ns;

	if (bound_ns < HEDGE_MIN_NS)
		return HEDGE_MIN_NS;
	return bound_ns < HEDGE_MAX_NS ? bound_ns : HEDGE_MAX_NS;
}

/*
 * Return true if a wake-up at @now of a vCPU with an expected latency of @wake_ns is worth a timer:
 * it has been late before, or the hypervisor stopped the vCPU not long ago (@last_stop_ns; 0:
 * never). Where vCPUs wake in time none is ever armed.
 */
static inline bool rescue_worth_a_timer(u64 wake_ns, u64 hedge_ns, u64 last_stop_ns, u64 now)
{
	return wake_ns > hedge_ns || (last_stop_ns && now < last_stop_ns + SPAN_HALF_LIFE_NS);
}

/*
 * Return in how many ns to look again after a wake-up that has been under way for @age_ns: when it
 * has lasted a quarter longer, so that few looks cover even a long stop.
 */
static inline u64 rescue_again_ns(u64 age_ns, u64 hedge_ns)
{
	return age_ns / 4 > hedge_ns ? age_ns / 4 : hedge_ns;
}

#endif
