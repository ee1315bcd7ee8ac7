/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Balance: a busy vCPU takes work from a queue that is longer or stuck.
 */
#ifndef VAWARE_BALANCE_BPF_H
#define VAWARE_BALANCE_BPF_H

#include "queue.bpf.h"

/* Take from the next queue where work waits, if it is longer than @cpu's own, or stuck. */
int balance_look(s32 cpu, u64 now);

/* The same once in a while. */
static inline bool balance_pull(s32 cpu, const struct vcpu_ctx *v, u64 now)
{
	return !time_before(now, v->balance.next_ns) && balance_look(cpu, now);
}

#endif /* VAWARE_BALANCE_BPF_H */
