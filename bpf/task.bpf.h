/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What kind of task it is.
 */
#ifndef VAWARE_TASK_BPF_H
#define VAWARE_TASK_BPF_H

#include "cgroup.bpf.h"

#include "policy/account.h"

#define SCHED_IDLE 5 /* include/uapi/linux/sched.h */

/* include/linux/sched.h */
#define TASK_RUNNING 0
#define TASK_UNINTERRUPTIBLE 2

/* Return true if @p, which leaves its vCPU and wants to run no more, does so to sleep. */
static inline bool task_sleeps(const struct task_struct *p)
{
	return p->__state != TASK_RUNNING;
}

static inline bool is_best_effort(const struct task_struct *p)
{
	return p->policy == SCHED_IDLE || in_idle_cgroup(p);
}

/* Return true if @p is a kernel thread that belongs to one vCPU. */
static inline bool is_vcpu_kthread(const struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1;
}

/* Return how often @p has disabled migration. */
static inline u32 migration_disabled(const struct task_struct *p)
{
	return bpf_core_field_exists(p->migration_disabled) ? p->migration_disabled : 0;
}

/*
 * Return true if @p can run on its present vCPU only. BPF's own prolog may have disabled migration
 * of the current task once more; the framework found out at load whether it does. (Its
 * is_migration_disabled() reads the kernel's configuration file, which not every VM has.)
 */
static inline bool is_pinned(const struct task_struct *p)
{
	u32 disabled = migration_disabled(p);

	if (p->nr_cpus_allowed == 1)
		return true;
	if (disabled && __scx_prolog_disables_migration && bpf_get_current_task_btf() == p)
		disabled--;
	return disabled;
}

/*
 * Return true if @p was preempted as an RCU reader: a grace period cannot end before it goes on.
 * Known from the time that it is switched out to that at which it leaves its critical section.
 */
static inline bool is_rcu_reader(const struct task_struct *p)
{
	return bpf_core_field_exists(p->rcu_read_unlock_special) &&
	       p->rcu_read_unlock_special.b.blocked;
}

/*
 * Return true if the mask of @p allows @cpu. Global, as the next one: the verifier of 6.12 reads
 * the names of all the kernel's types for each pointer that is read from a task, in each of its
 * passes.
 */
int task_allows(const struct task_struct *p __arg_trusted, s32 cpu);

/* Claim an idle vCPU that the mask of @p allows. Return its number; -1: none. */
s32 task_pick_idle(const struct task_struct *p __arg_trusted);

/* Return true if @p may run on @cpu. Few tasks are kept from any vCPU. */
static inline bool task_may_run(const struct task_struct *p, s32 cpu)
{
	return (p->nr_cpus_allowed >= nr_vcpus && !migration_disabled(p)) || task_allows(p, cpu);
}

/* Return the weight of @p by its nice value and its cgroup (nice 0: WEIGHT_NICE_0). */
static inline u32 task_weight(const struct task_struct *p, const struct task_ctx *t)
{
	u32 weight = p->scx.weight * WEIGHT_PARTS;

	return cgroups_in_use ? cgroup_weigh(t, weight) : weight;
}

static inline u32 task_class(const struct task_struct *p, const struct task_ctx *t)
{
	return account_class(is_best_effort(p), is_vcpu_kthread(p),
			     account_burst_ns(t->burst_avg_ns, t->burst_ns));
}

/* Return the class by which @p waits for a vCPU that is busy. */
static inline u32 waiting_class(const struct task_struct *p, const struct task_ctx *t)
{
	return account_waiting_class(task_class(p, t), t->by_work);
}

#endif /* VAWARE_TASK_BPF_H */
