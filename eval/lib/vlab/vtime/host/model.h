/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of the simulated host share. Times are ns of the host's own clock, which is the
 * caller's without the time in which the VM was paused.
 */
#ifndef VT_MODEL_H
#define VT_MODEL_H

#include "host.h"
#include "plan.h"

#define VT_NEVER INT64_MAX

/* A min-heap of items 0 to n - 1 by time, ties by number. Nothing is allocated after it is made. */
typedef struct VtHeap {
	int nr;
	int *order; /* items, by heap order */
	int *place; /* of each item in order[]; -1: not in */
	int64_t *time;
} VtHeap;

bool vt_heap_make(VtHeap *heap, int items);
void vt_heap_free(VtHeap *heap);
void vt_heap_clear(VtHeap *heap, int items);
/* Put the item in at this time, move it there, or take it out (VT_NEVER). */
void vt_heap_set(VtHeap *heap, int item, int64_t time);

static inline int64_t vt_heap_first_time(const VtHeap *heap)
{
	return heap->nr ? heap->time[heap->order[0]] : VT_NEVER;
}

typedef struct VtEntity VtEntity;
typedef struct VtQuota VtQuota;

/* A list of entities in order of arrival. */
typedef struct VtList {
	VtEntity *first, *last;
	int nr;
} VtList;

struct VtEntity {
	int id;
	VtKind kind;
	bool wants; /* would run if it had a pCPU */
	bool polls; /* a vCPU, halted, in the host's halt polling */
	int pcpu;   /* where it runs, waits, or was last */
	VtMask allowed;
	int64_t waits_since; /* while it wants to run and does not */
	int64_t seen_ns;     /* when it last was on a pCPU */
	int64_t cost_ns;     /* due when it gets a pCPU */

	/* fair class (eevdf.c) */
	int64_t weight; /* 1024: normal */
	int64_t vruntime, deadline;
	int64_t lag;		    /* while not queued */
	int64_t charged_ns;	    /* clock up to which vruntime counts */
	int64_t protected_deadline; /* has the pCPU until its vruntime comes there */
	bool queued;		    /* counts in its runqueue: runs, waits, or is delayed */
	bool delayed;		    /* sleeps, but stays until its lag is paid */
	bool relative;		    /* deadline is relative to vruntime: it migrates */
	VtEntity *prev, *next;

	VtQuota *quota[2]; /* its own, and its group's */
	bool throttled;	   /* wants, but is kept off its runqueue */

	/* vCPU */
	int64_t wake_ns;   /* a wake-up on its way */
	int64_t halted_ns; /* since when */
	bool blocked;	   /* and gave up its pCPU */
	int64_t halt_poll_ns;
	bool poll_allowed;

	/* competitor (competitor.c) */
	const VtCompetitorPlan *plan;
	int64_t left_ns;   /* of its demand for CPU time; VT_NEVER: endless */
	int64_t toggle_ns; /* when it next begins, or ends, by its own will */
	int step;	   /* of a record */
	char name[32];

	VtTruth truth;
};

typedef struct VtPcpu {
	int index;
	int64_t clock;
	int64_t speed_ppm;
	int64_t capacity_ppm; /* what duties leave of its speed */
	int64_t remainder;    /* of the division of work by speed */
	int sibling;	      /* shares its core; -1: none */
	VtEntity *curr;	      /* runs or polls; NULL: idle */
	VtEntity *last;	      /* what ran last: a switch to another task costs */
	VtList rt;	      /* duties that are on; one of them is curr */
	VtList fair;	      /* queued, without the one that runs */
	bool resched;
	int64_t balance_ns; /* when it looks for tasks next */
	int balance_failed;
} VtPcpu;

/* A quota's runtime on one pCPU, as the kernel's cfs_rq of a group. */
typedef struct VtQuotaPcpu {
	int64_t left_ns;
	bool throttled;
	int members; /* queued there */
	int after;   /* next of the throttled pCPUs, -1: last */
} VtQuotaPcpu;

struct VtQuota {
	int index;
	const VtQuotaPlan *plan;
	int64_t left_ns;
	int64_t period_ns; /* when the next period begins */
	int64_t slack_ns;  /* when returned runtime is handed out */
	int first_throttled, last_throttled;
	VtQuotaPcpu *on; /* per pCPU */
};

struct VtHost {
	int nr_vcpus, nr_entities, nr_pcpus, nr_quotas;
	int64_t now;	   /* what all have reached */
	int64_t paused_ns; /* the caller's clock is ahead by this */
	int64_t nr_events;
	uint64_t random;
	int nr_wanting; /* vCPUs that want to run, or will be woken */

	VtPlan *plan;		  /* the whole text */
	const VtSection *section; /* the part that holds */
	int next_section;
	int64_t cycle_start, section_ns; /* when next_section begins */
	int64_t tick_ns, tick_phase;
	bool balances; /* an entity may run on more than one pCPU */

	VtPcpu pcpu[VT_MAX_PCPUS];
	VtEntity *entity; /* vCPUs, then competitors */
	VtQuota *quota;
	int room_quotas, room_timers;
	VtHeap runners; /* pCPUs that run a vCPU, by clock */
	VtHeap timers;	/* all other events: see VT_TIMER_* */

