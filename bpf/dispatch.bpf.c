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
#include "overdue.bpf.h"
#include "rescue.bpf.h"
#include "rwc.bpf.h"

/*
 * Return true if @cpu had better leave the normal work that waits for @victim to it: a timer wakee
 * whose timers are on time there, or whatever it is being woken for, if that is expected to cost
 * less than the stops of @cpu.
 */
static bool leaves_to(s32 victim, s32 cpu, u64 now)
{
	const struct vcpu_ctx *v = vcpu_ctx_of(victim);

	if (bvs_keeps_timer_wakee(victim, cpu, now))
		return true;
	return v && rescue_leaves_to(victim, v, cpu, now);
}

/*
 * Take from the queues of other vCPUs, nearest first, at most STEAL_ATTEMPTS of them. A vCPU that
 * is banned leaves the work alone that others can do.
 */
static bool steal(s32 cpu, struct vcpu_ctx *v, bool best_effort, u64 now)
{
	u32 class = best_effort ? VAWARE_CLASS_BEST_EFFORT : VAWARE_CLASS_THROUGHPUT;
	u32 flags = rwc_flags(cpu);
	u32 others = nr_vcpus - 1;
	u32 tries = others < STEAL_ATTEMPTS ? others : STEAL_ATTEMPTS;
	u32 at = others > STEAL_ATTEMPTS ? v->steal_cursor : 0;
	u32 i;

	bpf_for (i, 0, tries) {
		u32 victim = (cpu + 1 + (at + i) % others) % nr_vcpus;

		if (flags && !rwc_takes(flags, rwc_flags(victim), class))
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
	r = running_on(v, v->run.charged_ns);
	return !queue_keeps(&r, head->scx.dsq_vtime) && take_own(cpu, v, best_effort);
}

/* Return true if @prev leaves @cpu now. ops.enqueue sends it where it goes. */
static bool leaves(struct task_struct *prev, s32 cpu, struct vcpu_ctx *v, u64 now)
{
	struct task_ctx *t = task_ctx_of(prev);
	struct vcpu_ctx *o;
	s32 other;

	if (!t)
		return false;
	other = ivh_leave_for(prev, cpu, v, now);
	if (other >= 0) {
		t->migrated = 1;
	} else {
		other = capacity_better_for(prev, cpu, v, now);
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
	bool expects;

	if (!v)
		return;
	wakeup_end(v, now);
	expects = ivh_answer_source(v, now);
	if (overdue_dispatch(cpu, v, now) || rescue_take_over(v) || balance_pull(cpu, v, now))
		return;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		if (leaves(prev, cpu, v, now)) {
			if (!take_own(cpu, v, false))
				take_own(cpu, v, true);
			return;
		}
		if (replace(cpu, v, prev, now))
			return;
		advance_vclock(v, v->run.vtime);
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
