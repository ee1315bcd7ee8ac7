/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The governor (policy/governor.h): each policy is measured in service, and rests where it does not
 * pay.
 */
#ifndef VAWARE_GOVERNOR_BPF_H
#define VAWARE_GOVERNOR_BPF_H

#include "context.bpf.h"
#include "hints.bpf.h"
#include "wakeup.bpf.h"

/* Prepare the timer, and let rest what has to show first that it pays. Return 0, or an error. */
int governor_init(void);

/* Something is wrong with vCPUs at @now: there are epochs for a while. */
int governor_wake(u64 now);

/* At ticks of @v at @now: is something wrong? */
static inline void governor_look(const struct vcpu_ctx *v, u64 now)
{
	u64 stop_ns = v->activity.long_preemption_ns;

	if ((stop_ns && time_delta(now, stop_ns) < TRIAL_QUIET_NS) ||
	    time_before(now, uneven_until_ns) || some_flagged(VAWARE_VCPUS_DIFFER))
		governor_wake(now);
}

#endif /* VAWARE_GOVERNOR_BPF_H */
