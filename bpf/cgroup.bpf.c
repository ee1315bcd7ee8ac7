/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cgroups: they come, go and change, and a timer computes what each is due.
 *
 * Weights, limits and cpu.idle are read from the kernel's task_group: kernels differ in which
 * changes they tell a scheduler of, and all have it there. What they do tell only makes the next
 * pass come at once.
 */
#include "cgroup.bpf.h"
#include "limit.bpf.h"

u32 cgroups_in_use;
u32 cgroups_epoch;

static u32 cgroups_end;	      /* above all entries that are in use */
static u32 cgroup_first_free; /* no entry below it is free */
static u64 cgroups_load;      /* average weight of all that is runnable */
static u32 cgroup_passes;
u32 cgroups_asleep; /* nothing was runnable at the last pass: the next one is far off */

/* The number of a cgroup's entry. */
struct cgroup_number {
	u32 number;
	u32 owned; /* else it is that of the parent, as there were too many */
};

struct {
	__uint(type, BPF_MAP_TYPE_CGRP_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cgroup_number);
} cgroup_numbers SEC(".maps");

struct cgroup_timer {
	struct bpf_timer timer; /* for the next pass, or before that for a limit alone */
	u64 pass_ns;		/* when the next pass is due */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2); /* one is used */
	__type(key, u32);
	__type(value, struct cgroup_timer);
} cgroup_timers SEC(".maps");

/* Have the next pass come in @ns. */
static void cgroup_pass_in(u64 ns)
{
	struct cgroup_timer *timer;
	u32 key = 0;

	timer = bpf_map_lookup_elem(&cgroup_timers, &key);
	if (!timer)
		return;
	timer->pass_ns = now_unlocked_ns() + ns;
	bpf_timer_start(&timer->timer, ns, 0);
}

/* Return the kernel's task_group of @g; NULL: it has none yet, as it is being made. */
static const struct task_group *task_group_of(const struct cgroup_ctx *g)
{
	u32 id = bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id);
	struct cgroup *cgrp = (struct cgroup *)g->cgroup;
	u64 css = 0; /* the first field of a task_group */

	bpf_probe_read_kernel(&css, sizeof(css), &cgrp->subsys[0] + id);
	return (const struct task_group *)css;
}

/* Read what the kernel has for @g. */
static void cgroup_read(struct cgroup_ctx *g, u64 now)
{
	const struct task_group *tg = task_group_of(g);
	struct cgroup_quota quota = {};

	if (!tg)
		return;
	if (bpf_core_field_exists(tg->shares))
		g->weight = cgroup_weight_of_shares(BPF_CORE_READ(tg, shares));
	if (bpf_core_field_exists(tg->idle))
		g->own_idle = BPF_CORE_READ(tg, idle) > 0;
	if (bpf_core_field_exists(tg->cfs_bandwidth)) {
		quota.quota_ns = BPF_CORE_READ(tg, cfs_bandwidth.quota);
		quota.period_ns = BPF_CORE_READ(tg, cfs_bandwidth.period);
		quota.burst_ns = BPF_CORE_READ(tg, cfs_bandwidth.burst);
	}
	if (quota.quota_ns == ~0ULL || !quota.period_ns) /* RUNTIME_INF */
		quota = (struct cgroup_quota){};
	if (cgroup_quota_same(&quota, &g->quota))
		return;
	g->quota = quota;
	g->left_ns = quota.quota_ns;
	g->due_ns = now + quota.period_ns;
}

/* Return what @g has that has to be honored (CGROUPS_*). */
static u32 cgroup_uses(const struct cgroup_ctx *g)
{
	u32 uses = 0;

	if (g->weight != WEIGHT_NICE_0)
		uses |= CGROUPS_WEIGHED;
	if (g->quota.quota_ns || g->held_ns) /* who is held when a limit goes is to be let go */
		uses |= CGROUPS_LIMITED;
	if (g->own_idle)
		uses |= CGROUPS_IDLE;
	return uses;
}

