/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Queues, one for normal and one for best-effort work per vCPU, ordered by virtual deadline.
 * Waiting tasks stay in them, within reach of all vCPUs, until one is about to run them.
 */
#ifndef VAWARE_QUEUE_BPF_H
#define VAWARE_QUEUE_BPF_H

#include "task.bpf.h"
#include "waiting.bpf.h"

#include "policy/queue.h"
#include "policy/vtime.h"

#define DSQ_BEST_EFFORT (1ULL << 32)

static inline u64 vcpu_dsq(s32 cpu, bool best_effort)
{
	return best_effort ? DSQ_BEST_EFFORT | (u32)cpu : (u32)cpu;
}

/*
 * Where cgroups have shares: let the virtual time of @t, which wakes, go on from where it was when
 * it fell asleep, for shares are of who is awake. A sleep does pay where bursts are short.
 */
static inline void resume_vtime(struct task_ctx *t)
{
	const struct vcpu_ctx *from;

	t->slept = false;
	if (t->burst_avg_ns < LATENCY_BURST_NS)
		return;
	from = vcpu_ctx_of(t->vcpu);
	if (from)
		t->vtime = vtime_rebase(t->vtime, t->slept_vclock, from->vclock);
}

/* Make the virtual time of @t relative to the clock of @v, that of vCPU @cpu. */
static inline void carry_vtime(struct task_ctx *t, s32 cpu, const struct vcpu_ctx *v)
{
	const struct vcpu_ctx *from;

	if (t->slept)
		resume_vtime(t);
	if (t->vcpu == cpu)
		return;
	from = vcpu_ctx_of(t->vcpu);
	t->vtime = from ? vtime_rebase(t->vtime, from->vclock, v->vclock) : v->vclock;
	t->vcpu = cpu;
}

/*
 * Where cgroups have shares: bound the virtual time of @t, of @weight, in the queue of @v, which it
 * enters as it wakes, or @on, as it has run or waited before.
 */
static inline void enter_shared(struct task_ctx *t, const struct vcpu_ctx *v, u32 weight, bool on)
{
	u64 lag_max = on ? vtime_lag_max(weight) : LAG_MAX_NS;

	t->vtime = vtime_enter(t->vtime, v->vclock, lag_max);
	t->vtime = vtime_bound(t->vtime, v->vclock, weight);
}

/*
 * Return true if @t was taken as overdue and has lost the vCPU before it had a slice, nor has it
 * slept since: whatever wakes takes the vCPU from it, and the kernel has it wait anew.
 */
static inline bool overdue_goes_on(const struct task_ctx *t)
{
	return t->burst_ns < t->overdue_until_ns;
}

/*
 * Begin the wait of @p for vCPU @cpu: carry its virtual time over to that vCPU's clock. Return the
 * deadline by which it is queued.
 */
static inline u64 begin_wait(struct task_struct *p, struct task_ctx *t, s32 cpu, struct vcpu_ctx *v,
			     u64 now)
{
	carry_vtime(t, cpu, v);
	t->queued_ns = now;
	if (cgroups_in_use) {
		cgroup_count(p, t);
		enter_shared(t, v, task_weight(p, t), t->burst_ns);
	} else {
		t->vtime = vtime_enter(t->vtime, v->vclock, LAG_MAX_NS);
	}
	if (is_rcu_reader(p)) {
		count(VAWARE_RCU_READER_FIRST);
		return vtime_reader_deadline(v->vclock);
	}
	if (overdue_goes_on(t))
		return vtime_overdue_deadline(v->vclock);
	return vtime_deadline(t->vtime, task_weight(p, t), SLICE_NS);
}

/*
 * Let @p wait in the queue of vCPU @cpu. Not in its local one: should it be slow to wake, or be
 * stopped, another can take the task.
 */
static inline void wait_on(struct task_struct *p, s32 cpu, u64 slice_ns, u64 deadline,
			   u64 enq_flags)
{
	bool best_effort = is_best_effort(p) && !is_rcu_reader(p);

	waiting_set(cpu, best_effort);
	scx_bpf_dsq_insert_vtime(p, vcpu_dsq(cpu, best_effort), slice_ns, deadline, enq_flags);
}

/*
 * Move the clock of @v on to @vtime, that of the task which it goes on with: the earliest there is.
 * New tasks then enter beside it, not behind by all that it ran alone.
 */
static inline void advance_vclock(struct vcpu_ctx *v, u64 vtime)
{
	if (vtime_before(v->vclock, vtime))
		v->vclock = vtime;
}

/* Return what a decision needs to know of the task that runs on @v. */
static inline struct running running_on(const struct vcpu_ctx *v, u64 now)
{
	struct running r = {
		.class = v->run.class,
		.weight = v->run.weight,
		.vtime = v->run.vtime,
		.ran_ns = time_delta(now, v->run.started_ns),
		.burst_ns = v->run.burst_ns,
		.unbilled_ns = time_delta(now, v->run.charged_ns),
		.migrated = v->run.migrated,
		.rcu_reader = v->run.rcu_reader,
	};

	return r;
}

/* Return how long @p has been waiting, by the stamp that the kernel's watchdog goes by. */
static inline u64 waited_ns(const struct task_struct *p)
{
	u64 now = bpf_jiffies64(), since = p->scx.runnable_at;

	return time_delta(now, since) * tick_ns;
}

/* Correct the hint at the queue of @cpu, from which nothing was taken, or the last one. */
static inline void waiting_correct(s32 cpu, u32 best_effort)
{
	if (waiting_at(cpu, best_effort) && !scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, best_effort)))
		waiting_clear(cpu, best_effort);
}

#endif /* VAWARE_QUEUE_BPF_H */
