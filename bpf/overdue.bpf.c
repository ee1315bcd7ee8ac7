/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The wait bound: a task that has waited for long goes before all others.
 */
#include "overdue.bpf.h"

/*
 * Take the first overdue task that waits for @victim and may run on @cpu, from the tail of the
 * queue. Return true if there was one.
 */
static bool take_overdue(s32 victim, bool best_effort, s32 cpu)
{
	struct task_struct *p;
	u32 looked_at = 0;

	bpf_for_each (scx_dsq, p, vcpu_dsq(victim, best_effort), SCX_DSQ_ITER_REV) {
		if (looked_at++ >= OVERDUE_SCAN)
			break;
		if (!queue_overdue(waited_ns(p), wait_bound_ns))
			continue;
		if (victim != cpu && (is_pinned(p) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr)))
			continue;
		if (scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0))
			return true;
	}
	return false;
}

bool overdue_dispatch(s32 cpu, struct vcpu_ctx *v, u64 now)
{
	u32 other;
	bool found;

	if (time_before(now, v->overdue.next_ns))
		return false;
	other = next_vcpu(v->overdue.cursor);
	v->overdue.cursor = other;
	found = take_overdue(cpu, true, cpu) || take_overdue(cpu, false, cpu) ||
		take_overdue(other, true, cpu) || take_overdue(other, false, cpu);
	v->overdue.next_ns = now + queue_overdue_again_ns(found, wait_bound_ns);
	if (found)
		count(VAWARE_DISPATCH_OVERDUE);
	return found;
}
