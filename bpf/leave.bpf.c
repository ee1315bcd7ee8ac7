/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a task goes that has to leave its vCPU.
 */
#include "leave.bpf.h"
#include "near.bpf.h"
#include "task.bpf.h"
#include "wakeup.bpf.h"

__noinline int leave_for(struct task_struct *prev __arg_trusted, s32 cpu, u32 class, u64 now)
{
	struct near n = {
		.use = NEAR_OPEN,
		.now = now,
		.burst_ns = SLICE_NS,
		.cost_ns = NEAR_NEVER,
		.class = class,
		.cpu = cpu,
		.found = -1,
	};
	struct vcpu_ctx *o;
	s32 other;

	if (is_pinned(prev))
		return -1;
	other = near_search(prev, -1, &n);
	o = other >= 0 ? vcpu_ctx_of(other) : NULL;
	if (!o)
		return -1;
	if (scx_bpf_test_and_clear_cpu_idle(other))
		wakeup_begin(other, o, now);
	return other;
}
