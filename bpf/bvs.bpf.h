/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Biased vCPU selection (policy/bvs.h): which tasks have to choose, and tasks that sleep by timers.
 */
#ifndef VAWARE_BVS_BPF_H
#define VAWARE_BVS_BPF_H

#include "wakeup.bpf.h"

static inline bool bvs_on(void)
{
	return policy_on(VAWARE_POLICY_BVS);
}

/* Return how late to expect the timers of @cpu that wake timer wakees, in ns. */
u64 bvs_timer_late_ns(s32 cpu, u64 now);

/*
 * Return true if it is a timer that wakes @p, of @class, at present, on this vCPU @cpu, where the
 * kernel has left it since the task fell asleep here. Learn how late it is: the task could be woken
 * no sooner than @cpu ran, and to sleep elsewhere is all that would have helped it.
 */
int bvs_timer_wakes(struct task_struct *p __arg_trusted, u32 class, s32 cpu, u64 now);

/*
 * Note that this vCPU @cpu has sent a timer wakee to @v, vCPU @to, which is expected to run it
 * after @delay_ns.
 */
__hidden void bvs_send_timer_wakee(s32 cpu, s32 to, struct vcpu_ctx *v, u64 delay_ns, u64 now);

/*
 * Return true if a timer wakee waits for @owner that vCPU @cpu had better leave to it: it would go
 * to sleep again on @cpu, whose timers are later.
 */
static inline bool bvs_keeps_timer_wakee(s32 owner, s32 cpu, u64 now)
{
	const struct vcpu_ctx *v = vcpu_ctx_of(owner);

	return v && time_before(now, v->bvs.timer_wakee_until_ns) &&
	       bvs_timer_late_ns(owner, now) < bvs_timer_late_ns(cpu, now);
}

#endif /* VAWARE_BVS_BPF_H */
