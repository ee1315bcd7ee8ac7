/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a task goes that has become runnable: an idle vCPU, its waker's, or the queue of its own;
 * and whether it takes the vCPU from the task that runs there.
 */
#include "vaware.bpf.h"

/* Return true if some vCPU is idle: a cheap look before a search that would find none. */
static bool any_idle(void)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool any = !bpf_cpumask_empty(idle);

	scx_bpf_put_idle_cpumask(idle);
	return any;
}

/*
 * Claim an idle vCPU for @p, first the one it ran on last. Return it, or -EBUSY. The kernel's
 * search is by words of a mask: bounded for any number of vCPUs.
 */
static s32 claim_idle(struct task_struct *p, s32 prev_cpu)
{
	if (!any_idle())
		return -EBUSY;
	if (bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr) &&
	    scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		return prev_cpu;
	return scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
}

/*
 * Return true if @p may follow its waker, which is about to leave this vCPU @cpu to whoever comes
 * next; nobody else waits for it.
 */
static bool may_follow_waker(struct task_struct *p, s32 cpu, u64 wake_flags)
{
	return (wake_flags & SCX_WAKE_SYNC) && policy_on(VAWARE_POLICY_SYNC) &&
	       bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && !is_best_effort(p) &&
	       !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) &&
	       !scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, false));
}

/*
 * Let @p wait in the queue of vCPU @cpu. Not in its local one: should it be slow to wake, or be
 * stopped, another can take the task.
 */
static void wait_on(struct task_struct *p, s32 cpu, u64 slice_ns, u64 deadline, u64 enq_flags)
{
	scx_bpf_dsq_insert_vtime(p, vcpu_dsq(cpu, is_best_effort(p)), slice_ns, deadline,
				 enq_flags);
}

/* Let @p, which has woken, wait on the busy vCPU @cpu, or take it from the task that runs there. */
static void wake_on_busy(struct task_struct *p, struct task_ctx *t, s32 cpu, struct vcpu_ctx *v,
			 u64 enq_flags)
{
	u64 now = now_ns(), deadline = begin_wait(p, t, cpu, v, now);
	struct running r;

	if (!policy_on(VAWARE_POLICY_PREEMPT)) {
		wait_on(p, cpu, SLICE_NS, deadline, enq_flags);
		return;
	}
	r = running_on(v, now);
	if (!queue_preempts(task_class(p, t), deadline, &r)) {
		wait_on(p, cpu, SLICE_NS, deadline, enq_flags);
	} else if (cpu == bpf_get_smp_processor_id()) {
		/* This vCPU runs at this moment, and takes the task next: its local queue will do.
		 */
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags | SCX_ENQ_PREEMPT);
		count(VAWARE_PREEMPT_HERE);
	} else {
		wait_on(p, cpu, SLICE_NS, deadline, enq_flags);
		kick(cpu, SCX_KICK_PREEMPT);
		count(VAWARE_PREEMPT_REMOTE);
	}
}

/* A task that may run on several vCPUs wakes: place it, and queue it there at once. */
s32 BPF_STRUCT_OPS(vaware_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id(), cpu = -EBUSY;
	struct vcpu_ctx *here = vcpu_ctx_of(this_cpu), *v;
	struct task_ctx *t = task_ctx_of(p);
	bool follow;
	u64 now;

	if (!here || !t)
		return prev_cpu; /* to ops.enqueue */
	follow = may_follow_waker(p, this_cpu, wake_flags);
	if (!follow || !place_waker_first(here->stolen_1024))
		cpu = claim_idle(p, prev_cpu);
	if (cpu >= 0) {
		v = vcpu_ctx_of(cpu);
		if (!v)
			return cpu;
		/* The kernel reschedules an idle vCPU that a task is activated on: no kick. */
		now = now_ns();
		wake_sent(v, cpu, now);
		wait_on(p, cpu, SLICE_ALONE_NS, begin_wait(p, t, cpu, v, now), 0);
		count(cpu == prev_cpu ? VAWARE_PLACE_PREV_IDLE : VAWARE_PLACE_OTHER_IDLE);
		return cpu;
	}
	if (follow) {
		/* This vCPU runs at this moment, and takes the task next: its local queue will do.
		 */
		begin_wait(p, t, this_cpu, here, now_ns());
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, 0);
		count(VAWARE_PLACE_WAKER);
		return this_cpu;
	}
	count(VAWARE_PLACE_QUEUED);
	v = vcpu_ctx_of(prev_cpu);
	if (v && bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr))
		wake_on_busy(p, t, prev_cpu, v, 0);
	return prev_cpu; /* if that is not allowed any more: to ops.enqueue, where the kernel says
			  */
}

/* Send @p, whose slice ended on @cpu while others wait there, to an idle vCPU if there is one. */
static bool expired_to_idle(struct task_struct *p, struct task_ctx *t, s32 cpu, u64 enq_flags)
{
	u32 waiting = scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, is_best_effort(p)));
	struct vcpu_ctx *v;
	u64 now = now_ns();
	s32 idle;

	if (!place_leave_on_expiry(waiting, is_pinned(p)))
		return false;
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle < 0)
		return false;
	v = vcpu_ctx_of(idle);
	if (!v)
		return false;
	wake_sent(v, idle, now);
	wait_on(p, idle, SLICE_ALONE_NS, begin_wait(p, t, idle, v, now), enq_flags);
	kick(idle, SCX_KICK_IDLE);
	count(VAWARE_EXPIRED_TO_IDLE);
	return true;
}

/*
 * What ops.select_cpu has not queued: tasks whose slice ended, pinned ones that wake, and those
 * whose affinity, weight or policy has changed.
 */
void BPF_STRUCT_OPS(vaware_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	struct task_ctx *t = task_ctx_of(p);

	if (!v || !t) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags);
	} else if (!(enq_flags & SCX_ENQ_WAKEUP)) {
		if (!expired_to_idle(p, t, cpu, enq_flags))
			wait_on(p, cpu, SLICE_NS, begin_wait(p, t, cpu, v, now_ns()), enq_flags);
	} else if (is_vcpu_kthread(p)) {
		/*
		 * The kernel's own housekeeping for this vCPU is short and must not wait. When it
		 * uses up a slice it queues like everybody, or it would hold the local queue for
		 * ever.
		 */
		begin_wait(p, t, cpu, v, now_ns());
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags | SCX_ENQ_PREEMPT);
		count(VAWARE_PINNED_LOCAL);
	} else {
		wake_on_busy(p, t, cpu, v, enq_flags);
	}
}
