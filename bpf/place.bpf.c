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

/* What decides where a task goes, and where that is. */
struct choice {
	u64 now;
	u64 burst_ns;	  /* what the task is expected to run */
	u32 class;	  /* enum vaware_class */
	s32 prev_cpu;	  /* where it ran last */
	bool timer_wakee; /* it sleeps until set times, and is woken where it does */
	bool leaves;	  /* a real-time task has taken that vCPU */

	bool idle;    /* the vCPU was idle, and has been claimed */
	s32 cpu;      /* -1: nowhere better than where it was */
	u64 delay_ns; /* expected, by bvs; 0: not known */
};

/* Return true if some vCPU is idle: a cheap look before a search that would find none. */
static bool any_idle(void)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool any = !bpf_cpumask_empty(idle);

	scx_bpf_put_idle_cpumask(idle);
	return any;
}

/* Claim @cpu for @p, if it is idle. */
static bool claim(const struct task_struct *p, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && scx_bpf_test_and_clear_cpu_idle(cpu);
}

/* Return true if nothing is known by which one idle vCPU would be better than another. */
static bool are_alike(u64 now)
{
	return !time_before(now, uneven_until_ns) && !best_effort_vcpus && !some_flagged();
}

/*
 * Return true if a task of @class that ran on @cpu last, which is not idle or not like the others,
 * has to look at what the vCPUs are.
 */
static bool has_to_look(s32 cpu, u32 class, u64 now)
{
	const struct vaware_hints *in;

	if (bvs_looks(cpu, class, now) || rescue_looks(class))
		return true;
	if (!some_flagged() || (!rwc_on() && !capacity_on()))
		return false;
	in = hints_of(cpu);
	return in && in->flags;
}

/*
 * Return what it costs @p to run on @cpu, in ns, and leave its delay in @to; ~0 where it may not. A
 * global function: the verifier checks it once, not in each pass of the loop.
 */
u64 place_weigh(struct task_struct *p __arg_trusted, s32 cpu, struct choice *to);

__noinline u64 place_weigh(struct task_struct *p __arg_trusted, s32 cpu, struct choice *to)
{
	u64 cost_ns;

	if (!to || !rwc_may_use(p, to->class, cpu) || (to->leaves && cpu == to->prev_cpu))
		return ~0ULL;
	to->delay_ns = vcpu_cost_ns(cpu, to->class, to->burst_ns, to->now);
	cost_ns = to->delay_ns;
	if (to->timer_wakee)
		cost_ns += bvs_sleep_ns(bvs_timer_late_ns(cpu, to->now));
	return cpu == to->prev_cpu ? cost_ns : place_away_ns(to->class, cost_ns);
}

/* Return some idle vCPU where @p may run, another one each time, without a claim; -1: none. */
static s32 idle_elsewhere(const struct task_struct *p)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	u32 cpu = bpf_cpumask_any_and_distribute(idle, p->cpus_ptr);

	scx_bpf_put_idle_cpumask(idle);
	return cpu < nr_vcpus ? (s32)cpu : -1;
}

/*
 * Choose a vCPU for @p: the cheapest among the one it ran on last, those near it, and in a large VM
 * an idle one anywhere; or the first that is good enough.
 */
static void choose(struct task_struct *p, struct choice *to)
{
	const struct vaware_hints *in = hints_of(to->prev_cpu);
	u64 least_ns = ~0ULL, delay_ns = 0;
	u32 i;

	bpf_for (i, 0, VAWARE_CANDIDATES + 1) {
		s32 cpu = i ? candidate_vcpu(in, to->prev_cpu, i - 1) : to->prev_cpu;
		u64 cost_ns;

		if (cpu < 0)
			break;
		cost_ns = place_weigh(p, cpu, to);
		if (cost_ns >= least_ns)
			continue;
		least_ns = cost_ns;
		to->cpu = cpu;
		delay_ns = to->delay_ns;
		if (bvs_good(cost_ns))
			break;
	}
	if (nr_vcpus > VAWARE_CANDIDATES + 1 && !bvs_good(least_ns)) {
		s32 cpu = idle_elsewhere(p);
		u64 cost_ns = cpu >= 0 ? place_weigh(p, cpu, to) : ~0ULL;

		if (cost_ns < least_ns) {
			to->cpu = cpu;
			delay_ns = to->delay_ns;
		}
	}
	to->delay_ns = delay_ns;
	to->idle = to->cpu >= 0 && scx_bpf_test_and_clear_cpu_idle(to->cpu);
}

