/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * While a task runs: its wait is recorded, its run time charged, its slice watched.
 */
#include "harvest.bpf.h"
#include "hedge.bpf.h"

/* activity.bpf.c: a tick on @cpu, at which a task of ours runs. */
extern int vact_tick(s32 cpu);

/* Record the wait of @t, which has come to run on @v, that ends now. */
static void end_wait(struct task_ctx *t, struct vcpu_ctx *v, u64 now)
{
	struct vaware_stats *s = stats_here();
	u32 class = v->run_class, bucket;
	u64 wait_ns;

	if (!t->queued_ns)
		return;
	wait_ns = time_delta(now, t->queued_ns);
	t->queued_ns = 0;
	bucket = account_wait_bucket(wait_ns);
	if (s && t->predicted_ns) {
		s->bvs_predicted_ns += t->predicted_ns;
		s->bvs_actual_ns += wait_ns;
	}
	t->predicted_ns = 0;
	if (!s)
		return;
	rescue_measure(t, v, s, wait_ns, now);
	if (class >= VAWARE_NR_CLASSES || bucket >= VAWARE_WAIT_BUCKETS)
		return;
	s->switches++;
	s->wait_hist[class][bucket]++;
	s->wait_ns[class] += wait_ns;
	if (wait_ns > s->wait_max_ns[class])
		s->wait_max_ns[class] = wait_ns;
}

/* A task of ours is about to run on @cpu: a beat, and ticks are due from now on. */
static void vact_running(s32 cpu, struct vcpu_ctx *v, u64 now)
{
	struct vaware_activity *a = activity_of(cpu);

	if (!activity_on || !a)
		return;
	if (cpu == bpf_get_smp_processor_id()) {
		if (a->state != VAWARE_STATE_ACTIVE) {
			/* It was active before the scheduler was loaded. */
			a->state = VAWARE_STATE_ACTIVE;
			a->since_ns = now;
			v->steal_clock_ns = steal_clock_ns(cpu);
		}
		vact_beat(a, v, cpu, now);
		if (vact_wants_beat(v, now))
			vact_add_beat(cpu, now);
		a->due_ns = vact_due_ns(v, true, now);
	}
	v->charged_stolen_ns = a->stolen_ns;
}

/* No task of ours runs on @cpu any more: ticks are not ours to see. */
static void vact_stopping(s32 cpu, struct vcpu_ctx *v, u64 now)
{
	struct vaware_activity *a = activity_of(cpu);

	if (activity_on && a && cpu == bpf_get_smp_processor_id())
		a->due_ns = vact_due_ns(v, false, now);
}

void BPF_STRUCT_OPS(vaware_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	struct task_ctx *t = task_ctx_of(p);
	u64 now = now_ns();

	if (!v || !t)
		return;
	end_wake(v, now);
	carry_vtime(t, cpu, v); /* it may have been taken from another vCPU's queue */
	/*
	 * Who runs out of turn is ahead of those that wait. Were the clock to follow it, they would
	 * be behind by so much, one by one as they next enter.
	 */
	if ((v->in_turn && !is_rcu_reader(p)) || !scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, false)))
		advance_vclock(v, t->vtime);
	v->in_turn = 0;
	v->yielded = 0;
	v->run_class = task_class(p, t);
	v->run_weight = p->scx.weight;
	v->run_guest = t->guest;
	v->run_rcu_reader = is_rcu_reader(p);
	if (v->run_class == VAWARE_CLASS_BEST_EFFORT)
		__sync_fetch_and_add(&best_effort_vcpus, 1);
	v->run_vtime = t->vtime;
	v->run_burst_ns = t->burst_ns;
	v->run_burst_avg_ns = t->burst_avg_ns;
	v->run_started_ns = now;
	v->beat_ns = now;
	vact_running(cpu, v, now);
	end_wait(t, v, now);
}

/*
 * Return true if the best-effort work that runs on @cpu should make way: normal work that may run
 * here waits for another vCPU near it.
 */