/* Have a pass come at once if @g has what no cgroup had so far. */
static void cgroup_changed(const struct cgroup_ctx *g)
{
	if (g && (cgroup_uses(g) & ~cgroups_in_use))
		cgroup_pass_in(0);
}

/* The kernel has another weight, limit or cpu.idle for @cgrp. */
static void cgroup_set(struct cgroup *cgrp)
{
	const struct cgroup_number *n = bpf_cgrp_storage_get(&cgroup_numbers, cgrp, 0, 0);
	struct cgroup_ctx *g = n && n->owned ? cgroup_at(n->number) : NULL;

	if (!g)
		return;
	cgroup_read(g, now_unlocked_ns());
	cgroup_changed(g);
}

/*
 * Take over for @g, with @number, what comes from its parent @above. Of more limits in a row than
 * are looked at, the outer ones count: they are not those of whom they limit.
 */
static void cgroup_inherit(struct cgroup_ctx *g, const struct cgroup_ctx *above, u32 number)
{
	bool limits = g->quota.quota_ns && above->limits < CGROUP_LEVELS;

	g->above = above->limiter;
	g->limiter = limits ? number : above->limiter;
	g->limits = above->limits + limits;
	g->idle = g->own_idle || above->idle;
}

/* Begin to add up what the tasks of @cgrp meet. */
static void cgroup_begin_sums(const struct cgroup *cgrp, u32 number)
{
	const struct kernfs_node *kn = BPF_CORE_READ(cgrp, kn);
	struct vaware_cgroup *sums = cgroup_sums_at(number);

	if (sums && kn)
		*sums = (struct vaware_cgroup){ .id = BPF_CORE_READ(kn, id) };
}

/* Return the number of an entry for @cgrp; 0: there is none left. */
static u32 cgroup_take_entry(const struct cgroup *cgrp, u32 parent)
{
	struct cgroup_ctx *g = NULL;
	const struct cgroup_ctx *above;
	u32 number;

	bpf_for (number, cgroup_first_free, CGROUPS_MAX) {
		g = cgroup_at(number);
		if (!g || !g->used)
			break;
	}
	cgroup_first_free = number;
	if (!g || g->used)
		return 0;
	above = cgroup_at(parent);
	if (!above)
		return 0;
	g->cgroup = (u64)cgrp;
	g->weight = WEIGHT_NICE_0;
	g->own_idle = 0;
	g->parent = parent;
	g->scale = CGROUP_SCALE_ONE;
	g->runnable = 0;
	g->own = g->children = g->credit = g->held_ns = 0;
	g->demand = 1;
	g->children_active = g->active_1024 = 0;
	g->quota = (struct cgroup_quota){};
	cgroup_read(g, now_unlocked_ns());
	cgroup_inherit(g, above, number);
	g->used = 1;
	if (cgroups_end <= number)
		cgroups_end = number + 1;
	return number;
}

/* Called for one cgroup at a time, parents first: the kernel has cgroup_mutex. */
s32 BPF_STRUCT_OPS_SLEEPABLE(vaware_cgroup_init, struct cgroup *cgrp,
			     struct scx_cgroup_init_args *args)
{
	struct cgroup_number *n, *of_parent;
	struct cgroup *parent;
	u32 at = 0;
	s32 err;

	n = bpf_cgrp_storage_get(&cgroup_numbers, cgrp, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!n)
		return -ENOMEM;
	if (cgrp->level > 0) {
		parent = bpf_cgroup_ancestor(cgrp, cgrp->level - 1);
		if (!parent)
			return -ENOENT;
		of_parent = bpf_cgrp_storage_get(&cgroup_numbers, parent, 0, 0);
		at = of_parent ? of_parent->number : 0;
		bpf_cgroup_release(parent);
	}
	n->number = cgroup_take_entry(cgrp, at);
	n->owned = n->number || !cgrp->level;
	if (!n->owned) {
		n->number = at;
		return 0;
	}
	cgroup_begin_sums(cgrp, n->number);
	err = limit_init(n->number);
	if (!err)
		cgroup_changed(cgroup_at(n->number));
	return err;
}