/*
 * Find an idle vCPU for @p, or a busy one that is better than the one it ran on last. A vCPU that
 * is banned serves those that may run nowhere else.
 */
static void find_vcpu(struct task_struct *p, struct choice *to)
{
	if (are_alike(to->now) && claim(p, to->prev_cpu)) {
		to->cpu = to->prev_cpu;
		to->idle = true;
		return;
	}
	if (has_to_look(to->prev_cpu, to->class, to->now)) {
		choose(p, to);
		if (to->cpu >= 0) {
			if (to->cpu != to->prev_cpu &&
			    rwc_banned(rwc_flags(to->prev_cpu), to->class))
				count(VAWARE_RWC_AVOIDED);
			return;
		}
		count(VAWARE_RWC_FORCED);
	}
	/* The kernel's search is by words of a mask: bounded for any number of vCPUs. */
	to->cpu = claim(p, to->prev_cpu) ? to->prev_cpu : scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	to->idle = to->cpu >= 0;
}

/* Let @p, which has woken, wait on the busy vCPU @cpu, or take it from the task that runs there. */
static __always_inline void wake_on_busy(struct task_struct *p, struct task_ctx *t, s32 cpu,
					 struct vcpu_ctx *v, u64 now, u64 enq_flags)
{
	u64 deadline = begin_wait(p, t, cpu, v, now);

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
	struct choice to = { .now = now_ns(), .prev_cpu = prev_cpu, .cpu = -1 };
	s32 this_cpu = bpf_get_smp_processor_id();
	struct vcpu_ctx *here = vcpu_ctx_of(this_cpu), *v;
	struct task_ctx *t = task_ctx_of(p);
	u64 now = to.now;
	bool follow;
	s32 cpu;

	if (!here || !t)
		return prev_cpu; /* to ops.enqueue */
	to.burst_ns = place_burst_ns(t->burst_avg_ns, t->burst_ns);
	to.timer_wakee = bvs_timer_wakes(this_cpu, now);
	to.class = task_class(p, t);
	follow = sync_may_follow(p, to.class, this_cpu, wake_flags);
	if (!follow || !sync_waker_first(here, now))
		find_vcpu(p, &to);
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
	if (!v || !v->online || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return cpu; /* to ops.enqueue, where the kernel says */
	wake_on_busy(p, t, cpu, v, now, 0);
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

/* Send @p, which cannot run on @cpu at once, to an idle vCPU if there is one. */
static bool to_idle(struct task_struct *p, struct task_ctx *t, s32 cpu, u64 enq_flags)
{
	struct choice to = {
		.now = now_ns(), .prev_cpu = cpu, .leaves = enq_flags & SCX_ENQ_REENQ, .cpu = -1
	};
	struct vcpu_ctx *v;

	to.burst_ns = place_burst_ns(t->burst_avg_ns, t->burst_ns);
	to.class = task_class(p, t);
	find_vcpu(p, &to);
	v = to.idle ? vcpu_ctx_of(to.cpu) : NULL;
	if (!v)
		return false;
	wait_on(p, to.cpu, SLICE_ALONE_NS, begin_wait(p, t, to.cpu, v, to.now), enq_flags);
	wakeup_begin(to.cpu, v, to.now);
	kick(to.cpu, SCX_KICK_IDLE);
	return true;
}

/* Send @p, whose slice ended on @cpu while others wait there, to an idle vCPU if there is one. */
static bool expired_to_idle(struct task_struct *p, struct task_ctx *t, s32 cpu, u64 enq_flags)
{
	if (!any_idle() ||
	    !place_leave_on_expiry(scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, is_best_effort(p))),
				   is_pinned(p)) ||
	    !to_idle(p, t, cpu, enq_flags))
		return false;
	count(VAWARE_EXPIRED_TO_IDLE);
	return true;
}