static bool makes_way(s32 cpu, const struct vcpu_ctx *v)
{
	const struct vaware_vcpu_inputs *in;
	struct task_struct *head;
	u32 i;

	if (v->run_class != VAWARE_CLASS_BEST_EFFORT || !policy_on(VAWARE_POLICY_RESCUE))
		return false;
	in = inputs_of(cpu);
	bpf_for (i, 0, VAWARE_NEAR_VCPUS) {
		s32 other = near_vcpu(in, cpu, i);

		if (other < 0)
			break;
		if (!scx_bpf_dsq_nr_queued(vcpu_dsq(other, false)))
			continue;
		head = __COMPAT_scx_bpf_dsq_peek(vcpu_dsq(other, false));
		if (head && may_use(head, VAWARE_CLASS_THROUGHPUT, cpu))
			return true;
	}
	return false;
}

/*
 * Between ticks, from vact's timer on @cpu: what should not wait for the next one. This runs in a
 * softirq without the runqueue lock: by the time that something comes of it the vCPU may run
 * another task, and whoever acts looks again.
 */
int vaware_between_ticks(s32 cpu, u64 now)
{
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	struct task_struct *p;
	struct task_ctx *t;
	bool needed;

	if (!v)
		return 0;
	bpf_rcu_read_lock(); /* 6.12 takes the timer for a program that may sleep */
	if (v->run_class == VAWARE_CLASS_THROUGHPUT) {
		p = bpf_get_current_task_btf();
		t = task_ctx_of(p);
		if (t)
			harvest_consider(p, t, cpu, v, now);
	}
	needed = makes_way(cpu, v);
	bpf_rcu_read_unlock();
	if (needed) {
		count(VAWARE_RESCUE_YIELDED);
		kick(cpu, SCX_KICK_PREEMPT);
	}
	return 0;
}

void BPF_STRUCT_OPS(vaware_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	struct task_ctx *t = task_ctx_of(p);
	struct task_struct *head;
	struct running r;

	if (!v || !t)
		return;
	if (activity_on)
		vact_tick(cpu);
	charge(p, t, cpu, v, now_ns());
	harvest_measure(p, t, v, v->beat_ns);
	harvest_consider(p, t, cpu, v, v->beat_ns);
	if (makes_way(cpu, v)) {
		scx_bpf_task_set_slice(p, 0);
		count(VAWARE_RESCUE_YIELDED);
		return;
	}
	if (!scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, false))) {
		advance_vclock(v, t->vtime);
		return;
	}
	/* Somebody waits by now, while the slice may be a long one from when nobody did. */
	head = __COMPAT_scx_bpf_dsq_peek(vcpu_dsq(cpu, false));
	t = head ? task_ctx_of(head) : NULL;
	r = running_on(v, v->beat_ns);
	if (t && queue_preempts(waiting_class(head, t), head->scx.dsq_vtime, &r))
		scx_bpf_task_set_slice(p, 0);
}

void BPF_STRUCT_OPS(vaware_stopping, struct task_struct *p, bool runnable)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	struct task_ctx *t = task_ctx_of(p);
	u64 now = now_ns();

	if (!v || !t)
		return;
	charge(p, t, cpu, v, now);
	vact_stopping(cpu, v, now);
	if (v->run_class == VAWARE_CLASS_BEST_EFFORT)
		__sync_fetch_and_sub(&best_effort_vcpus, 1);
	v->run_class = VAWARE_CLASS_NONE;
	if (!runnable) {
		t->guest = 0;
		t->burst_avg_ns = account_average_ns(t->burst_avg_ns, t->burst_ns);
		t->burst_ns = 0;
		t->trial_since_ns = 0;
	}
}

/*
 * sched_yield(2). With nobody waiting there is nobody to yield to: the task keeps its slice, and
 * the call costs no pass through the scheduler.
 */
bool BPF_STRUCT_OPS(vaware_yield, struct task_struct *from, struct task_struct *to)
{
	s32 cpu = scx_bpf_task_cpu(from);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);

	if (to || !v)
		return false;
	if (!scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, is_best_effort(from)))) {
		count(VAWARE_YIELD_IGNORED);
		return false;
	}
	v->yielded = 1;
	scx_bpf_task_set_slice(from, 0);
	return false;
}
