/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How work blocks: how long tasks wait that wake, by what the vCPU does to which they are sent; how
 * many are woken together; how long they run between two sleeps. Measured for those policies alone
 * that go by it.
 */
#ifndef VAWARE_BLOCKING_BPF_H
#define VAWARE_BLOCKING_BPF_H

#include "context.bpf.h"

/* Return true if somebody goes by it. */
static inline bool blocking_measured(void)
{
	return policies & (VAWARE_POLICY_RETAIN | VAWARE_POLICY_GATHER);
}

/* Global functions, which the verifier checks once and not at each call. */

/* Task @t wakes, and is sent to @cpu, which was @idle before that. */
int blocking_wake(struct task_ctx *t, s32 cpu, u32 idle);

/* Task @t, which has waited for @wait_ns, runs. */
int blocking_ran(struct task_ctx *t, u64 wait_ns);

/* A task goes to sleep after a burst of @burst_ns. */
int blocking_slept(u64 burst_ns);

#endif /* VAWARE_BLOCKING_BPF_H */
