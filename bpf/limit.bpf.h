/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Limits (cpu.max): tasks of a cgroup whose pool is empty are held in its backlog.
 */
#ifndef VAWARE_LIMIT_BPF_H
#define VAWARE_LIMIT_BPF_H

#include "queue.bpf.h"

#define DSQ_BACKLOG (2ULL << 32)

/* A cgroup with tasks in its backlog; 0: none. A hint. */
extern u32 limit_ready;

/* Prepare the backlog of cgroup @number. Return 0, or a negative error. */
int limit_init(u32 number);

/* From the pass: refill the pool of cgroup @number, and let held tasks go. Return true if some are
 * left. */
int limit_look_after(u32 number, u64 now);

/* Global functions, which the verifier checks once. */
int limit_owe(const struct cgroup_task *c, struct limit_vcpu *l, u64 run_ns);
u32 limit_holder(struct task_struct *p __arg_trusted);
int limit_take_ready(void);

/* Charge @t, which ran on @v, for @run_ns. */
static inline void limit_charge(const struct task_ctx *t, struct vcpu_ctx *v, u64 run_ns)
{
	if (cgroups_in_use & CGROUPS_LIMITED)
		limit_owe(&t->cgroup, &v->limit, run_ns);
}

/* Return true if @p may not run on at present. */
static inline bool limit_holds(struct task_struct *p)
{
	return (cgroups_in_use & CGROUPS_LIMITED) && limit_holder(p);
}

/* Put @p into a backlog if it may not run at present. Return true if it may not. */
static inline bool limit_hold(struct task_struct *p, struct task_ctx *t, u64 enq_flags)
{
	u32 number = cgroups_in_use & CGROUPS_LIMITED ? limit_holder(p) : 0;
	struct cgroup_ctx *g = number ? cgroup_at(number) : NULL;

	if (!g)
		return false;
	cgroup_uncount(t);
	t->queued_ns = now_unlocked_ns();
	if (!t->cgroup.held_ns)
		t->cgroup.held_ns = t->queued_ns;
	g->held_ns = t->queued_ns;
	limit_ready = number;
	count(VAWARE_LIMIT_HELD);
	/* One that gave way before its turn came goes on where it waited. */
	scx_bpf_dsq_insert_vtime(p, DSQ_BACKLOG | number, SLICE_NS, t->cgroup.held_ns, enq_flags);
	return true;
}

/*
 * @p begins to run on @cpu. It may have been held, or be one that should be: then it runs for a
 * moment only.
 */
static inline void limit_run(struct task_struct *p, struct task_ctx *t, s32 cpu,
			     const struct vcpu_ctx *v, u64 now)
{
	if (t->cgroup.held_ns) {
		t->vtime = vtime_enter(t->vtime, v->vclock, LAG_MAX_NS);
		t->queued_ns = 0; /* it did not wait for a vCPU */
	}
	if (limit_holds(p)) {
		kick(cpu, SCX_KICK_PREEMPT);
		return;
	}
	t->cgroup.unlocked = 0;
	if (t->cgroup.held_ns) {
		cgroup_met(&t->cgroup, 0, time_delta(now, t->cgroup.held_ns), 0);
		t->cgroup.held_ns = 0;
	}
}

/*
 * A tick of @p. Return true if it has to stop. Its time in user mode has just been counted: a task
 * that the tick found there has no lock of the kernel. Linux 6.18 too throttles a task on its way
 * to user mode only. That time is noted at each tick, limits or not: it is compared with the last.
 */
static inline bool limit_tick(struct task_struct *p, struct task_ctx *t)
{
	bool user = p->utime != t->cgroup.utime_ns;

	t->cgroup.unlocked = user ? cgroups_epoch : 0;
	t->cgroup.kernel_ticks = user ? 0 : t->cgroup.kernel_ticks + 1;
	t->cgroup.utime_ns = p->utime;
	if (limit_holds(p))
		return true;
	t->cgroup.unlocked = 0; /* it goes on */
	return false;
}

/* @p goes to sleep. Who waits for a lock of the kernel, or has one, does not for signals. */
static inline void limit_sleep(const struct task_struct *p, struct task_ctx *t)
{
	t->cgroup.unlocked = p->__state & TASK_UNINTERRUPTIBLE ? 0 : cgroups_epoch;
	t->cgroup.kernel_ticks = 0;
}

/* Take a task that was held; there is nothing else to run. */
static inline bool limit_take(void)
{
	return limit_ready && limit_take_ready();
}

#endif /* VAWARE_LIMIT_BPF_H */
