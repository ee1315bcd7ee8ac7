/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Gathering: what an open vCPU costs a task that wakes.
 */
#include "activity.bpf.h"
#include "near.bpf.h"
#include "queue.bpf.h"
#include "rwc.bpf.h"

/* NEAR_OPEN: how long @p waits on open vCPU @cpu. */
__noinline u64 gather_cost(struct task_struct *p __arg_trusted, s32 cpu, const struct near *n)
{
	const struct vcpu_ctx *v = vcpu_ctx_of(cpu);

	if (!n || !v || !v->online || !rwc_may_use(p, n->class, cpu) || vcpu_preempted(cpu, n->now))
		return NEAR_NEVER;
	if (near_idle(cpu) || v->run.class == VAWARE_CLASS_BEST_EFFORT)
		return 0;
	return gather_wait_ns(v->run.burst_avg_ns,
			      v->run.burst_ns + time_delta(n->now, v->run.charged_ns),
			      scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, false)), n->burst_ns);
}