void BPF_STRUCT_OPS(vaware_cgroup_exit, struct cgroup *cgrp)
{
	struct cgroup_number *n = bpf_cgrp_storage_get(&cgroup_numbers, cgrp, 0, 0);
	struct cgroup_ctx *g = n && n->owned ? cgroup_at(n->number) : NULL;
	struct vaware_cgroup *sums = n ? cgroup_sums_at(n->number) : NULL;

	if (!g)
		return;
	if (sums)
		sums->id = 0;
	g->generation++;
	g->used = 0;
	g->cgroup = 0;
	if (n->number < cgroup_first_free)
		cgroup_first_free = n->number;
	n->owned = 0;
}

void cgroup_join(struct task_ctx *t, struct cgroup *cgrp)
{
	const struct cgroup_number *n = bpf_cgrp_storage_get(&cgroup_numbers, cgrp, 0, 0);
	u32 number = n ? n->number : 0;
	const struct cgroup_ctx *g = cgroup_at(number);

	cgroup_uncount(t);
	t->cgroup.number = number;
	t->cgroup.generation = g ? g->generation : 0;
}

/* @p, dequeued, is queued again after this. */
void BPF_STRUCT_OPS(vaware_cgroup_move, struct task_struct *p, struct cgroup *from,
		    struct cgroup *to)
{
	struct task_ctx *t = task_ctx_of(p);

	if (t)
		cgroup_join(t, to);
}

void BPF_STRUCT_OPS(vaware_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	cgroup_set(cgrp);
}

void BPF_STRUCT_OPS(vaware_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us,
		    u64 burst_us)
{
	cgroup_set(cgrp);
}

void BPF_STRUCT_OPS(vaware_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	cgroup_set(cgrp);
}

__noinline int cgroup_recount(struct cgroup_task *c, u32 weight)
{
	struct cgroup_ctx *g;

	if (!c)
		return 0;
	g = cgroup_of(c);
	if (g)
		__sync_fetch_and_add(&g->runnable, (s64)weight - (s64)c->counted);
	c->counted = weight;
	if (weight && cgroups_asleep) {
		cgroups_asleep = 0;
		cgroup_pass_in(CGROUP_PASS_NS);
	}
	return 0;
}

__noinline int cgroup_met(const struct cgroup_task *c, u64 wait_ns, u64 held_ns, u64 stolen_ns)
{
	struct vaware_cgroup *sums = c && cgroup_of(c) ? cgroup_sums_at(c->number) : NULL;

	if (!sums)
		return 0;
	if (wait_ns)
		__sync_fetch_and_add(&sums->wait_ns, wait_ns);
	if (held_ns)
		__sync_fetch_and_add(&sums->held_ns, held_ns);
	if (stolen_ns)
		__sync_fetch_and_add(&sums->stolen_ns, stolen_ns);
	return 0;
}

/* What one pass over all cgroups adds up. */
struct cgroup_pass {
	u64 now;
	u64 load;
	u32 in_use;
	u32 active;
	u32 ready;  /* the number of one with tasks in its backlog; 0: none */
	u64 due_ns; /* when the first of those gets something */
};

/*
 * Compute the share of @g, whose parent is @above. Sums of children are those that have been added
 * up since it was last visited: each child adds once a pass.
 */
static void cgroup_share(struct cgroup_ctx *g, struct cgroup_ctx *above, struct cgroup_pass *pass)
{
	u64 runnable = g->runnable > 0 ? g->runnable : 0, children = g->children, scale;
	bool active = runnable || g->children_active, root = g == above;

	g->children = 0;
	g->children_active = false;
	g->own = cgroup_average(g->own, runnable);
	g->active_1024 = cgroup_average(g->active_1024, active ? 1024 : 0);
	if (!g->active_1024)
		return;
	pass->active = true;
	pass->load += g->own;
	g->demand = cgroup_demand(g->own, children, g->active_1024);
	if (root) {
		g->credit = cgroup_root_credit(cgroups_load);
	} else {
		g->credit = cgroup_credit(above->credit, g->weight, above->demand);
		above->children += g->weight * g->active_1024 / 1024;
		above->children_active |= active;
	}
	scale = cgroup_scale(g->credit, g->demand);
	if (cgroup_scale_differs(scale, g->scale))
		g->scale = scale; /* a cache line of all vCPUs */
}

