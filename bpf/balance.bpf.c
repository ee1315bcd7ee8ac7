/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Balance: a busy vCPU takes work from a queue that is longer or stuck.
 */
#include "balance.bpf.h"
#include "rwc.bpf.h"

bool balance_pull(s32 cpu, struct vcpu_ctx *v, u64 now)
{
	u32 victim, waiting, own_waiting;
	struct task_struct *head;
	u64 dsq_id;

	if (time_before(now, v->balance.next_ns) || !policy_on(VAWARE_POLICY_BALANCE) ||
	    rwc_banned(rwc_flags(cpu), VAWARE_CLASS_THROUGHPUT))
		return false;
	v->balance.next_ns = now + BALANCE_INTERVAL_NS;
	victim = next_vcpu(v->balance.cursor);
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
