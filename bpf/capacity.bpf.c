/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Capacity: CPU-bound tasks go where they get the most. Those of a vCPU that is banned go the same
 * way.
 */
#include "capacity.bpf.h"
#include "near.bpf.h"
#include "rwc.bpf.h"
#include "task.bpf.h"

/* NEAR_CAPACITY: an idle vCPU costs the less the more it gives. */
__noinline u64 capacity_cost(struct task_struct *p __arg_trusted, s32 cpu, const struct near *n)
{
	const struct cpumask *idle;
	u64 cost = NEAR_NEVER;

	if (!n || rwc_banned(rwc_flags_of_all(p, cpu), n->class) || !task_may_run(p, cpu))
		return cost;
	idle = scx_bpf_get_idle_cpumask();
	if (bpf_cpumask_test_cpu(cpu, idle))
		cost = place_capacity_cost(effective_capacity_of(cpu, idle));
	scx_bpf_put_idle_cpumask(idle);
	return cost;
}

__noinline int capacity_better_for(struct task_struct *prev __arg_trusted, s32 cpu, u32 class)
{
	/* The reserve is left by a rule of its own (dispatch.bpf.c). */
	bool is_banned = rwc_banned(rwc_flags_of_all(prev, cpu) & ~VAWARE_VCPU_RESERVE, class);
	struct near n = { .use = NEAR_CAPACITY, .class = class, .cpu = cpu, .found = -1 };
	const struct cpumask *idle;
	s32 best;

	if (is_pinned(prev))
		return -1;
	if (is_banned) {
		n.cost_ns = NEAR_NEVER;
	} else if (capacity_on() && class == VAWARE_CLASS_THROUGHPUT &&
		   some_flagged(VAWARE_VCPUS_DIFFER | VAWARE_VCPU_SMT)) {
		idle = scx_bpf_get_idle_cpumask();
		n.cost_ns = place_gain_cost(effective_capacity_of(cpu, idle));
		scx_bpf_put_idle_cpumask(idle);
	} else {
		return -1;
	}
	best = near_search(prev, -1, &n);
	if (best < 0 || !scx_bpf_test_and_clear_cpu_idle(best))
		return -1;
	count(is_banned ? VAWARE_RWC_LEFT : VAWARE_CAPACITY_MOVED);
	return best;
}
