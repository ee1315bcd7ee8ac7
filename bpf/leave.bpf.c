/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a task goes that has to leave its vCPU.
 */
#include "leave.bpf.h"
#include "activity.bpf.h"
#include "cost.bpf.h"
#include "near.bpf.h"
#include "queue.bpf.h"
#include "rwc.bpf.h"
#include "task.bpf.h"
#include "wakeup.bpf.h"

/*
 * NEAR_LEFT_FOR: how long @p, which must not stay on its vCPU, waits for its turn on @cpu. A
 * stopped vCPU will do: where all of them are stopped whenever this one looks, as in a host whose
 * turns are of one length, it would stay for good.
 */
__noinline u64 leave_cost(struct task_struct *p __arg_trusted, s32 cpu, const struct near *n)
{
	const struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	u64 stop_ns = 0, turns;

	if (!n || !v || !v->online || !rwc_may_use(p, n->class, cpu))
		return NEAR_NEVER;
	if (vcpu_preempted(cpu, n->now))
		stop_ns = vcpu_stop_rest_ns(cpu, n->now);
	turns = scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, false));
	if (!near_idle(cpu) && v->run.class != VAWARE_CLASS_BEST_EFFORT)
		turns++;
	return stop_ns + turns * SLICE_NS;
}

__noinline int leave_for(struct task_struct *prev __arg_trusted, s32 cpu, u32 class, u64 now)
{
	struct near n = {
		.use = NEAR_LEFT_FOR,
		.now = now,
		.cost_ns = NEAR_NEVER,
		.class = class,
		.cpu = cpu,
		.found = -1,
	};
	struct vcpu_ctx *o;
	s32 other;

	if (is_pinned(prev))
		return -1;
	other = near_search(prev, -1, &n);
	o = other >= 0 ? vcpu_ctx_of(other) : NULL;
	if (!o)
		return -1;
	if (scx_bpf_test_and_clear_cpu_idle(other))
		wakeup_begin(other, o, now);
	return other;
}
