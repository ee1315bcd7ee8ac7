/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rescue (policy/rescue.h): nothing runnable waits behind a vCPU that is preempted.
 */
#ifndef VAWARE_RESCUE_BPF_H
#define VAWARE_RESCUE_BPF_H

#include "queue.bpf.h"

/* Prepare the timers of all vCPUs. Return 0, or a negative error. */
int rescue_init(void);

/* Return true if a task that wakes on @v at @now is to be within reach of others meanwhile. */
__hidden bool rescue_wakee(const struct vcpu_ctx *v, u64 now);

/* Watch the wake-up of @target, which began at @now, from this vCPU. */
__hidden void rescue_watch(s32 target, u64 now);

/*
 * Return the vCPU on whose runqueue @p, queued for @cpu, is to be activated. The kernel may leave
 * that to @cpu, and until it runs nobody else can take the task. So where this may last, as its
 * wake-ups are late by @late_ns, it is done elsewhere, here if @p may run here.
 */
__hidden s32 rescue_activate_near(struct task_struct *p, s32 cpu, u64 late_ns, u64 now);

/* Take what waits for @stuck, for which @v, this vCPU, was woken. */
__hidden bool rescue_take(struct vcpu_ctx *v, s32 stuck);

/* Take what waits for a vCPU that has not woken in time, if this one was woken for that. */
static inline bool rescue_take_over(struct vcpu_ctx *v)
{
	return v->rescue.from && rescue_take(v, (s32)v->rescue.from - 1);
}

/*
 * Return true if @cpu had better leave the normal work that waits for @victim, @v, to it: that is
 * being woken, and the wait is expected to cost less than the preemptions of @cpu.
 */
__hidden bool rescue_leaves_to(s32 victim, const struct vcpu_ctx *v, s32 cpu, u64 now);

/*
 * Return true if the best-effort work that runs on @cpu should make way: normal work that may run
 * here waits for another vCPU near it. Global: the verifier checks it once.
 */
int rescue_makes_way(s32 cpu);

#endif /* VAWARE_RESCUE_BPF_H */
