/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a task goes that has become runnable: an idle vCPU, its waker's, or the queue of its own;
 * and whether it takes the vCPU from the task that runs there.
 */
#include "blocking.bpf.h"
#include "bvs.bpf.h"
#include "capacity.bpf.h"
#include "cost.bpf.h"
#include "limit.bpf.h"
#include "near.bpf.h"
#include "preempt.bpf.h"
#include "rescue.bpf.h"
#include "reserve.bpf.h"
#include "rwc.bpf.h"
#include "sync.bpf.h"

#include "policy/place.h"

/* Where a task goes. */
struct choice {
	s32 cpu;	/* -1: nowhere better than where it was */
	bool idle;	/* that vCPU was idle, and has been claimed */
	bool preempted; /* the previous vCPU, busy, is believed to be */
	u64 delay_ns;	/* expected there, if the vCPUs were compared; 0: they were not */
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
	return task_may_run(p, cpu) && scx_bpf_test_and_clear_cpu_idle(cpu);
}

/*
 * Return true if vCPUs have to be compared for a task of @class: they differ in when they run it,
 * or in what they give to it. Beside a busy sibling it gets less, which a short burst does not
 * feel.
 */
static bool told_apart(u32 class, u64 now)
{
	u32 flags = VAWARE_VCPUS_DIFFER;

	if (class == VAWARE_CLASS_LATENCY) {
		if (bvs_on() && time_before(now, uneven_until_ns))
			return true;
	} else if (reserve_exists()) {
		return true;
	} else {
		flags |= VAWARE_VCPU_SMT;
	}
	return some_flagged(flags) && (rwc_on() || capacity_on());
}

/* NEAR_WAKEE: what it costs @p to run on @cpu, in ns. */
__noinline u64 place_cost(struct task_struct *p __arg_trusted, s32 cpu, const struct near *n)
{
	u64 cost_ns;

	if (!n || !task_may_run(p, cpu) ||
	    rwc_banned(n->spills ? rwc_flags_of_all(p, cpu) : rwc_flags_for(p, cpu), n->class))
		return NEAR_NEVER;
	cost_ns = vcpu_cost_ns(cpu, n->class, n->burst_ns, n->now);
	if (n->timer_wakee && cost_ns != NEAR_NEVER)
		cost_ns += bvs_sleep_ns(bvs_timer_late_ns(cpu, n->now));
	return cpu == n->cpu ? cost_ns : place_away_ns(n->class, cost_ns);
}

