/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a task goes that has become runnable: an idle vCPU, its waker's, or the queue of its own;
 * and whether it takes the vCPU from the task that runs there.
 */
#include "vaware.bpf.h"

/*
 * Claim an idle vCPU for @p, first the one it ran on last. Return it, or -EBUSY. The kernel's
 * search is by words of a mask: bounded for any number of vCPUs.
 */
static s32 claim_idle(struct task_struct *p, s32 prev_cpu)
{
	if (bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr) &&
	    scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		return prev_cpu;
	if (is_pinned(p))
		return -EBUSY;
	return scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
}

/* Return true if @p should go to its waker's vCPU @cpu, which the waker is about to leave. */
static bool stay_with_waker(struct task_struct *p, s32 cpu, u64 wake_flags)
{
	struct vcpu_ctx *v;

	if (!(wake_flags & SCX_WAKE_SYNC) || !policy_on(VAWARE_POLICY_SYNC))
		return false;
	v = vcpu_ctx_of(cpu);
	return v &&
	       place_stay_with_waker(true, bpf_cpumask_test_cpu(cpu, p->cpus_ptr),
				     scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, false)), v->stolen_1024);
}

s32 BPF_STRUCT_OPS(vaware_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id(), cpu;
	struct vcpu_ctx *v;
	struct task_ctx *t;

	/* Kernel threads of one vCPU go straight to it, from ops.enqueue. */
	if (is_vcpu_kthread(p))
		return prev_cpu;
	if (stay_with_waker(p, this_cpu, wake_flags)) {
		count(VAWARE_PLACE_WAKER);
		return this_cpu;
	}
	cpu = claim_idle(p, prev_cpu);
	if (cpu < 0) {
		count(VAWARE_PLACE_QUEUED);
		return prev_cpu;
	}
	v = vcpu_ctx_of(cpu);
	t = task_ctx_of(p);
	if (!v || !t)
		return prev_cpu;
	/*
	 * Into the idle vCPU's queue, not its local one: should it be slow to wake, another can
	 * take the task. The kernel reschedules an idle vCPU on its own when a task is activated
	 * there: no kick.
	 */
	scx_bpf_dsq_insert_vtime(p, vcpu_dsq(cpu, is_best_effort(p)), SLICE_ALONE_NS,
				 begin_wait(p, t, cpu, v), 0);
	count(cpu == prev_cpu ? VAWARE_PLACE_PREV_IDLE : VAWARE_PLACE_OTHER_IDLE);
	return cpu;
}

/* Send @p, whose slice ended on @cpu while others wait there, to an idle vCPU if there is one. */
static bool expired_to_idle(struct task_struct *p, struct task_ctx *t, s32 cpu, u64 enq_flags)
{
	bool best_effort = is_best_effort(p);
	struct vcpu_ctx *v;
	s32 idle;

	if (!place_leave_on_expiry(scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, best_effort)), is_pinned(p)))
		return false;
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle < 0)
		return false;
	v = vcpu_ctx_of(idle);
	if (!v)
		return false;
	scx_bpf_dsq_insert_vtime(p, vcpu_dsq(idle, best_effort), SLICE_ALONE_NS,
				 begin_wait(p, t, idle, v), enq_flags);
	kick(idle, SCX_KICK_IDLE);
	count(VAWARE_EXPIRED_TO_IDLE);
	return true;
}

void BPF_STRUCT_OPS(vaware_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	struct task_ctx *t = task_ctx_of(p);
	bool woken = enq_flags & SCX_ENQ_WAKEUP;
	struct running r;
	u64 deadline;

	if (!v || !t) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags);
		return;
	}
	/*
	 * The kernel's own housekeeping for this vCPU is short and must not wait. One that uses up
	 * a slice queues like everybody, or it would hold the local queue for ever.
	 */
	if (is_vcpu_kthread(p) && woken) {
		begin_wait(p, t, cpu, v);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags | SCX_ENQ_PREEMPT);
		count(VAWARE_PINNED_LOCAL);
		return;
	}
	if (!woken && expired_to_idle(p, t, cpu, enq_flags))
		return;

	deadline = begin_wait(p, t, cpu, v);
	if (!woken || !policy_on(VAWARE_POLICY_PREEMPT))
		goto queue;
	r = running_on(v);
	if (!queue_preempts(task_class(p, t), deadline, &r))
		goto queue;
	if (cpu == bpf_get_smp_processor_id()) {
		/* This vCPU runs at this moment, and takes the task next: its local queue will do.
		 */
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags | SCX_ENQ_PREEMPT);
		count(VAWARE_PREEMPT_HERE);
		return;
	}
	scx_bpf_dsq_insert_vtime(p, vcpu_dsq(cpu, is_best_effort(p)), SLICE_NS, deadline,
				 enq_flags);
	kick(cpu, SCX_KICK_PREEMPT);
	count(VAWARE_PREEMPT_REMOTE);
	return;
queue:
	scx_bpf_dsq_insert_vtime(p, vcpu_dsq(cpu, is_best_effort(p)), SLICE_NS, deadline,
				 enq_flags);
}