/*
 * Send @p, for which the kernel did not ask ops.select_cpu as it was still on its vCPU @cpu when it
 * was woken, to an idle vCPU, if it would wait here.
 */
static bool unasked_to_idle(struct task_struct *p, struct task_ctx *t, s32 cpu,
			    const struct vcpu_ctx *v, u64 enq_flags)
{
	if (!bpf_core_enum_value_exists(enum scx_enq_flags, SCX_ENQ_CPU_SELECTED) ||
	    __COMPAT_is_enq_cpu_selected(enq_flags) || is_pinned(p) ||
	    (v->run.class == VAWARE_CLASS_NONE && !waiting_at(cpu, false)) || !any_idle() ||
	    !to_idle(p, t, cpu, enq_flags))
		return false;
	count(VAWARE_PLACE_OTHER_IDLE);
	return true;
}

/*
 * Send @p, whose vCPU @cpu is taken by a real-time task, to an idle vCPU if there is one. Else it
 * waits within reach of others.
 */
static void real_time_takes(struct task_struct *p, struct task_ctx *t, s32 cpu, struct vcpu_ctx *v,
			    u64 enq_flags)
{
	if (!is_pinned(p) && to_idle(p, t, cpu, enq_flags))
		count(VAWARE_REAL_TIME_LEFT);
	else
		wait_on(p, cpu, SLICE_NS, begin_wait(p, t, cpu, v, now_ns()), enq_flags);
}

/*
 * Let @p wake, a kernel thread of @cpu, which is the kernel's housekeeping: short, and not to wait.
 * One that has had more than its share queues like everybody.
 */
static void wake_kthread(struct task_struct *p, struct task_ctx *t, s32 cpu, struct vcpu_ctx *v,
			 u64 enq_flags)
{
	u64 now = now_ns(), deadline = begin_wait(p, t, cpu, v, now);
	struct running r = running_on(v, now);

	if (r.class != VAWARE_CLASS_NONE && !vtime_before(deadline, queue_running_deadline(&r))) {
		wake_on_busy(p, t, cpu, v, now, enq_flags);
		return;
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags | SCX_ENQ_PREEMPT);
	count(VAWARE_PINNED_LOCAL);
}

/*
 * What ops.select_cpu has not queued: tasks whose slice ended, those that leave their vCPU, pinned
 * ones that wake, those that a real-time task has taken the vCPU from, and those whose affinity,
 * weight or policy has changed.
 */
void BPF_STRUCT_OPS(vaware_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	struct task_ctx *t = task_ctx_of(p);

	if (!v || !t) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags);
	} else if (enq_flags & SCX_ENQ_REENQ) {
		real_time_takes(p, t, cpu, v, enq_flags);
	} else if (!(enq_flags & SCX_ENQ_WAKEUP)) {
		if (leave(p, t, enq_flags))
			return;
		if (enq_flags & SCX_ENQ_LAST) /* nobody else would take it */
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_ALONE_NS, enq_flags);
		else if (!expired_to_idle(p, t, cpu, enq_flags))
			wait_on(p, cpu, SLICE_NS, begin_wait(p, t, cpu, v, now_ns()), enq_flags);
	} else if (is_vcpu_kthread(p)) {
		wake_kthread(p, t, cpu, v, enq_flags);
	} else if (!unasked_to_idle(p, t, cpu, v, enq_flags)) {
		wake_on_busy(p, t, cpu, v, now_ns(), enq_flags);
	}
}
