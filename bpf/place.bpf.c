/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a task goes that has become runnable: an idle vCPU, its waker's, or the queue of its own;
 * and whether it takes the vCPU from the task that runs there.
 */
#include "bvs.bpf.h"
#include "capacity.bpf.h"
#include "cost.bpf.h"
#include "preempt.bpf.h"
#include "rescue.bpf.h"
#include "rwc.bpf.h"
#include "sync.bpf.h"

#include "policy/place.h"

/* Where a task goes. */
struct choice {
	s32 cpu;	  /* -1: nowhere better than where it was */
	bool idle;	  /* it was idle, and has been claimed */
	u64 delay_ns;	  /* expected, by bvs; 0: not known */
	u64 burst_ns;	  /* what the task is expected to run */
	bool timer_wakee; /* it sleeps until set times, and is woken where it does */
};

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
 * Return true if a task of @class that ran on @cpu last has to look at what the vCPUs are. Where
 * they are all alike there is nothing to choose.
 */
static bool has_to_look(s32 cpu, u32 class, u64 now)
{
	const struct vaware_vcpu_inputs *in;

	if (bvs_looks(cpu, class, now) || rescue_looks(class))
		return true;
	if (!rwc_on() && !capacity_on())
		return false;
	in = hints_of(cpu);
	return in && in->flags;
}

/*
 * Choose a vCPU for @p, of @class, which ran on @prev_cpu last: the cheapest among that and the
 * vCPUs near it, or the first that is good enough.
 */
static void choose(struct task_struct *p, u32 class, s32 prev_cpu, u64 now, struct choice *to)
{
	const struct vaware_vcpu_inputs *in = hints_of(prev_cpu);
	u64 least_ns = ~0ULL;
	s32 best = -1;
	u32 i;

	bpf_for (i, 0, VAWARE_NEAR_VCPUS + 1) {
		s32 cpu = i ? candidate_vcpu(in, prev_cpu, i - 1) : prev_cpu;
		u64 delay_ns, cost_ns;

		if (cpu < 0)
			break;
		if (!rwc_may_use(p, class, cpu))
			continue;
		delay_ns = vcpu_cost_ns(cpu, class, to->burst_ns, now);
		cost_ns = delay_ns +
			  (to->timer_wakee ? bvs_sleep_ns(bvs_timer_late_ns(cpu, now)) : 0);
		if (i)
			cost_ns = place_away_ns(class, cost_ns);
		if (cost_ns >= least_ns)
			continue;
		least_ns = cost_ns;
		best = cpu;
		to->delay_ns = delay_ns;
		if (bvs_good(cost_ns))
			break;
	}
	to->cpu = best;
	to->idle = best >= 0 && scx_bpf_test_and_clear_cpu_idle(best);
}

/*
 * Find an idle vCPU for @p, or a busy one that is better than @prev_cpu. A vCPU that is banned
 * serves those that may run nowhere else.
 */
static void find_vcpu(struct task_struct *p, u32 class, s32 prev_cpu, u64 now, struct choice *to)
{
	to->cpu = -1;
	to->idle = false;
	to->delay_ns = 0;
	if (has_to_look(prev_cpu, class, now)) {
		choose(p, class, prev_cpu, now, to);
		if (to->cpu >= 0) {
			if (to->cpu != prev_cpu && rwc_banned(rwc_flags(prev_cpu), class))
				count(VAWARE_RWC_AVOIDED);
			return;
		}
		count(VAWARE_RWC_FORCED);
	}
	to->cpu = claim_idle(p, prev_cpu);
	to->idle = to->cpu >= 0;
}

/* Let @p, which has woken, wait on the busy vCPU @cpu, or take it from the task that runs there. */
static void wake_on_busy(struct task_struct *p, struct task_ctx *t, s32 cpu, struct vcpu_ctx *v,
			 u64 enq_flags)
{
	u64 now = now_ns(), deadline = begin_wait(p, t, cpu, v, now);

	if (!preempt_wakee(p, t, v, deadline, now)) {
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

/*
 * Let @p, which has woken, run on @cpu, idle and claimed. Return the vCPU on whose runqueue it is
 * to be activated.
 */
static s32 wake_on_idle(struct task_struct *p, struct task_ctx *t, s32 cpu, struct vcpu_ctx *v,
			u64 now)
{
	u64 deadline = begin_wait(p, t, cpu, v, now);
	bool in_reach = rescue_wakee(t, v, now);
	s32 at;

	wakeup_begin(cpu, v, now);
	/* The kernel reschedules an idle vCPU that a task is activated on: no kick. */
	if (queued_wakeup && !in_reach) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_ALONE_NS, 0);
		return cpu;
	}
	wait_on(p, cpu, SLICE_ALONE_NS, deadline, 0);
	if (!in_reach)
		return cpu;
	rescue_watch(cpu, now);
	at = rescue_activate_near(p, cpu, v->wakeup.excess_ns, now);
	if (at != cpu)
		kick(cpu, SCX_KICK_IDLE);
	return at;
}

