/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The wait bound: a task that has waited for long goes before all others.
 */
#ifndef VAWARE_OVERDUE_BPF_H
#define VAWARE_OVERDUE_BPF_H

#include "queue.bpf.h"

/*
 * Run a task that nears the wait bound, whatever its deadline: from the queues of @cpu, and from
 * those of others, which may be offline, or stopped, and nobody idle. Return true if one did.
 */
__hidden bool overdue_search_own(s32 cpu, struct vcpu_ctx *v, u64 now);
__hidden bool overdue_search_others(s32 cpu, u64 now);

/* When some vCPU next looks into the queues of others: one for all of them. */
extern u64 overdue_others_ns;

/* The same once in a while. */
static inline bool overdue_dispatch(s32 cpu, struct vcpu_ctx *v, u64 now)
{
	if (!time_before(now, v->overdue_next_ns) && overdue_search_own(cpu, v, now))
		return true;
	return !time_before(now, overdue_others_ns) && overdue_search_others(cpu, now);
}

#endif /* VAWARE_OVERDUE_BPF_H */
