/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a vCPU runs next. In this order: a task that nears the wait bound; normal work of its own;
 * normal work of others, if it would be idle or best-effort otherwise; best-effort work likewise.
 * It moves one task to its local queue, when it is about to run it.
 */
#include "vaware.bpf.h"

/* Return how long @p has been waiting, by the stamp that the kernel's watchdog goes by. */
static u64 waited_ns(const struct task_struct *p)
{
	u64 now = bpf_jiffies64(), since = p->scx.runnable_at;

	return time_delta(now, since) * tick_ns;
}

/* Take the first overdue task of queue @dsq_id, from its tail. Return true if there was one. */
static bool take_overdue(u64 dsq_id)
{
	struct task_struct *p;
	u32 looked_at = 0;

	bpf_for_each (scx_dsq, p, dsq_id, SCX_DSQ_ITER_REV) {
		if (looked_at++ >= OVERDUE_SCAN)
			break;
		if (!queue_overdue(waited_ns(p), wait_bound_ns))
			continue;
		if (scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0))
			return true;
	}
	return false;
}

/* Run a task of @cpu that nears the wait bound, whatever its deadline. Return true if one did. */
static bool dispatch_overdue(s32 cpu, struct vcpu_ctx *v, u64 now)
{
	bool found;

	if (time_before(now, v->overdue_next_ns))
		return false;
	found = take_overdue(vcpu_dsq(cpu, true)) || take_overdue(vcpu_dsq(cpu, false));
	v->overdue_next_ns = now + queue_overdue_again_ns(found, wait_bound_ns);
	if (found)
		count(VAWARE_DISPATCH_OVERDUE);
	return found;
}

/* Take from the queues of other vCPUs, nearest first, at most STEAL_ATTEMPTS of them. */
static bool steal(s32 cpu, struct vcpu_ctx *v, bool best_effort)
{
	u32 others = nr_vcpus - 1;
	u32 tries = others < STEAL_ATTEMPTS ? others : STEAL_ATTEMPTS;
	u32 at = others > STEAL_ATTEMPTS ? v->steal_cursor : 0;
	u32 i;

	bpf_for (i, 0, tries) {
		u32 victim = (cpu + 1 + (at + i) % others) % nr_vcpus;

		if (scx_bpf_dsq_move_to_local(vcpu_dsq(victim, best_effort), 0)) {
			count(VAWARE_DISPATCH_STEAL);
			return true;
		}
	}
	v->steal_cursor = at + tries;
	return false;
}

/* Once in a while, take from one other queue that is longer than @cpu's own, or stuck. */
static bool pull(s32 cpu, struct vcpu_ctx *v, u64 now)
{
	u32 victim, waiting, own_waiting;
	struct task_struct *head;
	u64 dsq_id;

	if (time_before(now, v->balance_next_ns) || !policy_on(VAWARE_POLICY_BALANCE))
		return false;
	v->balance_next_ns = now + BALANCE_INTERVAL_NS;
	victim = v->balance_cursor + 1 < nr_vcpus ? v->balance_cursor + 1 : 0;
	v->balance_cursor = victim;
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

static bool take_own(s32 cpu, bool best_effort)
{
	if (!scx_bpf_dsq_move_to_local(vcpu_dsq(cpu, best_effort), 0))
		return false;
	count(VAWARE_DISPATCH_OWN);
	return true;
}

/*
 * The slice of @prev has ended and it still wants to run. Return true if another task was taken
 * instead.
 */
static bool replace(s32 cpu, struct vcpu_ctx *v, struct task_struct *prev)
{
	bool best_effort = is_best_effort(prev), yielded = v->yielded;
	struct task_struct *head;
	struct task_ctx *t;
	struct running r;

	v->yielded = 0;
	if (best_effort && (take_own(cpu, false) || steal(cpu, v, false)))
		return true;
	if (yielded)
		return take_own(cpu, best_effort);
	t = task_ctx_of(prev);
	if (!t)
		return false;
	charge(prev, t, cpu, v, now_ns());
	head = __COMPAT_scx_bpf_dsq_peek(vcpu_dsq(cpu, best_effort));
	if (!head)
		return false;
	r = running_on(v, v->beat_ns);
	return !queue_keeps(&r, head->scx.dsq_vtime) && take_own(cpu, best_effort);
}

void BPF_STRUCT_OPS(vaware_dispatch, s32 cpu, struct task_struct *prev)
{
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	u64 now = now_ns();

	if (!v || dispatch_overdue(cpu, v, now) || pull(cpu, v, now))
		return;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		if (replace(cpu, v, prev))
			return;
		advance_vclock(v, v->run_vtime);
		scx_bpf_task_set_slice(prev,
				       queue_slice_ns(scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, false))));
		count(VAWARE_DISPATCH_KEEP);
		return;
	}
	if (take_own(cpu, false) || steal(cpu, v, false) || take_own(cpu, true))
		return;
	steal(cpu, v, true);
}
