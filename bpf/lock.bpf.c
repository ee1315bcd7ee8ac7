/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Spinlock waits of 1 ms or more: in a VM they mean that a vCPU was stopped while it held the lock.
 * Only waits on the slow path of the kernel's queued spinlocks are seen, runqueue and queue locks
 * among them; uncontended locks cost nothing.
 */
#include "context.bpf.h"

#define LCB_F_SPIN 1 /* include/trace/events/lock.h; other bits tell sleeping and rw locks */

SEC("tp_btf/contention_begin")
int BPF_PROG(vaware_lock_begin, void *lock, u32 flags)
{
	struct vcpu_ctx *v;

	if (flags != LCB_F_SPIN)
		return 0;
	v = vcpu_ctx_of(bpf_get_smp_processor_id());
	if (v) {
		v->lock.address = (u64)lock;
		v->lock.since_ns = bpf_ktime_get_ns();
	}
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(vaware_lock_end, void *lock, int ret)
{
	struct vaware_stats *s;
	struct vcpu_ctx *v = vcpu_ctx_of(bpf_get_smp_processor_id());
	u64 wait_ns;

	if (!v || v->lock.address != (u64)lock)
		return 0;
	v->lock.address = 0;
	wait_ns = bpf_ktime_get_ns() - v->lock.since_ns;
	if (wait_ns < LOCK_WAIT_LONG_NS)
		return 0;
	s = stats_here();
	if (!s)
		return 0;
	s->counters[VAWARE_LOCK_WAITS_LONG]++;
	if (wait_ns > s->lock_wait_max_ns)
		s->lock_wait_max_ns = wait_ns;
	return 0;
}
