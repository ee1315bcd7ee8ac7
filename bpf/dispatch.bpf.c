/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a vCPU runs next. In this order: a task that nears the wait bound; one that waits for a vCPU
 * which does not wake; normal work of its own; normal work of others, if it would be idle or
 * best-effort otherwise; best-effort work likewise. It moves one task to its local queue, when it
 * is about to run it.
 */
#include "account.bpf.h"
#include "balance.bpf.h"
#include "bvs.bpf.h"
#include "capacity.bpf.h"
#include "ivh.bpf.h"
#include "leave.bpf.h"
#include "overdue.bpf.h"
#include "rescue.bpf.h"
#include "reserve.bpf.h"
#include "rwc.bpf.h"

/* Global functions, which the verifier checks once and not at each call. */
int dispatch_may_steal(s32 cpu, s32 victim, u32 best_effort, u64 now);
int dispatch_steal(s32 cpu, u32 best_effort, u64 now);
int dispatch_replace(struct task_struct *prev __arg_trusted, s32 cpu, u64 now);
int dispatch_leaves(struct task_struct *prev __arg_trusted, s32 cpu, u64 now);

/*
 * Return true if @cpu may take work that waits for @victim. A vCPU that is banned leaves the work
 * alone that others can do. Normal work is left to @victim where that is better for it: what is
 * confined, a timer wakee whose timers are on time there, or what it is being woken for, if that is
 * expected to cost less than the stops of @cpu.
 */
__noinline int dispatch_may_steal(s32 cpu, s32 victim, u32 best_effort, u64 now)
{
	u32 flags = rwc_flags(cpu);
	const struct vcpu_ctx *v;
	struct task_struct *head;

	if (flags && !rwc_takes(flags, rwc_flags(victim),
				best_effort ? VAWARE_CLASS_BEST_EFFORT : VAWARE_CLASS_THROUGHPUT))
		return false;
	if (best_effort)
		return true;
	if (shootdown_confines()) {
		head = __COMPAT_scx_bpf_dsq_peek(vcpu_dsq(victim, false));
		if (head && shootdown_keeps(head, cpu, victim))
			return false;
	}
	v = vcpu_ctx_of(victim);
	return !bvs_keeps_timer_wakee(victim, cpu, now) &&
	       !(v && rescue_leaves_to(victim, v, cpu, now));
}

/*
 * Take what waits for @victim, if @cpu may. What waits for one that is being woken may be on its
 * way to the queue: the hint stays.
 */
static bool steal_from(s32 victim, s32 cpu, u32 best_effort, u64 now)
{
	const struct vcpu_ctx *v;

	if (!dispatch_may_steal(cpu, victim, best_effort, now))
		return false;
	if (scx_bpf_dsq_move_to_local(vcpu_dsq(victim, best_effort), 0)) {
		count(VAWARE_DISPATCH_STEAL);
		return true;
	}
	v = vcpu_ctx_of(victim);
	if (v && !v->wakeup.claimed_ns)
		waiting_correct(victim, best_effort);
	return false;
}

/*
 * Take from the queues of other vCPUs where work waits: nearest first, then at most STEAL_ATTEMPTS
 * of the others; where even that was in vain, the next search begins with the rest.
 */
__noinline int dispatch_steal(s32 cpu, u32 best_effort, u64 now)
{
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	const struct vaware_hints *in;
	u32 start, i;
	s32 offset;

	if (!v)
		return false;
	start = cpu + 1 + v->steal_cursor[best_effort & 1];
	offset = waiting_next(start, 0, nr_vcpus, best_effort);
	if (offset < 0)
		return false;
	in = hints_of(cpu);
	bpf_for (i, 0, VAWARE_CANDIDATES) {
		s32 other = in ? candidate_vcpu(in, cpu, i) : -1;

		if (other < 0)
			break;
		if (waiting_at(other, best_effort) && steal_from(other, cpu, best_effort, now))
			return true;
	}
	bpf_for (i, 0, STEAL_ATTEMPTS) {
		s32 victim = (start + offset) % nr_vcpus;

		if (victim != cpu && steal_from(victim, cpu, best_effort, now))
			return true;
		offset = waiting_next(start, offset + 1, nr_vcpus, best_effort);
		if (offset < 0)
			break;
	}
	v->steal_cursor[best_effort & 1] =
		offset < 0 ? 0 : (v->steal_cursor[best_effort & 1] + offset) % nr_vcpus;
	return false;
}