	VtOnSwitch *on_switch;
	void *on_switch_arg;
};

/* Items of VtHost.timers, in the order in which they happen at equal times. */
#define VT_TIMER_SECTION 0
#define VT_TIMER_QUOTA 1
static inline int vt_timer_entity(const VtHost *h, int id)
{
	return VT_TIMER_QUOTA + h->nr_quotas + id;
}
static inline int vt_timer_pcpu(const VtHost *h, int p)
{
	return VT_TIMER_QUOTA + h->nr_quotas + h->nr_entities + p;
}

/* random.c */
uint64_t vt_random(VtHost *h);
int64_t vt_random_below(VtHost *h, int64_t bound);
int64_t vt_random_exponential(VtHost *h, int64_t mean);

/* truth.c */
void vt_event(VtHost *h, int64_t now, int pcpu, const VtEntity *e, VtWhy why);
/* The pCPU's vCPU has run for `ns`. */
void vt_clock_run(VtHost *h, VtPcpu *p, int64_t ns);
/* Let the clock of a pCPU without a running vCPU come to `now`. */
void vt_clock_to(VtPcpu *p, int64_t now);
void vt_waits(VtEntity *e, int64_t now);
void vt_waited(VtEntity *e, int64_t now);

/* eevdf.c: the runqueue of a pCPU's fair class */
typedef enum VtDequeue {
	VT_DEQUEUE_SLEEP,
	VT_DEQUEUE_THROTTLE,
	VT_DEQUEUE_MIGRATE,
} VtDequeue;

bool vt_is_fair(const VtEntity *e);
void vt_fair_update(VtHost *h, VtPcpu *p);
void vt_fair_enqueue(VtHost *h, VtPcpu *p, VtEntity *e);
void vt_fair_dequeue(VtHost *h, VtPcpu *p, VtEntity *e, VtDequeue how);
void vt_fair_finish_delayed(VtHost *h, VtPcpu *p, VtEntity *e);
void vt_fair_put(VtPcpu *p, VtEntity *e);
void vt_fair_set(VtPcpu *p, VtEntity *e);
VtEntity *vt_fair_best(const VtPcpu *p);
VtEntity *vt_fair_pick(VtHost *h, VtPcpu *p);
/* Entities that could run: queued and not delayed, with the one that runs. */
int vt_fair_runnable(const VtPcpu *p);
int64_t vt_fair_load(const VtPcpu *p);

/* list.c */
void vt_list_add(VtList *list, VtEntity *e);
void vt_list_remove(VtList *list, VtEntity *e);

/* sched.c: which entity has a pCPU */
void vt_schedule(VtHost *h, VtPcpu *p);
void vt_wakeup(VtHost *h, VtEntity *e, int64_t now);
void vt_sleep(VtHost *h, VtEntity *e);
void vt_queue(VtHost *h, VtPcpu *p, VtEntity *e);
void vt_unqueue(VtHost *h, VtEntity *e, VtDequeue how);
void vt_tick(VtHost *h, VtPcpu *p, int64_t now);
int64_t vt_next_tick(const VtHost *h, int64_t now);
void vt_arm_tick(VtHost *h, VtPcpu *p);
void vt_arm_entity(VtHost *h, VtEntity *e);
void vt_charge_cost(VtHost *h, VtPcpu *p, int64_t cost_ns);

/* poll.c */
bool vt_poll_start(VtHost *h, VtPcpu *p, VtEntity *e);
void vt_poll_success(VtHost *h, VtEntity *e);
void vt_poll_give_up(VtHost *h, VtEntity *e);
void vt_poll_adapt(VtHost *h, VtEntity *e, int64_t now);

/* quota.c */
bool vt_quota_charge(VtEntity *e, int64_t ns);
bool vt_quota_stops(VtHost *h, VtEntity *e, int pcpu);
void vt_quota_joins(VtEntity *e, int pcpu);
void vt_quota_leaves(VtHost *h, VtEntity *e, int pcpu, int64_t now);
void vt_quota_timer(VtHost *h, VtQuota *q, int64_t now);
void vt_quota_arm(VtHost *h, VtQuota *q);
void vt_quota_reset(VtHost *h, VtQuota *q, const VtQuotaPlan *plan, int64_t now);

/* balance.c */
VtPcpu *vt_balance_place(VtHost *h, VtEntity *e);
bool vt_balance_newly_idle(VtHost *h, VtPcpu *p);
void vt_balance_tick(VtHost *h, VtPcpu *p);

/* competitor.c */
void vt_competitor_start(VtHost *h, VtEntity *e, int64_t now);
void vt_competitor_timer(VtHost *h, VtEntity *e, int64_t now);
void vt_competitor_on(VtHost *h, VtEntity *e, int64_t now);
void vt_competitor_off(VtHost *h, VtEntity *e, int64_t now);

/* section.c: the part of the description that holds */
void vt_section_free_room(VtHost *h);
bool vt_section_make_room(VtHost *h, VtPlan *plan);
void vt_section_apply(VtHost *h, int index, int64_t now);

#endif
