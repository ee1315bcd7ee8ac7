/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The search among the candidates of a vCPU.
 */
#include "near.bpf.h"

#include "policy/place.h"

static __always_inline u64 near_cost_ns(struct task_struct *p, s32 cpu, const struct near *n)
{
	if (n->use == NEAR_SECOND)
		return rescue_second_cost(cpu, n);
	if (!p)
		return NEAR_NEVER;
	switch (n->use) {
	case NEAR_WAKEE:
		return place_cost(p, cpu, n);
	case NEAR_GIVES_WAY:
		return place_gives_way(p, cpu, n);
	case NEAR_ACTIVATOR:
		return rescue_activator_cost(p, cpu, n);
	case NEAR_HARVEST:
		return ivh_target_cost(p, cpu, n);
	case NEAR_CAPACITY:
		return capacity_cost(p, cpu, n);
	case NEAR_OPEN:
		return gather_cost(p, cpu, n);
	case NEAR_LEFT_FOR:
		return leave_cost(p, cpu, n);
	}
	return NEAR_NEVER;
}

__noinline int near_search(struct task_struct *p __arg_trusted __arg_nullable, s32 first,
			   struct near *n)
{
	const struct vaware_hints *in;
	u32 looks = VAWARE_CANDIDATES, of = VAWARE_CANDIDATES, start = 0, i;

	if (!n)
		return -1;
	in = hints_of(n->cpu);
	if (n->few) {
		looks = n->few;
		of = place_few_of(in ? in->nr_near : 0, nr_candidates(in));
		start = bpf_get_prandom_u32() % of;
	}
	bpf_for (i, 0, looks + 1) {
		s32 other = first;
		u64 cost_ns;

		if (i)
			other = candidate_vcpu(in, n->cpu, (start + i - 1) % of);
		if (other < 0) {
			if (!i)
				continue;
			break;
		}
		cost_ns = near_cost_ns(p, other, n);
		if (cost_ns >= n->cost_ns)
			continue;
		n->cost_ns = cost_ns;
		n->found = other;
		if (cost_ns <= n->good_ns)
			break;
	}
	return n->found;
}
