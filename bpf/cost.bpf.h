/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What it costs to place a task on a vCPU.
 */
#ifndef VAWARE_COST_BPF_H
#define VAWARE_COST_BPF_H

#include "vaware.bpf.h"

/*
 * Global functions, which the verifier checks once and not in each pass of the loops that call
 * them.
 */

/*
 * Return the cost in ns of placing a task of @class with @burst_ns of work on @cpu now: its delay,
 * what it loses, and what others lose by it.
 */
u64 vcpu_cost_ns(s32 cpu, u32 class, u64 burst_ns, u64 now);

/* Return for how long @cpu, which is stopped, is expected to stay so, in ns. */
u64 vcpu_stop_rest_ns(s32 cpu, u64 now);

/* Return for how long @cpu, which runs, is expected to be stopped within a slice, in ns. */
u64 vcpu_preemptions_ns(s32 cpu, u64 now);

#endif /* VAWARE_COST_BPF_H */
