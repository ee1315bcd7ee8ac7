/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * While a task runs: its wait is recorded, its run time charged, its slice watched.
 */
#include "account.bpf.h"
#include "blocking.bpf.h"
#include "governor.bpf.h"
#include "ivh.bpf.h"
#include "rescue.bpf.h"
#include "reserve.bpf.h"
#include "shootdown.bpf.h"
#include "wakeup.bpf.h"

u32 best_effort_vcpus;

/* Record the wait of @p, which has come to run on @v, that ends now. */
static void end_wait(const struct task_struct *p, struct task_ctx *t, struct vcpu_ctx *v, u64 now)
{
	struct vaware_stats *s = stats_here();
	u32 class = v->run.class, bucket;
	u64 wait_ns;

	if (!t->queued_ns)
		return;
	wait_ns = time_delta(now, t->queued_ns);
	t->queued_ns = 0;
	if (cgroups_in_use)
		cgroup_met(&t->cgroup, wait_ns, 0, 0);
	if (!s)
		return;
	if (t->bvs.predicted_ns) {
		s->bvs_predicted_ns += t->bvs.predicted_ns;
		s->bvs_actual_ns += wait_ns;
		t->bvs.predicted_ns = 0;
	}
	if (blocking_measured())
		blocking_ran(t, wait_ns);
	bucket = account_wait_bucket(wait_ns);
	if (class >= VAWARE_NR_CLASSES || bucket >= VAWARE_WAIT_BUCKETS)
		return;
	s->switches++;
	s->wait_hist[class][bucket]++;
	s->wait_ns[class] += wait_ns;
	if (wait_ns > s->wait_max_ns[class])
		s->wait_max_ns[class] = wait_ns;
	/* The daemon wakes vCPUs that nobody uses: its waits are longer than users'. */
	if (!account_normal(class) || p->tgid == daemon_tgid)
		return;
	s->lost_ns += wait_ns;
	if (class == VAWARE_CLASS_LATENCY) {
		s->latency_waits++;
		s->latency_wait_ns += wait_ns;
	}
}

/*
 * Others wait for @cpu, which has just been woken. Idle vCPUs may have missed them: they were
 * queued while this one had nothing that runs, and it is not the kernel that wakes another for
 * them.
 */
static __always_inline void wake_for_those_behind(s32 cpu)
{
	struct task_struct *head = __COMPAT_scx_bpf_dsq_peek(vcpu_dsq(cpu, false));
	s32 idle = head ? task_pick_idle(head) : -1;

	if (idle >= 0)
		kick(idle, SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(vaware_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	struct task_ctx *t = task_ctx_of(p);
	u64 now = now_ns();
	bool out_of_turn;

	if (!v || !t)
		return;
	wakeup_end(v, now);
	carry_vtime(t, cpu, v); /* it may have been taken from another vCPU's queue */
	if (cgroups_in_use) {
		cgroup_count(p, t);
		limit_run(p, t, cpu, v, now);
	}
	/*
	 * Who runs out of turn is ahead of those that wait. Were the clock to follow it, they would
	 * be behind by so much, one by one as they next enter.
	 */
	/* Without branches, each of which the verifier would follow to the end. */
	out_of_turn = (u32)is_rcu_reader(p) | overdue_goes_on(t) | !v->in_turn;
	if (!out_of_turn || !waiting_at(cpu, false))
		advance_vclock(v, t->vtime);
	if (v->wakeup.ended && waiting_at(cpu, false))
		wake_for_those_behind(cpu);
	v->wakeup.ended = 0;
	v->in_turn = 0;
	v->yielded = 0;
	v->run.class = task_class(p, t);
	v->run.weight = task_weight(p, t);
	v->run.migrated = t->migrated;
	v->run.rcu_reader = is_rcu_reader(p);
	if (v->run.class == VAWARE_CLASS_BEST_EFFORT)
		__sync_fetch_and_add(&best_effort_vcpus, 1);
	v->run.vtime = t->vtime;
	v->run.burst_ns = t->burst_ns;
	v->run.burst_avg_ns = t->burst_avg_ns;
	v->run.started_ns = now;
	v->run.charged_ns = now;
	activity_running(cpu, v, now);
	end_wait(p, t, v, now);
}

/*
 * Between ticks, from vact's timer on @cpu: what should not wait for the next one. This runs in a
 * softirq without the runqueue lock: by the time that something comes of it the vCPU may run
 * another task, and whoever acts looks again.
 */
int vaware_between_ticks(s32 cpu, u64 now)
{
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);

	if (!v)
		return 0;
	if (v->run.class == VAWARE_CLASS_THROUGHPUT)
		ivh_consider(bpf_get_current_task_btf(), cpu, now);
	if (rescue_makes_way(cpu)) {
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
		activity_tick(cpu);
	charge(p, t, cpu, v, now_ns());
	if (cgroups_in_use) {
		cgroup_count(p, t);
		v->run.weight = task_weight(p, t);
	}
	if (limit_tick(p, t)) {
		scx_bpf_task_set_slice(p, 0);
		return;
	}
	governor_look(v, v->run.charged_ns);
	if (reserve_is_misused(cpu, v) || shootdown_strays(p, cpu, v->run.class)) {
		scx_bpf_task_set_slice(p, 0);
		return;
	}
	ivh_consider(p, cpu, v->run.charged_ns);
	if (rescue_makes_way(cpu)) {
		scx_bpf_task_set_slice(p, 0);
		count(VAWARE_RESCUE_YIELDED);
		return;
	}
	if (!scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, false))) {
		advance_vclock(v, t->vtime);
		return;
	}
	waiting_set(cpu, false); /* where the hint was lost */
	/* Somebody waits by now, while the slice may be a long one from when nobody did. */
	head = __COMPAT_scx_bpf_dsq_peek(vcpu_dsq(cpu, false));
	t = head ? task_ctx_of(head) : NULL;
	r = running_on(v, v->run.charged_ns);
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
	charge_task(p, t, cpu, v, now);
	activity_stopping(cpu, v, now);
	if (v->run.class == VAWARE_CLASS_BEST_EFFORT)
		__sync_fetch_and_sub(&best_effort_vcpus, 1);
	v->run.class = VAWARE_CLASS_NONE;
	if (!runnable)
		cgroup_uncount(t);
	/* A change of its attributes takes a running task off as well: that is no sleep. */
	if (!runnable && task_sleeps(p)) {
		if (blocking_measured())
			blocking_slept(t->burst_ns);
		if (cgroups_in_use) {
			limit_sleep(p, t);
			t->slept = true;
			t->slept_vclock = v->vclock;
		}
		t->migrated = 0;
		t->burst_avg_ns = account_average_ns(t->burst_avg_ns, t->burst_ns);
		t->burst_ns = 0;
		t->overdue_until_ns = 0;
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
	if (!waiting_at(cpu, is_best_effort(from))) {
		count(VAWARE_YIELD_IGNORED);
		return false;
	}
	v->yielded = 1;
	scx_bpf_task_set_slice(from, 0);
	return false;
}