/* The same if work waits at all. In line: Linux 6.12 allows a chain of 8 functions. */
static __always_inline bool steal(s32 cpu, u32 best_effort, u64 now)
{
	return !waiting_nowhere(best_effort) && dispatch_steal(cpu, best_effort, now);
}

static bool take_own(s32 cpu, struct vcpu_ctx *v, u32 best_effort)
{
	bool taken = scx_bpf_dsq_move_to_local(vcpu_dsq(cpu, best_effort), 0);

	waiting_correct(cpu, best_effort);
	if (!taken)
		return false;
	v->in_turn = !best_effort;
	count(VAWARE_DISPATCH_OWN);
	return true;
}

/*
 * The slice of @prev has ended and it still wants to run. Return true if another task was taken
 * instead.
 */
__noinline int dispatch_replace(struct task_struct *prev __arg_trusted, s32 cpu, u64 now)
{
	struct task_ctx *t = task_ctx_of(prev);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	bool best_effort = is_best_effort(prev), yielded;
	struct task_struct *head;
	struct running r;

	if (!v || !t)
		return false;
	yielded = v->yielded;
	v->yielded = 0;
	if (best_effort && (take_own(cpu, v, false) || steal(cpu, false, now)))
		return true;
	if (yielded)
		return take_own(cpu, v, best_effort);
	charge(prev, t, cpu, v, now);
	head = __COMPAT_scx_bpf_dsq_peek(vcpu_dsq(cpu, best_effort));
	if (!head)
		return false;
	r = running_on(v, v->run.charged_ns);
	return !queue_keeps(&r, head->scx.dsq_vtime) && take_own(cpu, v, best_effort);
}

/* Return the vCPU that @prev has to leave @cpu for, though it may wait there; -1: none. */
static s32 leave_forced(struct task_struct *prev, s32 cpu, const struct vcpu_ctx *v, u64 now)
{
	bool misused = reserve_is_misused(cpu, v);
	s32 other;

	if (!misused && !shootdown_strays(prev, cpu, v->run.class))
		return -1;
	other = leave_for(prev, cpu, v->run.class, now);
	if (other >= 0)
		count(misused ? VAWARE_RESERVE_LEFT : VAWARE_SHOOTDOWN_LEFT);
	return other;
}

/* Return true if @prev leaves @cpu now. ops.enqueue sends it where it goes. */
__noinline int dispatch_leaves(struct task_struct *prev __arg_trusted, s32 cpu, u64 now)
{
	struct task_ctx *t = task_ctx_of(prev);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu), *o;
	s32 other;

	if (!v || !t)
		return false;
	other = ivh_leave_for(prev, cpu, v, now);
	if (other >= 0)
		t->migrated = 1;
	else
		other = leave_forced(prev, cpu, v, now);
	if (other < 0) {
		other = capacity_better_for(prev, cpu, v->run.class);
		o = other >= 0 ? vcpu_ctx_of(other) : NULL;
		if (!o)
			return false;
		wakeup_begin(other, o, now);
	}
	charge(prev, t, cpu, v, now);
	t->leaves_for = other + 1;
	return true;
}

void BPF_STRUCT_OPS(vaware_dispatch, s32 cpu, struct task_struct *prev)
{
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	u64 now = now_ns();
	bool expects, here;

	if (!v)
		return;
	wakeup_end(v, now);
	expects = ivh_answer_source(v, now);
	/*
	 * For a sibling, where the kernel schedules by cores: to move a task into its local queue
	 * by ourselves would take the lock of a core that is held.
	 */
	here = cpu == bpf_get_smp_processor_id();
	if ((here && overdue_dispatch(cpu, v, now)) || rescue_take_over(v) ||
	    (here && balance_pull(cpu, v, now)))
		return;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) && !limit_holds(prev)) {
		if (dispatch_leaves(prev, cpu, now)) {
			if (!take_own(cpu, v, false) && !take_own(cpu, v, true))
				activity_idle(cpu, now);
			return;
		}
		if (dispatch_replace(prev, cpu, now))
			return;
		advance_vclock(v, v->run.vtime);
		scx_bpf_task_set_slice(prev, queue_slice_ns(waiting_at(cpu, false)));
		count(VAWARE_DISPATCH_KEEP);
		return;
	}
	if (take_own(cpu, v, false) || steal(cpu, false, now) || take_own(cpu, v, true) ||
	    steal(cpu, true, now) || limit_take())
		return;
	if (expects) /* stay awake for the task, without waiting here */
		kick(cpu, SCX_KICK_IDLE);
	activity_idle(cpu, now);
}
