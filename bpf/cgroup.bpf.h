/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cgroups: which one a task belongs to, and what it weighs there.
 */
#ifndef VAWARE_CGROUP_BPF_H
#define VAWARE_CGROUP_BPF_H

#include "context.bpf.h"

#include "policy/cgroup.h"

/* Cgroups with the cpu controller that are told apart. More count as part of their parents. */
#define CGROUPS_MAX 4096

/* Levels of cgroups with limits that a task is charged to. */
#define CGROUP_LEVELS 16

/* What cgroups have that the scheduler has to honor; 0: nothing, and all that an event pays. */
extern u32 cgroups_in_use;
#define CGROUPS_WEIGHED (1 << 0)
#define CGROUPS_LIMITED (1 << 1)
#define CGROUPS_IDLE (1 << 2)

/* Counts how often that was something after it was nothing; from 1. */
extern u32 cgroups_epoch;

/* One cgroup. Fields that are written often have cache lines of their own. */
struct cgroup_ctx {
	/* Read wherever a task is charged; written by the pass. */
	u64 scale;	/* factor for the weights of its tasks (policy/cgroup.h) */
	u32 generation; /* counts who had this entry: a task of another one is not of this */
	u32 used;
	u32 idle;    /* itself, or one above */
	u32 limiter; /* number of the nearest one with a limit, itself or above; 0: none */
	u32 above;   /* the same without itself */
	u32 limits;  /* how many limits it is below, its own among them */
	u32 parent;

	/* Written by wake-ups and sleeps. */
	s64 runnable __attribute__((aligned(64))); /* weight of its own runnable tasks */

	/* Written by the pass alone. */
	u64 cgroup __attribute__((aligned(64))); /* address of the kernel's struct */
	u64 weight;
	u64 own; /* average of `runnable` */
	u64 credit;
	u64 demand;
	u64 children;	     /* weight of active children, as added up so far */
	u32 children_active; /* one of those is at present */
	u32 own_idle;	     /* its own cpu.idle */
	u32 active_1024;     /* part of the time in which it is */
	struct cgroup_quota quota;
	u64 due_ns; /* when its next period begins */

	/* limit.bpf.c: written by who charges, and by the pass. */
	s64 left_ns __attribute__((aligned(64))); /* of this period; a debt, if negative */
	u64 held_ns; /* when it last held a task; 0: not since its backlog was empty for long */
} __attribute__((aligned(64)));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CGROUPS_MAX);
	__type(key, u32);
	__type(value, struct cgroup_ctx);
} cgroups SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CGROUPS_MAX);
	__type(key, u32);
	__type(value, struct vaware_cgroup);
} cgroup_sums SEC(".maps") __weak;

static inline struct vaware_cgroup *cgroup_sums_at(u32 number)
{
	return bpf_map_lookup_elem(&cgroup_sums, &number);
}

/* Entry 0 is the root's. */
static inline struct cgroup_ctx *cgroup_at(u32 number)
{
	return bpf_map_lookup_elem(&cgroups, &number);
}

/* Return the cgroup of a task, or NULL if that is gone. */
static inline struct cgroup_ctx *cgroup_of(const struct cgroup_task *c)
{
	struct cgroup_ctx *g = cgroup_at(c->number);

	return g && g->generation == c->generation ? g : NULL;
}

/* Prepare what is known of cgroups. Return 0, or a negative error. */
int cgroup_start(void);

/* Global functions, which the verifier checks once. */

/* Count a task by @weight among its cgroup's; 0: no more. */
int cgroup_recount(struct cgroup_task *c, u32 weight);

/* Add to what the tasks of a cgroup met. */
int cgroup_met(const struct cgroup_task *c, u64 wait_ns, u64 held_ns, u64 stolen_ns);

/* The task @t is of @cgrp from now on. */
__hidden void cgroup_join(struct task_ctx *t, struct cgroup *cgrp);

/* Return what a task of @weight by its nice value weighs in the cgroup of @t. */
static inline u32 cgroup_weigh(const struct task_ctx *t, u32 weight)
{
	const struct cgroup_ctx *g = cgroup_of(&t->cgroup);

	return g ? cgroup_task_weight(weight, g->scale) : weight;
}

/* Count @p among the runnable tasks of its cgroup, if it is not. */
static inline void cgroup_count(const struct task_struct *p, struct task_ctx *t)
{
	u32 weight = p->scx.weight * WEIGHT_PARTS;

	if (t->cgroup.counted != weight)
		cgroup_recount(&t->cgroup, weight);
}

/* It wants to run no more. */
static inline void cgroup_uncount(struct task_ctx *t)
{
	if (t->cgroup.counted)
		cgroup_recount(&t->cgroup, 0);
}

static inline bool in_idle_cgroup(const struct task_struct *p)
{
	const struct cgroup_ctx *g;
	const struct task_ctx *t;

	if (!(cgroups_in_use & CGROUPS_IDLE))
		return false;
	t = task_ctx_of((struct task_struct *)p);
	g = t ? cgroup_of(&t->cgroup) : NULL;
	return g && g->idle;
}

#endif /* VAWARE_CGROUP_BPF_H */
