/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a vCPU runs next. In this order: a task that nears the wait bound; one that waits for a vCPU
 * which does not wake; normal work of its own; normal work of others, if it would be idle or
 * best-effort otherwise; best-effort work likewise. It moves one task to its local queue, when it
 * is about to run it.
 */
#include "harvest.bpf.h"

/* Return how long @p has been waiting, by the stamp that the kernel's watchdog goes by. */
static u64 waited_ns(const struct task_struct *p)
{
	u64 now = bpf_jiffies64(), since = p->scx.runnable_at;

	return time_delta(now, since) * tick_ns;
}

/*
 * Take the first overdue task that waits for @victim and may run on @cpu, from the tail of the
 * queue. Return true if there was one.
 */
static bool take_overdue(s32 victim, bool best_effort, s32 cpu)
{
	struct task_struct *p;
	u32 looked_at = 0;

	bpf_for_each (scx_dsq, p, vcpu_dsq(victim, best_effort), SCX_DSQ_ITER_REV) {
		if (looked_at++ >= OVERDUE_SCAN)
			break;
		if (!queue_overdue(waited_ns(p), wait_bound_ns))
			continue;
		if (victim != cpu && (is_pinned(p) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr)))
			continue;
		if (scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0))
			return true;
	}
	return false;
}

/* Return the vCPU after @cursor, for those that look at one other at a time, in turns. */
static u32 next_vcpu(u32 cursor)
{
	return cursor + 1 < nr_vcpus ? cursor + 1 : 0;
}

/*
 * Run a task that nears the wait bound, whatever its deadline. Return true if one did. After its
 * own queues @cpu looks into those of one other: that may be offline, or stopped, and nobody idle.
 */
static bool dispatch_overdue(s32 cpu, struct vcpu_ctx *v, u64 now)
{
	u32 other;
	bool found;

	if (time_before(now, v->overdue_next_ns))
		return false;
	other = next_vcpu(v->overdue_cursor);
	v->overdue_cursor = other;
	found = take_overdue(cpu, true, cpu) || take_overdue(cpu, false, cpu) ||
		take_overdue(other, true, cpu) || take_overdue(other, false, cpu);
	v->overdue_next_ns = now + queue_overdue_again_ns(found, wait_bound_ns);
	if (found)
		count(VAWARE_DISPATCH_OVERDUE);
	return found;
}

/* Take what waits for a vCPU that has not woken in time, if this one was woken for that. */
static bool take_over(struct vcpu_ctx *v)
{
	u32 stuck = v->rescue_from;

	if (!stuck)
		return false;
	v->rescue_from = 0;
	if (!scx_bpf_dsq_move_to_local(vcpu_dsq(stuck - 1, false), 0)) {
		count(VAWARE_RESCUE_WON_FIRST);
		return false;
	}
	count(VAWARE_RESCUE_WON_HEDGE);
	return true;
}

/*
 * Return true if @cpu had better leave the normal work that waits for @victim to it: a sleeper
 * whose timers are on time there, or whatever it is being woken for, if that is expected to cost
 * less than the stops of @cpu.
 */
static bool leaves_to(s32 victim, s32 cpu, u64 now)
{
	const struct vcpu_ctx *v = vcpu_ctx_of(victim);

	if (keeps_sleeper(victim, cpu, now))
		return true;
	return v && v->claimed_ns && policy_on(VAWARE_POLICY_RESCUE) &&
	       scx_bpf_dsq_nr_queued(vcpu_dsq(victim, false)) &&
	       !rescue_worth_a_move(vcpu_wake_rest_ns(victim, now), vcpu_stops_ns(cpu, now));
}

/*
 * Take from the queues of other vCPUs, nearest first, at most STEAL_ATTEMPTS of them. A vCPU that
 * is banned leaves the work alone that others can do.
 */
