/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The reserve (policy/reserve.h): a vCPU that CPU-bound work keeps away from.
 */
#ifndef VAWARE_RESERVE_BPF_H
#define VAWARE_RESERVE_BPF_H

#include "context.bpf.h"
#include "hints.bpf.h"

#include "policy/reserve.h"

/* Set by the daemon: */
extern u32 reserve_vcpu; /* its number + 1; 0: none */
extern u32 usable_vcpus; /* how many are online and not banned */

/* Return the flag of the reserve if it counts, else 0. */
static inline u32 reserve_flag(void)
{
	return policy_on(VAWARE_POLICY_RESERVE) ? VAWARE_VCPU_RESERVE : 0;
}

/* Return the reserve; -1: there is none. */
static inline s32 reserve_cpu(void)
{
	u32 cpu = READ_ONCE(reserve_vcpu) - 1;

	return some_flagged(VAWARE_VCPU_RESERVE) && reserve_flag() && cpu < nr_vcpus ? (s32)cpu
										     : -1;
}

/* Return true if there is a reserve. */
static inline bool reserve_exists(void)
{
	return reserve_cpu() >= 0;
}

/* Have the task of @t pay for @run_ns on @cpu, if that is the reserve. */
static inline void reserve_charge(struct task_ctx *t, s32 cpu, u64 run_ns, u64 now)
{
	if ((u32)cpu + 1 == reserve_vcpu)
		t->reserve_paid_until_ns = reserve_pay(t->reserve_paid_until_ns, run_ns, now);
}

/*
 * Return the class by which a task of @class looks for a vCPU: one that has had of the reserve what
 * it may have is as good as CPU-bound.
 */
static inline u32 reserve_class(const struct task_ctx *t, u32 class, u64 now)
{
	return class == VAWARE_CLASS_LATENCY && reserve_exists() &&
			       !reserve_paid(t->reserve_paid_until_ns, now)
		       ? VAWARE_CLASS_THROUGHPUT
		       : class;
}

/* Return true if what runs on @cpu, the vCPU of @v, has to leave it. */
static inline bool reserve_is_misused(s32 cpu, const struct vcpu_ctx *v)
{
	return (u32)cpu + 1 == reserve_vcpu && reserve_exists() &&
	       reserve_evicts(v->run.class, v->run.burst_ns);
}

#endif /* VAWARE_RESERVE_BPF_H */
