/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Biased vCPU selection (policy/bvs.h): which tasks have to choose, and tasks that sleep by timers.
 */
#ifndef VAWARE_BVS_BPF_H
#define VAWARE_BVS_BPF_H

#include "wakeup.bpf.h"

/* Return true if a task of @class that ran on @cpu last should choose by how soon it would run. */
__hidden bool bvs_looks(s32 cpu, u32 class, u64 now);

/* Return how late to expect the timers of @cpu that wake sleepers, in ns. */
u64 vcpu_timer_late_ns(s32 cpu, u64 now);

/*
 * Return true if it is a timer that wakes a task at present, on this vCPU @cpu, where the kernel
 * has left it since the task fell asleep here. Learn how late it is: the task could be woken no
 * sooner than @cpu ran, and to sleep elsewhere is all that would have helped it.
 */
int vcpu_timer_wakes(s32 cpu, u64 now);

/*
 * Note that this vCPU @cpu has sent a sleeper to @v, vCPU @to, which is expected to run it after
 * @delay_ns.
 */
__hidden void send_sleeper(s32 cpu, s32 to, struct vcpu_ctx *v, u64 delay_ns, u64 now);

/*
 * Return true if a sleeper waits for @owner that vCPU @cpu had better leave to it: it would go to
 * sleep again on @cpu, whose timers are later.
 */
static inline bool keeps_sleeper(s32 owner, s32 cpu, u64 now)
{
	const struct vcpu_ctx *v = vcpu_ctx_of(owner);

	return v && time_before(now, v->bvs.sleeper_until_ns) &&
	       vcpu_timer_late_ns(owner, now) < vcpu_timer_late_ns(cpu, now);
}

#endif /* VAWARE_BVS_BPF_H */
