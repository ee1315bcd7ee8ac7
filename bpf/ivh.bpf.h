/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Intra-VM harvesting (policy/ivh.h): a running task moves to a vCPU that is proven awake.
 */
#ifndef VAWARE_IVH_BPF_H
#define VAWARE_IVH_BPF_H

#include "context.bpf.h"

/*
 * Source, at ticks and beats of vCPU @cpu while it runs @p: ask another vCPU to wake if @p had
 * better leave before this one is stopped. Global: the verifier checks it once.
 */
int ivh_consider(struct task_struct *p __arg_trusted, s32 cpu, u64 now);

/*
 * Source, when asked to reschedule: return the vCPU that @prev leaves for now, or -1 if it stays.
 */
__hidden s32 ivh_leave_for(struct task_struct *prev, s32 cpu, struct vcpu_ctx *v, u64 now);

/*
 * Target of @claim: tell the source that it is awake. Return true if it should look again at once,
 * because the task may come at any moment.
 */
__hidden bool ivh_answer(struct vcpu_ctx *v, u32 claim, u64 now);

/* The same whenever @v looks for work, whether somebody has claimed it or not. */
static inline bool ivh_answer_source(struct vcpu_ctx *v, u64 now)
{
	u32 claim = v->ivh.claim;

	return claim && ivh_answer(v, claim, now);
}

#endif /* VAWARE_IVH_BPF_H */
