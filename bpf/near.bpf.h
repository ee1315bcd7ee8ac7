/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The search among the candidates of a vCPU: the one that costs least, by what it is wanted for.
 */
#ifndef VAWARE_NEAR_BPF_H
#define VAWARE_NEAR_BPF_H

#include "context.bpf.h"
#include "hints.bpf.h"

/* What a vCPU is wanted for. What it costs is told by the file of that. */
enum near_use {
	NEAR_WAKEE,	/* place.bpf.c: to run a task that wakes */
	NEAR_GIVES_WAY, /* place.bpf.c: it runs best-effort work, which normal work preempts */
	NEAR_ACTIVATOR, /* rescue.bpf.c: to activate a task, which stays in another's queue */
	NEAR_SECOND,	/* rescue.bpf.c: to take over what waits for another */
	NEAR_HARVEST,	/* ivh.bpf.c: to run on a task that leaves its vCPU */
	NEAR_CAPACITY,	/* capacity.bpf.c: the same, to get more */
	NEAR_OPEN,	/* gather.bpf.c: to run a task that wakes, and that keeps to open vCPUs */
	NEAR_LEFT_FOR,	/* leave.bpf.c: to run on a task that must not stay on its vCPU */
};

#define NEAR_NEVER (~0ULL) /* the cost of a vCPU that will not do */

/* What is looked for, and what has been found. */
struct near {
	u64 now;
	u64 burst_ns;	 /* what the task is expected to run */
	u64 good_ns;	 /* what costs no more is taken without a look at the rest */
	u64 cost_ns;	 /* of `found`; at first what it has to be below */
	u32 use;	 /* enum near_use */
	u32 class;	 /* enum vaware_class of the task */
	s32 cpu;	 /* whose candidates */
	s32 found;	 /* -1: none */
	u32 spills;	 /* parked vCPUs will do */
	u32 few;	 /* so many candidates are looked at, from a random one on; 0: all */
	u32 timer_wakee; /* it sleeps until set times, and is woken where it does */
	u32 confined;	 /* to steady vCPUs */
};

/*
 * Look at vCPU @first (-1: none), then at candidates of @n->cpu, for @p (NEAR_SECOND: NULL).
 * Return the one that costs least, or -1. Global: the verifier checks it once, not at each call.
 */
int near_search(struct task_struct *p __arg_trusted __arg_nullable, s32 first, struct near *n);

/*
 * What vCPU @cpu costs, or NEAR_NEVER. Each stands in the file that enum near_use tells. Global:
 * else the verifier would follow each in each pass of the search.
 */
u64 place_cost(struct task_struct *p __arg_trusted, s32 cpu, const struct near *n);
u64 place_gives_way(struct task_struct *p __arg_trusted, s32 cpu, const struct near *n);
u64 rescue_activator_cost(struct task_struct *p __arg_trusted, s32 cpu, const struct near *n);
u64 rescue_second_cost(s32 cpu, const struct near *n);
u64 ivh_target_cost(struct task_struct *p __arg_trusted, s32 cpu, const struct near *n);
u64 capacity_cost(struct task_struct *p __arg_trusted, s32 cpu, const struct near *n);
u64 gather_cost(struct task_struct *p __arg_trusted, s32 cpu, const struct near *n);
u64 leave_cost(struct task_struct *p __arg_trusted, s32 cpu, const struct near *n);

/* Return true if @cpu is idle, and not claimed. */
static inline bool near_idle(s32 cpu)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool is_idle = bpf_cpumask_test_cpu(cpu, idle);

	scx_bpf_put_idle_cpumask(idle);
	return is_idle;
}

#endif /* VAWARE_NEAR_BPF_H */