/* NEAR_GIVES_WAY */
__noinline u64 place_gives_way(struct task_struct *p __arg_trusted, s32 cpu, const struct near *n)
{
	const struct vcpu_ctx *v = vcpu_ctx_of(cpu);

	return n && v && runs_best_effort(cpu, v, n->now) && task_may_run(p, cpu) ? 0 : NEAR_NEVER;
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
 * Choose a vCPU for @p by what it costs there: the one it ran on last unless it @leaves that,
 * candidates, and an idle one anywhere; or the first that is good enough. Those that wake often
 * look at few: each wake-up pays for all looks, also where vCPUs turn out to be alike.
 */
static __always_inline void choose(struct task_struct *p, struct near *n, bool leaves,
				   struct choice *to)
{
	u64 cost_ns;
	s32 cpu;

	n->use = NEAR_WAKEE;
	n->good_ns = WAKE_GOOD_NS;
	n->few = n->class == VAWARE_CLASS_LATENCY && !n->timer_wakee && !n->confined ? WAKE_LOOKS
										     : 0;
	near_search(p, leaves ? -1 : n->cpu, n);
	if ((n->few || nr_vcpus > VAWARE_CANDIDATES + 1) && n->cost_ns > n->good_ns) {
		cpu = idle_elsewhere(p);
		cost_ns = cpu >= 0 ? place_cost(p, cpu, n) : NEAR_NEVER;
		if (cost_ns < n->cost_ns)
			n->found = cpu;
	}
	to->cpu = n->found;
	if (to->cpu < 0)
		return;
	to->delay_ns = vcpu_cost_ns(to->cpu, n->class, n->burst_ns, n->now);
	to->idle = scx_bpf_test_and_clear_cpu_idle(to->cpu);
	if (to->cpu != n->cpu && rwc_banned(rwc_flags(n->cpu), n->class))
		count(VAWARE_RWC_AVOIDED);
	if (n->confined)
		count(VAWARE_SHOOTDOWN_KEPT);
}

/* Return an idle vCPU of the cache of @cpu, claimed for @p, where there are several; or -1. */
static s32 idle_of_cache(const struct task_struct *p, s32 cpu)
{
	const struct vaware_hints *in = some_flagged(VAWARE_VCPU_LLCS) ? hints_of(cpu) : NULL;
	u32 i;

	if (!in)
		return -1;
	bpf_for (i, 0, VAWARE_CANDIDATES) {
		s32 other = candidate_vcpu(in, cpu, i);

		if (i >= in->nr_near || other < 0)
			break;
		if (claim(p, other))
			return other;
	}
	return -1;
}

/*
 * Find an idle vCPU for @p, or one whose best-effort work gives way to it, where vCPUs are alike.
 * The kernel's search is by words of a mask: bounded for any number of vCPUs.
 */
static void find_free(struct task_struct *p, struct near *n, struct choice *to)
{
	if (any_idle()) {
		to->cpu = idle_of_cache(p, n->cpu);
		if (to->cpu < 0)
			to->cpu = task_pick_idle(p);
		to->idle = to->cpu >= 0;
		if (to->idle)
			return;
	}
	if (!best_effort_vcpus || n->class == VAWARE_CLASS_BEST_EFFORT)
		return;
	n->use = NEAR_GIVES_WAY;
	to->cpu = near_search(p, n->cpu, n);
}

/*
 * Find an open vCPU for @p: an idle one, else the one where it waits least. Return false if a
 * parked one would run it sooner.
 */
static bool find_open(struct task_struct *p, struct near *n, struct choice *to)
{
	n->use = NEAR_OPEN;
	to->cpu = near_search(p, n->cpu, n);
	if (to->cpu >= 0 && !gather_spills(n->cost_ns, wake_typical_ns)) {
		to->idle = scx_bpf_test_and_clear_cpu_idle(to->cpu);
		count(VAWARE_GATHER_KEPT);
		return true;
	}
	count(VAWARE_GATHER_SPILLED);
	to->cpu = -1;
	n->cost_ns = NEAR_NEVER;
	n->found = -1;
	return false;
}

/*
 * Find a vCPU for @p, which ran on @n->cpu last, or @leaves it. A vCPU that is banned serves those
 * that may run nowhere else.
 */
static void find_vcpu(struct task_struct *p, struct near *n, bool leaves, struct choice *to)
{
	s32 reserve = n->class == VAWARE_CLASS_LATENCY && !leaves ? reserve_cpu() : -1;
	bool compares;

	if (reserve >= 0 && claim(p, reserve)) {
		to->cpu = reserve;
		to->idle = true;
		count(VAWARE_RESERVE_TAKEN);
		return;
	}
	compares = n->confined || told_apart(n->class, n->now);
	if (!leaves && gather_applies(n->class, n->burst_ns) && find_open(p, n, to))
		return;
	n->spills = true;
	if (!compares && claim(p, n->cpu)) {
		to->cpu = n->cpu;
		to->idle = true;
		return;
	}
	to->preempted = vcpu_preempted(n->cpu, n->now);
	if (!compares)
		compares = to->preempted && n->class == VAWARE_CLASS_LATENCY && bvs_on();
	if (compares) {
		choose(p, n, leaves, to);
		if (to->cpu >= 0)
			return;
		count(VAWARE_RWC_FORCED);
	}
	find_free(p, n, to);
}

/* What to look for: a vCPU for @p, which ran on @cpu last. */
static __always_inline struct near wanted(struct task_struct *p, const struct task_ctx *t, s32 cpu,
					  u64 now)
{
	struct near n = {
		.now = now,
		.burst_ns = place_burst_ns(t->burst_avg_ns, t->burst_ns),
		.cost_ns = NEAR_NEVER,
		.class = reserve_class(t, task_class(p, t), now),
		.confined = shootdown_confined(p),
		.cpu = cpu,
		.found = -1,
	};

	return n;
}

/* Let @p, which has woken, wait on the busy vCPU @cpu, or take it from the task that runs there. */
static __always_inline void wake_on_busy(struct task_struct *p, struct task_ctx *t, s32 cpu,
					 struct vcpu_ctx *v, u64 now, u64 enq_flags)
{
	u64 deadline = begin_wait(p, t, cpu, v, now);

	if (!preempt_wakee(p, t, v, deadline, now)) {
		wait_on(p, cpu, SLICE_NS, deadline, enq_flags);
		return;
	}
	t->vtime += vtime_of_run(queue_preemption_ns(time_delta(now, v->run.started_ns)),
				 task_weight(p, t));
	if (cpu == bpf_get_smp_processor_id()) {
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
	bool in_reach = rescue_wakee(v, now);
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
	at = rescue_activate_near(p, cpu, wakeup_expected_ns(v, now), now);
	if (at != cpu)
		kick(cpu, SCX_KICK_IDLE);
	return at;
}

/* A task that may run on several vCPUs wakes: place it, and queue it there at once. */
s32 BPF_STRUCT_OPS(vaware_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id(), cpu;
	struct vcpu_ctx *here = vcpu_ctx_of(this_cpu), *v;
	struct task_ctx *t = task_ctx_of(p);
	struct choice to = { .cpu = -1 };
	u64 now = now_unlocked_ns();
	struct near n;
	bool follow;

	if (!here || !t || !here->online || limit_holds(p))
		return prev_cpu; /* to ops.enqueue */
	n = wanted(p, t, prev_cpu, now);
	n.timer_wakee = bvs_timer_wakes(p, n.class, this_cpu, now);
	/* A pair that follows each other for ever never looks for those who are overdue. */
	follow = sync_may_follow(p, n.class, this_cpu, wake_flags) &&
		 !(waiting_at(this_cpu, true) && !time_before(now, here->overdue_next_ns));
	if (!follow || !sync_waker_first(here, now))
		find_vcpu(p, &n, false, &to);
	t->bvs.predicted_ns = to.delay_ns;
	if (to.idle) {
		v = vcpu_ctx_of(to.cpu);
		if (!v || !v->online) /* it idles for the last time: to ops.enqueue */
			return to.cpu;
		if (blocking_measured())
			blocking_wake(t, to.cpu, true);
		cpu = wake_on_idle(p, t, to.cpu, v, now);
		count(to.cpu == prev_cpu ? VAWARE_PLACE_PREV_IDLE : VAWARE_PLACE_OTHER_IDLE);
		if (to.delay_ns)
			count(VAWARE_BVS_PICKED);
		if (n.timer_wakee && to.delay_ns && to.cpu != this_cpu) {
			bvs_send_timer_wakee(this_cpu, to.cpu, v, to.delay_ns, now);
			count(VAWARE_BVS_SLEEPER);
		}
		return cpu;
	}
	if (blocking_measured())
		blocking_wake(t, this_cpu, false);
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
	count(to.delay_ns ? VAWARE_BVS_QUEUED : VAWARE_PLACE_QUEUED);
	v = vcpu_ctx_of(cpu);
	if (!v || !v->online || !task_may_run(p, cpu))
		return cpu; /* to ops.enqueue, where the kernel says */
	wake_on_busy(p, t, cpu, v, now, 0);
	if (cpu == prev_cpu ? to.preempted : vcpu_preempted(cpu, now))
		return rescue_activate_near(p, cpu, ~0ULL, now);
	return cpu;
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
	if (!v || !v->online || !task_may_run(p, cpu) || is_pinned(p))
		return false;
	wait_on(p, cpu, SLICE_ALONE_NS, begin_wait(p, t, cpu, v, now_unlocked_ns()),
		enq_flags & ~SCX_ENQ_LAST);
	kick(cpu, v->run.class == VAWARE_CLASS_BEST_EFFORT ? SCX_KICK_PREEMPT : SCX_KICK_IDLE);
	return true;
}

/*
 * Return true if @p would be the next to run on @cpu: nothing runs or waits there, and no other is
 * on its way, behind which @p waits if it may run elsewhere.
 */
static inline bool comes_next(const struct task_struct *p, s32 cpu, const struct vcpu_ctx *v)
{
	return v->run.class == VAWARE_CLASS_NONE && !waiting_at(cpu, false) &&
	       (!v->wakeup.claimed_ns || is_pinned(p));
}

/*
 * Let @p wake on @cpu, this one, which is about to find its next task, if that is @p. Return false
 * if that is not so. Here come tasks that are woken as they go to sleep, and pinned ones. Two in
 * the local queue would be out of reach of idle vCPUs.
 */
static bool wake_here(struct task_struct *p, struct task_ctx *t, s32 cpu, struct vcpu_ctx *v,
		      u64 enq_flags)
{
	if (!comes_next(p, cpu, v) || is_best_effort(p) || (u32)cpu != bpf_get_smp_processor_id() ||
	    scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL))
		return false;
	scx_bpf_test_and_clear_cpu_idle(cpu);
	begin_wait(p, t, cpu, v, now_unlocked_ns());
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_ALONE_NS, enq_flags);
	count(VAWARE_PLACE_PREV_IDLE);
	return true;
}