static bool steal(s32 cpu, struct vcpu_ctx *v, bool best_effort, u64 now)
{
	u32 class = best_effort ? VAWARE_CLASS_BEST_EFFORT : VAWARE_CLASS_THROUGHPUT;
	u32 flags = vcpu_flags(cpu);
	u32 others = nr_vcpus - 1;
	u32 tries = others < STEAL_ATTEMPTS ? others : STEAL_ATTEMPTS;
	u32 at = others > STEAL_ATTEMPTS ? v->steal_cursor : 0;
	u32 i;

	bpf_for (i, 0, tries) {
		u32 victim = (cpu + 1 + (at + i) % others) % nr_vcpus;

		if (flags && !rwc_takes(flags, vcpu_flags(victim), class))
			continue;
		if (!best_effort && leaves_to(victim, cpu, now))
			continue;
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

	if (time_before(now, v->balance_next_ns) || !policy_on(VAWARE_POLICY_BALANCE) ||
	    rwc_banned(vcpu_flags(cpu), VAWARE_CLASS_THROUGHPUT))
		return false;
	v->balance_next_ns = now + BALANCE_INTERVAL_NS;
	victim = next_vcpu(v->balance_cursor);
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

static bool take_own(s32 cpu, struct vcpu_ctx *v, bool best_effort)
{
	if (!scx_bpf_dsq_move_to_local(vcpu_dsq(cpu, best_effort), 0))
		return false;
	v->in_turn = !best_effort;
	count(VAWARE_DISPATCH_OWN);
	return true;
}

/*
 * The slice of @prev has ended and it still wants to run. Return true if another task was taken
 * instead.
 */
static bool replace(s32 cpu, struct vcpu_ctx *v, struct task_struct *prev, u64 now)
{
	bool best_effort = is_best_effort(prev), yielded = v->yielded;
	struct task_struct *head;
	struct task_ctx *t;
	struct running r;

	v->yielded = 0;
	if (best_effort && (take_own(cpu, v, false) || steal(cpu, v, false, now)))
		return true;
	if (yielded)
		return take_own(cpu, v, best_effort);
	t = task_ctx_of(prev);
	if (!t)
		return false;
	charge(prev, t, cpu, v, now);
	head = __COMPAT_scx_bpf_dsq_peek(vcpu_dsq(cpu, best_effort));
	if (!head)
		return false;
	r = running_on(v, v->beat_ns);
	return !queue_keeps(&r, head->scx.dsq_vtime) && take_own(cpu, v, best_effort);
}

/* Return an idle vCPU, claimed, where @prev had better run than here on @cpu; or -1. */
static s32 better_for(struct task_struct *prev, s32 cpu, struct vcpu_ctx *v, u64 now)
{
	const struct vaware_vcpu_inputs *in = inputs_of(cpu);
	bool is_banned = rwc_banned(vcpu_flags(cpu), v->run_class);
	const struct cpumask *idle;
	u32 i, best_1024, fit_1024;
	s32 best = -1;

	if (!in || !in->flags || is_pinned(prev))
		return -1;
	if (!is_banned &&
	    (!policy_on(VAWARE_POLICY_CAPACITY) || v->run_class != VAWARE_CLASS_THROUGHPUT))
		return -1;
	idle = scx_bpf_get_idle_cpumask();
	best_1024 = is_banned ? 0 : fit_of(cpu, idle);
	bpf_for (i, 0, VAWARE_NEAR_VCPUS) {
		s32 other = near_vcpu(in, cpu, i);
		struct vcpu_ctx *o = other >= 0 ? vcpu_ctx_of(other) : NULL;

		if (!o)
			break;
		if (!bpf_cpumask_test_cpu(other, idle) || !may_use(prev, v->run_class, other))
			continue;
		fit_1024 = fit_of(other, idle);
		if (best < 0 ? place_gains(best_1024, fit_1024) : fit_1024 > best_1024) {
			best_1024 = fit_1024;
			best = other;
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	if (best < 0 || !scx_bpf_test_and_clear_cpu_idle(best))
		return -1;
	count(is_banned ? VAWARE_RWC_LEFT : VAWARE_CAPACITY_MOVED);
	return best;
}

/* Return true if @prev leaves @cpu now. ops.enqueue sends it where it goes. */
static bool leaves(struct task_struct *prev, s32 cpu, struct vcpu_ctx *v, u64 now)
{
	struct task_ctx *t = task_ctx_of(prev);
	struct vcpu_ctx *o;
	s32 other;

	if (!t)
		return false;
	other = harvest_leave(prev, cpu, v, now);
	if (other >= 0) {
		t->guest = 1;
	} else {
		other = better_for(prev, cpu, v, now);
		o = other >= 0 ? vcpu_ctx_of(other) : NULL;
		if (!o)
			return false;
		begin_wake(other, o, now);
	}
	charge(prev, t, cpu, v, now);
	t->leaves_for = other + 1;
	return true;
}

void BPF_STRUCT_OPS(vaware_dispatch, s32 cpu, struct task_struct *prev)
{
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	u64 now = now_ns();
	bool expects;

	if (!v)
		return;
	end_wake(v, now);
	expects = harvest_answer(v, now);
	if (dispatch_overdue(cpu, v, now) || take_over(v) || pull(cpu, v, now))
		return;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		if (leaves(prev, cpu, v, now)) {
			if (!take_own(cpu, v, false))
				take_own(cpu, v, true);
			return;
		}
		if (replace(cpu, v, prev, now))
			return;
		advance_vclock(v, v->run_vtime);
		scx_bpf_task_set_slice(prev,
				       queue_slice_ns(scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, false))));
		count(VAWARE_DISPATCH_KEEP);
		return;
	}
	if (take_own(cpu, v, false) || steal(cpu, v, false, now) || take_own(cpu, v, true) ||
	    steal(cpu, v, true, now))
		return;
	if (expects) /* stay awake for the task, without waiting here */
		kick(cpu, SCX_KICK_IDLE);
}
