/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The reserve (policy/reserve.h): where CPU-bound work goes that is found there.
 */
#include "near.bpf.h"
#include "reserve.bpf.h"
#include "task.bpf.h"
#include "wakeup.bpf.h"

u32 reserve_vcpu;
u32 usable_vcpus;

__noinline int reserve_leave_for(struct task_struct *prev __arg_trusted, s32 cpu, u64 now)
{
	struct near n = {
		.use = NEAR_OPEN,
		.now = now,
		.burst_ns = SLICE_NS,
		.cost_ns = NEAR_NEVER,
		.class = VAWARE_CLASS_THROUGHPUT,
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
	count(VAWARE_RESERVE_LEFT);
	return other;
}