/* A task that may run on several vCPUs wakes: place it, and queue it there at once. */
s32 BPF_STRUCT_OPS(vaware_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct choice to = { .cpu = -1 };
	s32 this_cpu = bpf_get_smp_processor_id();
	struct vcpu_ctx *here = vcpu_ctx_of(this_cpu), *v;
	struct task_ctx *t = task_ctx_of(p);
	u64 now = now_ns();
	bool follow;
	s32 cpu;

	if (!here || !t)
		return prev_cpu; /* to ops.enqueue */
	to.burst_ns = place_burst_ns(t->burst_avg_ns, t->burst_ns);
	to.timer_wakee = bvs_timer_wakes(this_cpu, now);
	follow = sync_may_follow(p, this_cpu, wake_flags);
	if (!follow || !sync_waker_first(here, now))
		find_vcpu(p, task_class(p, t), prev_cpu, now, &to);
	t->bvs.predicted_ns = to.delay_ns;
	if (to.idle) {
		v = vcpu_ctx_of(to.cpu);
		if (!v)
			return to.cpu;
		cpu = wake_on_idle(p, t, to.cpu, v, now);
		count(to.cpu == prev_cpu ? VAWARE_PLACE_PREV_IDLE : VAWARE_PLACE_OTHER_IDLE);
		if (to.delay_ns)
			count(VAWARE_BVS_PICKED);
		if (to.timer_wakee && to.delay_ns && to.cpu != this_cpu) {
			bvs_send_timer_wakee(this_cpu, to.cpu, v, to.delay_ns, now);
			count(VAWARE_BVS_SLEEPER);
		}
		return cpu;
	}
	if (follow) {
		/* This vCPU runs at this moment, and takes the task next: its local queue will do.
		 */
		t->bvs.predicted_ns = 0;
		begin_wait(p, t, this_cpu, here, now);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, 0);
		count(VAWARE_PLACE_WAKER);
		return this_cpu;
	}
	cpu = to.cpu >= 0 ? to.cpu : prev_cpu;
	count(to.cpu >= 0 ? VAWARE_BVS_QUEUED : VAWARE_PLACE_QUEUED);
	v = vcpu_ctx_of(cpu);
	if (!v || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return cpu; /* to ops.enqueue, where the kernel says */
	wake_on_busy(p, t, cpu, v, 0);
	return vcpu_preempted(cpu, now) ? rescue_activate_near(p, cpu, ~0ULL, now) : cpu;
}

/* Send @p, which leaves its vCPU, to the one that has been chosen for it. */
static bool leave(struct task_struct *p, struct task_ctx *t, u64 enq_flags)
{
	s32 cpu = (s32)t->leaves_for - 1;
	struct vcpu_ctx *v;

	if (cpu < 0)
		return false;
	t->leaves_for = 0;
	v = vcpu_ctx_of(cpu);
	if (!v || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || is_pinned(p))
		return false;
	wait_on(p, cpu, SLICE_ALONE_NS, begin_wait(p, t, cpu, v, now_ns()),
		enq_flags & ~SCX_ENQ_LAST);
	kick(cpu, v->run.class == VAWARE_CLASS_BEST_EFFORT ? SCX_KICK_PREEMPT : SCX_KICK_IDLE);
	return true;
}

/* Send @p, whose slice ended on @cpu while others wait there, to an idle vCPU if there is one. */
static bool expired_to_idle(struct task_struct *p, struct task_ctx *t, s32 cpu, u64 enq_flags)
{
	struct choice to = { .cpu = -1 };
	struct vcpu_ctx *v;
	u32 waiting;
	u64 now;

	if (!any_idle())
		return false;
	waiting = scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, is_best_effort(p)));
	if (!place_leave_on_expiry(waiting, is_pinned(p)))
		return false;
	now = now_ns();
	to.burst_ns = place_burst_ns(t->burst_avg_ns, t->burst_ns);
	find_vcpu(p, task_class(p, t), cpu, now, &to);
	v = to.idle ? vcpu_ctx_of(to.cpu) : NULL;
	if (!v)
		return false;
	wait_on(p, to.cpu, SLICE_ALONE_NS, begin_wait(p, t, to.cpu, v, now), enq_flags);
	wakeup_begin(to.cpu, v, now);
	kick(to.cpu, SCX_KICK_IDLE);
	count(VAWARE_EXPIRED_TO_IDLE);
	return true;
}

/*
 * What ops.select_cpu has not queued: tasks whose slice ended, those that leave their vCPU, pinned
 * ones that wake, and those whose affinity, weight or policy has changed.
 */
void BPF_STRUCT_OPS(vaware_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	struct task_ctx *t = task_ctx_of(p);

	if (!v || !t) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags);
	} else if (!(enq_flags & SCX_ENQ_WAKEUP)) {
		if (leave(p, t, enq_flags))
			return;
		if (enq_flags & SCX_ENQ_LAST) /* nobody else would take it */
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_ALONE_NS, enq_flags);
		else if (!expired_to_idle(p, t, cpu, enq_flags))
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