/* Look after the limit of one cgroup. Global, here and below: the verifier checks it once. */
__noinline int cgroup_visit_limit(u32 number, struct cgroup_pass *pass)
{
	struct cgroup_ctx *g = cgroup_at(number);

	if (!g || !pass || (!g->quota.quota_ns && !g->held_ns))
		return 0;
	if (!limit_look_after(number, pass->now))
		return 0;
	pass->ready = number;
	if (g->quota.quota_ns && time_before(g->due_ns, pass->due_ns))
		pass->due_ns = g->due_ns;
	return 0;
}

/* Look after one cgroup. */
__noinline int cgroup_visit(u32 number, struct cgroup_pass *pass)
{
	struct cgroup_ctx *g = cgroup_at(number), *above;

	if (!g || !pass || !g->used)
		return 0;
	above = number ? cgroup_at(g->parent) : g;
	if (!above)
		return 0;
	if (!((cgroup_passes + number) % CGROUP_READ_PASSES) || !cgroups_in_use)
		cgroup_read(g, pass->now);
	if (number) {
		pass->in_use |= cgroup_uses(g);
		cgroup_inherit(g, above, number);
	}
	if (!cgroups_in_use)
		return 0;
	cgroup_share(g, above, pass);
	cgroup_visit_limit(number, pass);
	return g->held_ns ? pass->active = true : 0;
}

/* The timer came for a limit: let go who was held by it until its period ended. */
static void cgroup_limits(struct cgroup_timer *timer, struct cgroup_pass *pass)
{
	u32 number;

	pass->due_ns = timer->pass_ns;
	bpf_for (number, 0, cgroups_end)
		cgroup_visit_limit(number, pass);
	limit_ready = pass->ready;
	bpf_timer_start(&timer->timer, cgroup_timer_in_ns(pass->now, pass->due_ns), 0);
}

static int cgroup_pass(void *map, u32 *key, struct cgroup_timer *timer)
{
	struct cgroup_pass pass = { .now = now_unlocked_ns() };
	u32 number;

	if (time_before(pass.now + LIMIT_TIMER_MIN_NS, timer->pass_ns)) {
		cgroup_limits(timer, &pass);
		return 0;
	}
	pass.due_ns = pass.now + CGROUP_PASS_NS;
	bpf_for (number, 0, cgroups_end)
		cgroup_visit(number, &pass);
	cgroup_passes++;
	cgroups_load = pass.load;
	limit_ready = pass.ready;
	/* What has just come into use is counted from now on, and will be active. */
	pass.active |= cgroups_in_use != pass.in_use;
	if (!cgroups_in_use && pass.in_use)
		cgroups_epoch++;
	cgroups_in_use = pass.in_use;
	if (pass.in_use && pass.active) {
		timer->pass_ns = pass.now + CGROUP_PASS_NS;
		bpf_timer_start(&timer->timer, cgroup_timer_in_ns(pass.now, pass.due_ns), 0);
		return 0;
	}
	cgroup_pass_in(CGROUP_IDLE_PASS_NS);
	cgroups_asleep = 1;
	return 0;
}

int cgroup_start(void)
{
	struct cgroup_timer *timer;
	u32 key = 0;
	int err;

	timer = bpf_map_lookup_elem(&cgroup_timers, &key);
	if (!timer)
		return -ENOENT;
	err = bpf_timer_init(&timer->timer, &cgroup_timers, CLOCK_MONOTONIC);
	if (!err)
		err = bpf_timer_set_callback(&timer->timer, cgroup_pass);
	if (!err)
		cgroup_pass_in(CGROUP_PASS_NS);
	return err;
}
