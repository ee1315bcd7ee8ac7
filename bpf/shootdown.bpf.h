/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shootdowns: a change of an address space waits until each vCPU that runs a thread of the process
 * has forgotten the old translations. One that is stopped does so when its next turn comes, and all
 * threads end up waiting for the slowest vCPU. A process that loses more by that than its unsteady
 * vCPUs give is confined to the others (demand-based coscheduling, ASPLOS 2013, TLB-Co). Which one
 * that is the daemon decides (hints/src/shootdown.rs).
 */
#ifndef VAWARE_SHOOTDOWN_BPF_H
#define VAWARE_SHOOTDOWN_BPF_H

#include "hints.bpf.h"

#include "policy/rwc.h"

/* The confined processes, by their numbers in the first PID namespace; 0: none. By the daemon. */
extern u32 confined[VAWARE_CONFINED];

/* Return true if some process is confined. */
static inline bool shootdown_confines(void)
{
	return some_flagged(VAWARE_VCPU_UNSTEADY) && policy_on(VAWARE_POLICY_SHOOTDOWN);
}

/* Global functions: the verifier checks them once, and not at each call. */
int shootdown_avoids(s32 cpu);
int shootdown_lists(u32 process);

/* Return true if confined processes keep away from @cpu. */
static inline bool shootdown_unsteady(s32 cpu)
{
	return shootdown_confines() && shootdown_avoids(cpu);
}

/* Return true if the process of @p is confined. */
static inline bool shootdown_confined(const struct task_struct *p)
{
	return shootdown_confines() && shootdown_lists(p->tgid);
}

/* Return true if @p, of @class, runs on @cpu and had better not. */
static inline bool shootdown_strays(const struct task_struct *p, s32 cpu, u32 class)
{
	return shootdown_unsteady(cpu) && shootdown_confined(p) &&
	       rwc_banned(VAWARE_VCPU_UNSTEADY, class);
}

/* Return true if @cpu is not to take @p, which waits for @victim. */
static inline bool shootdown_keeps(const struct task_struct *p, s32 cpu, s32 victim)
{
	if (!shootdown_unsteady(cpu) || shootdown_unsteady(victim) || !shootdown_confined(p))
		return false;
	count(VAWARE_SHOOTDOWN_KEPT);
	return true;
}

#endif /* VAWARE_SHOOTDOWN_BPF_H */
