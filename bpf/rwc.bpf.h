/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Relaxed work conservation (policy/rwc.h): vCPUs that normal work keeps away from.
 */
#ifndef VAWARE_RWC_BPF_H
#define VAWARE_RWC_BPF_H

#include "gather.bpf.h"
#include "reserve.bpf.h"
#include "shootdown.bpf.h"
#include "task.bpf.h"

#include "policy/rwc.h"

#define RWC_FLAGS (VAWARE_VCPU_STRAGGLER | VAWARE_VCPU_STACKED)

static inline bool rwc_on(void)
{
	return policy_on(VAWARE_POLICY_RWC);
}

/* Return the flags (enum vaware_vcpu_flag) of @cpu; none while its evidence is old. */
static inline u32 rwc_flags(s32 cpu)
{
	const struct vaware_hints *in;

	if (!some_flagged(RWC_FLAGS | VAWARE_VCPU_PARKED | VAWARE_VCPU_RESERVE))
		return 0;
	in = hints_of(cpu);
	return in ? in->flags & ((rwc_on() ? RWC_FLAGS : 0) | gather_flag() | reserve_flag()) : 0;
}

/* Return the same for @p: a vCPU may be good for others, and not for what is confined. */
static inline u32 rwc_flags_for(const struct task_struct *p, s32 cpu)
{
	u32 flags = rwc_flags(cpu);

	return shootdown_unsteady(cpu) && shootdown_confined(p) ? flags | VAWARE_VCPU_UNSTEADY
								: flags;
}

/* Return the same but for parked vCPUs, which serve a task that runs long, or has no time. */
static inline u32 rwc_flags_of_all(const struct task_struct *p, s32 cpu)
{
	return rwc_flags_for(p, cpu) & ~VAWARE_VCPU_PARKED;
}

/* Return true if @p, of @class, may be placed on @cpu. */
static inline bool rwc_may_use(const struct task_struct *p, u32 class, s32 cpu)
{
	return task_may_run(p, cpu) && !rwc_banned(rwc_flags_for(p, cpu), class);
}

#endif /* VAWARE_RWC_BPF_H */
