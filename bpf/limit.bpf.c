/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Limits (cpu.max): tasks of a cgroup whose pool is empty are held in its backlog.
 */
#include "limit.bpf.h"

u32 limit_ready;

/* Variables, counted down: the verifier would follow each pass of a loop from a known number. */
u32 limit_scan = LIMIT_SCAN;
u32 limit_batch = LIMIT_BATCH;
u32 limit_at_once = 1; /* set to nr_vcpus, which it knows as well */

/* include/linux/sched/jobctl.h: a stop, or the freezer, waits for the task to get there. */
#define JOBCTL_WANTED ((1UL << 17) | (1UL << 19) | (1UL << 20) | (1UL << 23))

/* Of one that is killed, or stopped by a tracer. */
#define SIGKILL_BIT (1UL << 8)
#define SIGSTOP_BIT (1UL << 18)

int limit_init(u32 number)
{
	s32 err = scx_bpf_create_dsq(DSQ_BACKLOG | number, NUMA_NO_NODE);

	limit_at_once = nr_vcpus;
	return err == -EEXIST ? 0 : err; /* it outlives the cgroup that had the number before */
}

/* Charge what @l owes to the pools of all limits from its own up. */
static void limit_pay(struct limit_vcpu *l)
{
	u32 number = l->limiter, level;

	bpf_for (level, 0, CGROUP_LEVELS) {
		struct cgroup_ctx *g = number ? cgroup_at(number) : NULL;

		if (!g)
			break;
		__sync_fetch_and_sub(&g->left_ns, (s64)l->owed_ns);
		number = g->above;
	}
	l->owed_ns = 0;
}

__noinline int limit_owe(const struct cgroup_task *c, struct limit_vcpu *l, u64 run_ns)
{
	const struct cgroup_ctx *g;
	u32 limiter;

	if (!c || !l)
		return 0;
	g = cgroup_of(c);
	limiter = g ? g->limiter : 0;
	if (limiter != l->limiter) {
		limit_pay(l);
		l->limiter = limiter;
	}
	if (!limiter)
		return 0;
	l->owed_ns += run_ns;
	if (l->owed_ns >= LIMIT_CHARGE_NS)
		limit_pay(l);
	return 0;
}

/*
 * Return true if a task may have a lock of the kernel. While no cgroup has anything nobody notes
 * that: a note from before tells nothing.
 */
static bool limit_may_lock(const struct cgroup_task *c)
{
	return c->unlocked != cgroups_epoch && c->kernel_ticks < LIMIT_KERNEL_TICKS;
}

/*
 * Return true if @p is not held now: others wait for it, or may wait for a lock of the kernel that
 * it has, or it is about to stop by itself. One that is traced runs as others do until it stops.
 */
static bool limit_exempts(const struct task_struct *p, const struct task_ctx *t)
{
	return limit_may_lock(&t->cgroup) || (p->flags & (PF_EXITING | PF_KTHREAD)) ||
	       (p->jobctl & JOBCTL_WANTED) ||
	       (p->pending.signal.sig[0] & (SIGKILL_BIT | SIGSTOP_BIT)) || is_rcu_reader(p);
}

/*
 * Give @g what is due. By whoever finds its pool empty, too: the timer may be on a vCPU that is
 * preempted.
 */
static void limit_refill(struct cgroup_ctx *g, u64 now)
{
	u64 due_ns = g->due_ns, periods = cgroup_periods(due_ns, now, g->quota.period_ns);

	if (periods && __sync_val_compare_and_swap(&g->due_ns, due_ns,
						   due_ns + periods * g->quota.period_ns) == due_ns)
		__sync_fetch_and_add(
			&g->left_ns,
			cgroup_refill_ns(g->left_ns, &g->quota, periods,
					 cgroup_debt_max_ns(&g->quota, nr_vcpus, tick_ns)));
}

/* Return true if the limit of @g is used up at present. */
static bool limit_used_up(struct cgroup_ctx *g)
{
	if (!g->quota.quota_ns || g->left_ns > 0)
		return false;
	limit_refill(g, now_unlocked_ns());
	return g->left_ns <= 0;
}

