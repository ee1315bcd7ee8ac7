/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The wait bound: a task that has waited for long goes before all others.
 */
#ifndef VAWARE_OVERDUE_BPF_H
#define VAWARE_OVERDUE_BPF_H

#include "queue.bpf.h"

/*
 * Run a task that nears the wait bound, whatever its deadline. Return true if one did. After its
 * own queues @cpu looks into those of one other: that may be offline, or stopped, and nobody idle.
 */
__hidden bool overdue_search(s32 cpu, struct vcpu_ctx *v, u64 now);

/* The same once in a while. */
static inline bool overdue_dispatch(s32 cpu, struct vcpu_ctx *v, u64 now)
{
	return !time_before(now, v->overdue.next_ns) && overdue_search(cpu, v, now);
}

#endif /* VAWARE_OVERDUE_BPF_H */
