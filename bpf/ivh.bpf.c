/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Intra-VM harvesting (policy/ivh.h): the handshake by which a running task moves to a vCPU that is
 * proven awake. Source and target meet in three fields of the target: who has claimed it
 * (compare-and-swap), when it was called (the source writes) and when it was awake (the target
 * writes).
 */
#include "ivh.bpf.h"
#include "near.bpf.h"
#include "queue.bpf.h"
#include "rwc.bpf.h"
#include "wakeup.bpf.h"

#include "policy/ivh.h"

/* Source: take the claim back from the target that @v has asked. */
static void ivh_forget(s32 cpu, struct vcpu_ctx *v)
{
	struct vcpu_ctx *target = vcpu_ctx_of(v->ivh.target - 1);

	v->ivh.target = 0;
	if (target)
		__sync_val_compare_and_swap(&target->ivh.claim, cpu + 1, 0);
}

/*
 * NEAR_HARVEST: a target for @p is best if it runs best-effort work, else the longer it has been
 * idle, for its host owes it the most.
 */
__noinline u64 ivh_target_cost(struct task_struct *p __arg_trusted, s32 cpu, const struct near *n)
{
	const struct vaware_activity *a = activity_of(cpu);
	const struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	u64 idle_ns;

	if (!n || !a || !v || v->ivh.claim || !rwc_may_use(p, n->class, cpu))
		return NEAR_NEVER;
	if (runs_best_effort(cpu, v, n->now))
		return 0;
	idle_ns = time_delta(n->now, a->since_ns);
	return near_idle(cpu) && ivh_idle_enough(idle_ns) ? NEAR_NEVER - idle_ns : NEAR_NEVER;
}

/* Source: claim vCPU @other, and wake or interrupt it. Return false if somebody was faster. */
static bool ivh_ask(struct task_struct *p, s32 cpu, struct vcpu_ctx *v, s32 other, u64 now)
{
	struct vcpu_ctx *o = vcpu_ctx_of(other);
	bool busy;

	if (!o)
		return false;
	busy = o->run.class == VAWARE_CLASS_BEST_EFFORT;
	if (__sync_val_compare_and_swap(&o->ivh.claim, 0, cpu + 1))
		return false;
	if (!busy && !scx_bpf_test_and_clear_cpu_idle(other)) {
		o->ivh.claim = 0;
		return false;
	}
	o->ivh.called_ns = now;
	v->ivh.target = other + 1;
	v->ivh.asked_ns = now;
	v->ivh.pid = p->pid;
	if (busy) {
		kick(other, SCX_KICK_PREEMPT);
	} else {
		wakeup_begin(other, o, now);
		kick(other, SCX_KICK_IDLE);
	}
	count(VAWARE_IVH_ASKED);
	return true;
}

/*
 * Find a target for @task, which is @p on @cpu, and ask that if it is time to. Return false if
 * somebody was faster.
 */
static bool ivh_look_once(struct task_struct *p, struct ivh_task *task, s32 cpu, struct vcpu_ctx *v,
			  const struct vaware_activity *a, u64 now)
{
	struct near n = {
		.use = NEAR_HARVEST,
		.class = VAWARE_CLASS_THROUGHPUT,
		.now = now,
		.cost_ns = NEAR_NEVER,
		.cpu = cpu,
		.found = -1,
	};
	s32 other = near_search(p, -1, &n);
	struct vcpu_ctx *o = other >= 0 ? vcpu_ctx_of(other) : NULL;
	u64 next_ns;

	if (!o)
		return true;
	next_ns = a->due_ns > now ? a->due_ns - now : tick_ns;
	task->hazard_1024 =
		vcpu_hazard_1024(cpu, now, ivh_ahead_ns(next_ns, wakeup_expected_ns(o, now)));
	return !ivh_leaves(task) || ivh_ask(p, cpu, v, other, now);
}

/* @task, which is @p, may leave @cpu. */
static void ivh_look(struct task_struct *p, struct ivh_task *task, s32 cpu, struct vcpu_ctx *v,
		     const struct vaware_activity *a, u64 now)
{
	u32 i;

	if (v->ivh.target) {
		if (!ivh_gives_up(v->ivh.asked_ns, a->last_preemption_ns, now))
			return;
		ivh_forget(cpu, v);
		count(VAWARE_IVH_LATE);
	}
	bpf_for (i, 0, IVH_TRIES) {
		if (ivh_look_once(p, task, cpu, v, a, now))
			break;
	}
}

__noinline int ivh_consider(struct task_struct *p __arg_trusted, s32 cpu, u64 now)
{
	const struct vaware_activity *a = activity_of(cpu);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	struct task_ctx *t = task_ctx_of(p);
	struct ivh_task task = { .hazard_1024 = 1024 };

	if (!a || !v || !t || !policy_on(VAWARE_POLICY_IVH) || !a->last_preemption_ns)
		return 0;
	task.stop_ns = v->activity.stop_ns;
	task.class = v->run.class;
	task.ran_ns = time_delta(now, v->run.started_ns);
	task.burst_ns = t->burst_ns + time_delta(now, v->run.charged_ns);
	if (!ivh_leaves(&task) || is_pinned(p))
		return 0;
	ivh_look(p, &task, cpu, v, a, now);
	return 0;
}

s32 ivh_leave_for(struct task_struct *prev, s32 cpu, struct vcpu_ctx *v, u64 now)
{
	s32 other = (s32)v->ivh.target - 1;
	const struct vaware_activity *a;
	struct vcpu_ctx *o;
	u32 answer;

	if (other < 0)
		return -1;
	o = vcpu_ctx_of(other);
	if (!o)
		return -1;
	answer = o->ivh.claim == cpu + 1
			 ? ivh_judge(v->ivh.asked_ns, o->ivh.awake_ns, prev->pid == v->ivh.pid, now)
			 : IVH_LATE;
	if (answer == IVH_PENDING)
		return -1;
	if (answer == IVH_GO && rwc_may_use(prev, VAWARE_CLASS_THROUGHPUT, other)) {
		/* The claim stays until the task is there: without it the target halts before. */
		v->ivh.target = 0;
		a = activity_of(cpu);
		if (a) /* or success would silence the timer that it depends on */
			activity_note_long_preemption(v, a, now);
		count(VAWARE_IVH_MOVED);
		return other;
	}
	ivh_forget(cpu, v);
	count(answer == IVH_LATE ? VAWARE_IVH_LATE : VAWARE_IVH_USELESS);
	return -1;
}

bool ivh_answer(struct vcpu_ctx *v, u32 claim, u64 now)
{
	if (time_before(v->ivh.awake_ns, v->ivh.called_ns)) {
		v->ivh.awake_ns = now;
		kick(claim - 1, SCX_KICK_PREEMPT);
		return true;
	}
	if (time_delta(now, v->ivh.awake_ns) < IVH_FRESH_NS)
		return true;
	__sync_val_compare_and_swap(&v->ivh.claim, claim, 0);
	return false;
}