/* Return the number of the cgroup whose limit holds @p; 0: none does. */
__noinline u32 limit_holder(struct task_struct *p __arg_trusted)
{
	const struct task_ctx *t = task_ctx_of(p);
	struct cgroup_ctx *g = t ? cgroup_of(&t->cgroup) : NULL;
	u32 number = g ? g->limiter : 0, level;

	if (!t || !number || limit_exempts(p, t))
		return 0;
	bpf_for (level, 0, CGROUP_LEVELS) {
		g = number ? cgroup_at(number) : NULL;
		if (!g)
			break;
		if (limit_used_up(g))
			return number;
		number = g->above;
	}
	return 0;
}

/* Wake a vCPU for @p, which has gone to the queue of @cpu. */
static void limit_wake(struct task_struct *p, s32 cpu)
{
	s32 idle = scx_bpf_test_and_clear_cpu_idle(cpu) ? cpu : task_pick_idle(p);

	if (idle >= 0)
		kick(idle, SCX_KICK_IDLE);
}

/*
 * Return true if @p, held, runs though its limit is used up. One that has been held for long runs
 * for a moment, and goes to the end of the backlog: else it would be the first again, and who is
 * beyond LIMIT_SCAN never looked at.
 */
static bool limit_lets_go(const struct task_struct *p, struct task_ctx *t)
{
	u64 now;

	if (limit_exempts(p, t))
		return true;
	if (waited_ns(p) < LIMIT_AGED_NS)
		return false;
	now = now_unlocked_ns();
	cgroup_met(&t->cgroup, 0, time_delta(now, t->cgroup.held_ns), 0);
	t->cgroup.held_ns = now;
	return true;
}

/*
 * Move tasks from the backlog of cgroup @number to the queues of their vCPUs: as many as can run
 * at once, or, @over the limit, those that have to run all the same. More would not run in the
 * order in which they were held: each vCPU begins with its own.
 */
__noinline int limit_release(u32 number, bool over)
{
	u32 looks = limit_scan, releases = over ? limit_batch : limit_at_once;
	struct task_struct *p;

	bpf_rcu_read_lock(); /* the verifier takes the timer for a program that may sleep */
	bpf_for_each (scx_dsq, p, DSQ_BACKLOG | number, 0) {
		s32 cpu = scx_bpf_task_cpu(p);
		const struct vcpu_ctx *v = vcpu_ctx_of(cpu);
		struct task_ctx *t = task_ctx_of(p);
		bool best_effort = is_best_effort(p);

		if (!looks-- || !releases)
			break;
		if (!v || !t || (over && !limit_lets_go(p, t)))
			continue;
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER,
					   vtime_deadline(v->vclock, task_weight(p, t), SLICE_NS));
		if (!scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, vcpu_dsq(cpu, best_effort), 0))
			continue;
		waiting_set(cpu, best_effort);
		limit_wake(p, cpu);
		releases--;
	}
	bpf_rcu_read_unlock();
	return 0;
}

int limit_look_after(u32 number, u64 now)
{
	struct cgroup_ctx *g = cgroup_at(number);

	if (!g)
		return false;
	if (g->quota.quota_ns)
		limit_refill(g, now);
	if (!g->held_ns)
		return false;
	if (scx_bpf_dsq_nr_queued(DSQ_BACKLOG | number)) {
		limit_release(number, g->quota.quota_ns && g->left_ns <= 0);
		return scx_bpf_dsq_nr_queued(DSQ_BACKLOG | number) > 0;
	}
	if (time_delta(now, g->held_ns) > LIMIT_FORGET_NS)
		g->held_ns = 0;
	return false;
}

__noinline int limit_take_ready(void)
{
	u32 number = limit_ready;
	struct cgroup_ctx *g = cgroup_at(number);

	if (!g || limit_used_up(g))
		return false;
	if (scx_bpf_dsq_move_to_local(DSQ_BACKLOG | number, 0))
		return true;
	limit_ready = 0;
	return false;
}
