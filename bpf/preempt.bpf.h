/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Preempt: a waking task takes the vCPU from the one that runs there.
 */
#ifndef VAWARE_PREEMPT_BPF_H
#define VAWARE_PREEMPT_BPF_H

#include "queue.bpf.h"

/*
 * Return true if @p, which has woken and would be queued for @v with @deadline, takes the vCPU from
 * the task that runs there.
 */
__hidden bool preempt_wakee(struct task_struct *p, struct task_ctx *t, const struct vcpu_ctx *v,
			    u64 deadline, u64 now);

#endif /* VAWARE_PREEMPT_BPF_H */
