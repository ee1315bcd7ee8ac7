/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Preempt: a waking task takes the vCPU from the one that runs there.
 */
#include "interrupt.bpf.h"
#include "preempt.bpf.h"

/* Return true if what wakes a task at present is a CPU-bound task on this vCPU. */
static bool woken_by_work(u64 now)
{
	const struct vcpu_ctx *here = vcpu_ctx_of(bpf_get_smp_processor_id());

	return here && here->run.class != VAWARE_CLASS_NONE &&
	       account_cpu_bound(here->run.burst_ns + time_delta(now, here->run.charged_ns)) &&
	       !in_interrupt();
}

bool preempt_wakee(struct task_struct *p, struct task_ctx *t, const struct vcpu_ctx *v,
		   u64 deadline, u64 now)
{
	struct running r;
	u32 class;

	t->by_work = woken_by_work(now);
	class = waiting_class(p, t);
	if (class != task_class(p, t))
		count(VAWARE_PREEMPT_LEFT);
	r = running_on(v, now);
	return queue_preempts(class, deadline, &r);
}
