/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Balance: a busy vCPU takes work from a queue that is longer or stuck.
 */
#include "balance.bpf.h"
#include "rwc.bpf.h"

__noinline int balance_look(s32 cpu, u64 now)
{
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	u32 victim, waiting, own_waiting;
	struct task_struct *head;
	s32 offset;
	u64 dsq_id;

	if (!v || rwc_banned(rwc_flags(cpu), VAWARE_CLASS_THROUGHPUT))
		return false;
	v->balance.next_ns = now + BALANCE_INTERVAL_NS;
	offset = waiting_next(v->balance.cursor + 1, 0, nr_vcpus, false);
	if (offset < 0)
		return false;
	victim = (v->balance.cursor + 1 + offset) % nr_vcpus;
	v->balance.cursor = victim;
	if (victim == cpu)
		return false;
	dsq_id = vcpu_dsq(victim, false);
	waiting = scx_bpf_dsq_nr_queued(dsq_id);
	if (!waiting)
		return false;
	own_waiting = scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, false));
	head = __COMPAT_scx_bpf_dsq_peek(dsq_id);
	if (!queue_pulls(own_waiting, waiting, head ? waited_ns(head) : 0) ||
	    !scx_bpf_dsq_move_to_local(dsq_id, 0))
		return false;
	count(VAWARE_DISPATCH_BALANCE);
	return true;
}
