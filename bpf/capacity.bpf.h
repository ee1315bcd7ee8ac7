/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Capacity: CPU-bound tasks go where they get the most.
 */
#ifndef VAWARE_CAPACITY_BPF_H
#define VAWARE_CAPACITY_BPF_H

#include "context.bpf.h"
#include "hints.bpf.h"

#include "policy/place.h"

static inline bool capacity_on(void)
{
	return policy_on(VAWARE_POLICY_CAPACITY);
}

/* Return what vCPU @cpu gives to a CPU-bound task, in 1/1024 of the best one. */
static inline u32 effective_capacity_of(s32 cpu, const struct cpumask *idle)
{
	const struct vaware_hints *in;

	if (!capacity_on())
		return 1024;
	in = hints_of(cpu);
	if (!in)
		return 1024;
	return place_effective_capacity(
		in->capacity_1024, in->sibling != cpu && !bpf_cpumask_test_cpu(in->sibling, idle));
}

/*
 * Return an idle vCPU, claimed, where @prev, of @class, had better run than here on @cpu; or -1.
 * Global: the verifier checks it once.
 */
int capacity_better_for(struct task_struct *prev __arg_trusted, s32 cpu, u32 class);

#endif /* VAWARE_CAPACITY_BPF_H */
