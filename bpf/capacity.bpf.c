/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Capacity: CPU-bound tasks go where they get the most. Those of a vCPU that is banned go the same
 * way.
 */
#include "capacity.bpf.h"
#include "rwc.bpf.h"
#include "task.bpf.h"

__noinline int capacity_better_for(struct task_struct *prev __arg_trusted, s32 cpu, u32 class)
{
	const struct vaware_hints *in = some_flagged() ? hints_of(cpu) : NULL;
	bool is_banned = rwc_banned(rwc_flags(cpu), class);
	const struct cpumask *idle;
	u32 i, best_capacity, effective_capacity;
	s32 best = -1;

	if (!in || !in->flags || is_pinned(prev))
		return -1;
	if (!is_banned && (!capacity_on() || class != VAWARE_CLASS_THROUGHPUT))
		return -1;
	idle = scx_bpf_get_idle_cpumask();
	best_capacity = is_banned ? 0 : effective_capacity_of(cpu, idle);
	bpf_for (i, 0, VAWARE_CANDIDATES) {
		s32 other = candidate_vcpu(in, cpu, i);

		if (other < 0)
			break;
		if (!bpf_cpumask_test_cpu(other, idle) || !rwc_may_use(prev, class, other))
			continue;
		effective_capacity = effective_capacity_of(other, idle);
		if (best < 0 ? place_gains(best_capacity, effective_capacity)
			     : effective_capacity > best_capacity) {
			best_capacity = effective_capacity;
			best = other;
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	if (best < 0 || !scx_bpf_test_and_clear_cpu_idle(best))
		return -1;
	count(is_banned ? VAWARE_RWC_LEFT : VAWARE_CAPACITY_MOVED);
	return best;
}
