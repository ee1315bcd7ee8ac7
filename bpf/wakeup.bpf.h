/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long it takes to wake each vCPU.
 */
#ifndef VAWARE_WAKEUP_BPF_H
#define VAWARE_WAKEUP_BPF_H

#include "activity.bpf.h"

#include "policy/bvs.h"
#include "policy/rescue.h"

/* Set by whoever sees it, read by all. */
extern u64 uneven_until_ns; /* until then vCPUs are known to differ in how soon they run a task */
extern u64 wake_typical_ns; /* lower quartile of wake-up latencies in this VM */

/*
 * Return the wake-up latency to expect of @v by a task that is hurt by long ones: those count for
 * more than their number.
 */
static inline u64 wakeup_expected_ns(const struct vcpu_ctx *v, u64 now)
{
	return bvs_faded_ns(v->wakeup.expected_ns, time_delta(now, v->wakeup.expected_at_ns),
			    WAKE_HALF_LIFE_LOG2);
}

/*
 * Put @until_ns, a variable that all vCPUs read, off to UNEVEN_NS after @now; written not more
 * often than it takes half of that to pass.
 */
static inline void put_off(u64 *until_ns, u64 now)
{
	if (time_before(*until_ns, now + UNEVEN_NS / 2))
		*until_ns = now + UNEVEN_NS;
}

/* Note that a vCPU is expected to run a task only after @delay_ns. */
static inline void note_unevenness(u64 delay_ns, u64 now)
{
	if (!bvs_good(delay_ns))
		put_off(&uneven_until_ns, now);
}

/* Learn that @v, idle, took @sample_ns to run after something had happened that woke it. */
static inline void wakeup_learn(struct vcpu_ctx *v, u64 sample_ns, u64 now)
{
	v->wakeup.took_ns = sample_ns;
	v->wakeup.expected_ns = bvs_learnt_ns(wakeup_expected_ns(v, now), sample_ns);
	v->wakeup.expected_at_ns = now;
	note_unevenness(v->wakeup.expected_ns, now);
}

/* Note that @cpu, claimed while it was idle, is woken. (One that wakes itself runs already.) */
static inline void wakeup_begin(s32 cpu, struct vcpu_ctx *v, u64 now)
{
	if (cpu != bpf_get_smp_processor_id())
		v->wakeup.claimed_ns = now;
}

/* wakeup.bpf.c: @v, which was woken, runs. */
__hidden void wakeup_ended(struct vcpu_ctx *v, u64 now);

/* Note that @v runs. If it was woken, learn how long that took. */
static inline void wakeup_end(struct vcpu_ctx *v, u64 now)
{
	if (v->wakeup.claimed_ns)
		wakeup_ended(v, now);
}

/* Return for how long more the wake-up of @cpu, which is under way, is expected to take, in ns. */
u64 vcpu_wake_rest_ns(s32 cpu, u64 now);

#endif /* VAWARE_WAKEUP_BPF_H */