/* Send @p, which cannot run on @cpu at once, to an idle vCPU if there is one. */
static bool to_idle(struct task_struct *p, struct task_ctx *t, s32 cpu, u64 enq_flags)
{
	struct near n = wanted(p, t, cpu, now_unlocked_ns());
	struct choice to = { .cpu = -1 };
	struct vcpu_ctx *v;

	find_vcpu(p, &n, enq_flags & SCX_ENQ_REENQ, &to);
	v = to.idle ? vcpu_ctx_of(to.cpu) : NULL;
	if (!v || !v->online)
		return false;
	wait_on(p, to.cpu, SLICE_ALONE_NS, begin_wait(p, t, to.cpu, v, n.now), enq_flags);
	wakeup_begin(to.cpu, v, n.now);
	kick(to.cpu, SCX_KICK_IDLE);
	return true;
}

/*
 * Send @p, whose slice ended on @cpu while others wait there, to an idle vCPU if there is one. The
 * one that runs next waits no more, but in its turn it has the vCPU: it may be pinned, and stay.
 */
static bool expired_to_idle(struct task_struct *p, struct task_ctx *t, s32 cpu,
			    const struct vcpu_ctx *v, u64 enq_flags)
{
	u32 others = scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, is_best_effort(p))) + v->in_turn;

	if (!place_leave_on_expiry(others, is_pinned(p)) || !any_idle() ||
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
	    __COMPAT_is_enq_cpu_selected(enq_flags) || is_pinned(p) || comes_next(p, cpu, v) ||
	    !any_idle() || !to_idle(p, t, cpu, enq_flags))
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
		wait_on(p, cpu, SLICE_NS, begin_wait(p, t, cpu, v, now_unlocked_ns()), enq_flags);
}

