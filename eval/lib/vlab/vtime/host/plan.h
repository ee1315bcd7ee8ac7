/* SPDX-License-Identifier: GPL-2.0-only */
/* A description of the machine, read. Times in ns. */
#ifndef VT_PLAN_H
#define VT_PLAN_H

#include "host.h"

/* A set of pCPUs or vCPUs. */
typedef struct VtMask {
	uint64_t bits[VT_MAX_PCPUS / 64];
} VtMask;

static inline bool vt_mask_has(const VtMask *mask, int n)
{
	return mask->bits[n / 64] >> (n % 64) & 1;
}

static inline void vt_mask_add(VtMask *mask, int n)
{
	mask->bits[n / 64] |= 1ull << (n % 64);
}

static inline int vt_mask_count(const VtMask *mask)
{
	int i, count = 0;

	for (i = 0; i < VT_MAX_PCPUS / 64; i++)
		count += __builtin_popcountll(mask->bits[i]);
	return count;
}

/* The first member at or after `from`; -1: none. */
static inline int vt_mask_next(const VtMask *mask, int from)
{
	for (; from < VT_MAX_PCPUS; from++) {
		uint64_t rest = mask->bits[from / 64] >> (from % 64);

		if (rest)
			return from + __builtin_ctzll(rest);
		from |= 63;
	}
	return -1;
}

typedef enum VtKind {
	VT_VCPU,
	VT_HOG,	     /* computes for ever */
	VT_BURSTY,   /* on and off by exponential distributions */
	VT_RECORDED, /* on and off by a list, again and again */
	VT_DUTY,     /* real-time: on and off by absolute times */
} VtKind;

typedef struct VtCompetitorPlan {
	VtKind kind;
	VtMask on;  /* pCPUs: one on each, */
	int floats; /* or so many that may run on all of them */
	int64_t weight;
	int64_t on_ns, off_ns, phase_ns; /* duty; bursty: means */
	int64_t *record;		 /* on, off, on, off, ... */
	int nr_record;			 /* even */
} VtCompetitorPlan;

static inline int vt_competitor_count(const VtCompetitorPlan *plan)
{
	return plan->floats ? plan->floats : vt_mask_count(&plan->on);
}

typedef struct VtQuotaPlan {
	VtMask vcpus; /* who shares it */
	int level;    /* 0: a vCPU's own, 1: of a group */
	int64_t runtime_ns, period_ns;
	int64_t phase_ns; /* of the first period; -1: random */
} VtQuotaPlan;

typedef struct VtVcpuPlan {
	VtMask on;
	int64_t weight;
} VtVcpuPlan;

/* What holds from `at_ns` after the start of the shape. */
typedef struct VtSection {
	int64_t at_ns;
	int nr_pcpus;
	int64_t smt_ppm; /* rate of a busy pCPU beside a busy sibling; 0: no SMT */
	int64_t speed_ppm[VT_MAX_PCPUS];
	VtVcpuPlan vcpu[VT_MAX_VCPUS];
	VtQuotaPlan *quota;
	int nr_quotas;
	VtCompetitorPlan *competitor;
	int nr_competitors;
} VtSection;

typedef struct VtPlan {
	int64_t tick_ns;  /* of the host: 1 s / HZ */
	int64_t slice_ns; /* base slice of its fair class */
	VtCosts costs;
	int64_t poll_max_ns, poll_grow_start_ns; /* halt_poll_ns, halt_poll_ns_grow_start */
	int64_t poll_grow, poll_shrink;
	int64_t cycle_ns;   /* the sections repeat; 0: the last one holds for ever */
	VtSection *section; /* by at_ns; the first is at 0 */
	int nr_sections;
} VtPlan;

/* Read a description (grammar: describe.c). NULL: error[] says why. */
VtPlan *vt_plan_read(const char *text, int nr_vcpus, char *error, size_t size);
void vt_plan_free(VtPlan *plan);

/* costs.c: the profile of this name; NULL: there is none. */
const VtCosts *vt_costs_profile(const char *name, size_t length);

#define VT_WEIGHT_NORMAL 1024
#define VT_PPM 1000000

#endif
