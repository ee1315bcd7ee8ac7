/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Gathering (policy/gather.h): work of short bursts keeps to the open vCPUs while others are
 * parked.
 */
#ifndef VAWARE_GATHER_BPF_H
#define VAWARE_GATHER_BPF_H

#include "hints.bpf.h"

#include "policy/gather.h"

/* Return the flag of a parked vCPU if it counts, else 0. */
static inline u32 gather_flag(void)
{
	return policy_on(VAWARE_POLICY_GATHER) ? VAWARE_VCPU_PARKED : 0;
}

/* Return true if a task of @class with bursts of @burst_ns has to keep to open vCPUs. */
static inline bool gather_applies(u32 class, u64 burst_ns)
{
	return some_flagged(VAWARE_VCPU_PARKED) && gather_flag() && gather_keeps(class, burst_ns);
}

#endif /* VAWARE_GATHER_BPF_H */
