/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long it takes to wake each vCPU.
 */
#include "wakeup.bpf.h"

u64 uneven_until_ns;
u64 wake_typical_ns = 50 * NS_PER_US;

void wakeup_ended(struct vcpu_ctx *v, u64 now)
{
	u64 sample_ns = time_delta(now, v->wakeup.claimed_ns);

	v->wakeup.claimed_ns = 0;
	v->wakeup.ended = 1;
	v->bvs.timer_wakee_until_ns = 0;
	wakeup_learn(v, sample_ns, now);
	if (!(v->wakeup.count++ % WAKE_TYPICAL_EVERY))
		wake_typical_ns = rescue_typical_ns(wake_typical_ns, sample_ns);
}

u64 vcpu_wake_rest_ns(s32 cpu, u64 now)
{
	const struct vaware_activity *a = activity_of(cpu);
	const struct vcpu_ctx *v = vcpu_ctx_of(cpu);

	if (!a || !v)
		return 0;
	return activity_rest_ns(&a->spans[VAWARE_SPAN_WAKE], time_delta(now, v->wakeup.claimed_ns));
}