/*
 * Let @p wake, a kernel thread of @cpu, which is the kernel's housekeeping: short, and not to wait.
 * One that has had more than its share queues like everybody.
 */
static void wake_kthread(struct task_struct *p, struct task_ctx *t, s32 cpu, struct vcpu_ctx *v,
			 u64 enq_flags)
{
	u64 now = now_unlocked_ns(), deadline = begin_wait(p, t, cpu, v, now);
	struct running r = running_on(v, now);

	if (r.class != VAWARE_CLASS_NONE && !vtime_before(deadline, queue_running_deadline(&r))) {
		wake_on_busy(p, t, cpu, v, now, enq_flags);
		return;
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags | SCX_ENQ_PREEMPT);
	count(VAWARE_PINNED_LOCAL);
}

/*
 * Return true if this vCPU is going offline. In the end it wakes the one that waits for that, when
 * its interrupts are off for good. A kick is an interrupt of a vCPU to itself at first (irq_work).
 * It would be lost, and all later ones of this vCPU after it: the kernel takes it for pending. By
 * one of these the kernel ends a scheduler, and until then nobody runs.
 */
static bool is_going(void)
{
	const struct vcpu_ctx *here = vcpu_ctx_of(bpf_get_smp_processor_id());

	return here && !here->online;
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

	if (!v || !t || is_going() ||
	    (!v->online && is_pinned(p))) { /* nobody looks into that one's queues */
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags);
	} else if (limit_hold(p, t, enq_flags)) {
		return;
	} else if (enq_flags & SCX_ENQ_REENQ) {
		real_time_takes(p, t, cpu, v, enq_flags);
	} else if (!(enq_flags & SCX_ENQ_WAKEUP)) {
		if (leave(p, t, enq_flags))
			return;
		if (enq_flags & SCX_ENQ_LAST) /* nobody else would take it */
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_ALONE_NS, enq_flags);
		else if (!expired_to_idle(p, t, cpu, v, enq_flags))
			wait_on(p, cpu, SLICE_NS, begin_wait(p, t, cpu, v, now_unlocked_ns()),
				enq_flags);
	} else if (is_vcpu_kthread(p)) {
		wake_kthread(p, t, cpu, v, enq_flags);
	} else if (!wake_here(p, t, cpu, v, enq_flags) &&
		   !unasked_to_idle(p, t, cpu, v, enq_flags)) {
		wake_on_busy(p, t, cpu, v, now_unlocked_ns(), enq_flags);
	}
}
