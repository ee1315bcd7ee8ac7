/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A simulated host: physical CPUs (pCPUs), the vCPUs of one VM, and what competes with them.
 *
 * The caller executes the vCPUs; this decides where and when each may run. It is a pure
 * discrete-event simulation: no clock, no threads, no I/O, deterministic by seed. One thread calls.
 *
 * Each pCPU that runs a vCPU has a clock of its own. The caller always advances the one that is
 * furthest behind, by a quantum of its choice; the clocks differ by at most that quantum. Events of
 * the host (ticks, competitors, quotas) happen at their exact time, between turns.
 *
 *	for (;;) {
 *		switch (vt_host_next(host, next_guest_timer_ns, &turn)) {
 *		case VT_RUN:	execute turn.vcpu for at most turn.work_ns; then
 *				vt_host_ran(), and vt_host_halt() if it halted
 *		case VT_LIMIT:	fire the guest's timers, vt_host_wake()
 *		case VT_IDLE:	wait for the outside, vt_host_advance(), vt_host_wake()
 *		}
 *	}
 *
 * All times are ns of one virtual clock that starts at 0 and never runs backwards. A time in the
 * past counts as vt_host_frontier_ns(). vCPUs are 0 to nr_vcpus - 1; a number outside is ignored.
 */
#ifndef VT_HOST_H
#define VT_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VT_MAX_PCPUS 256
#define VT_MAX_VCPUS 256

typedef struct VtHost VtHost;

/* What vt_host_next() found. */
typedef enum VtNext {
	VT_RUN,	  /* a vCPU's turn */
	VT_LIMIT, /* the host has come to the limit */
	VT_IDLE,  /* every vCPU is halted, and no wake-up is on its way */
} VtNext;

/* A stretch of time in which a vCPU has a pCPU for itself. */
typedef struct VtTurn {
	int vcpu;
	int pcpu;
	int64_t now_ns;	 /* the pCPU's clock */
	int64_t work_ns; /* what it may do until the host decides again, at full speed; at least 1
			  */
} VtTurn;

/* Why the scheduling of an entity changed. */
typedef enum VtWhy {
	VT_WHY_IN,	  /* runs now */
	VT_WHY_PREEMPTED, /* stopped, though it would go on */
	VT_WHY_HALTED,	  /* stopped: a vCPU halts, a competitor sleeps */
	VT_WHY_THROTTLED, /* its quota is used up */
	VT_WHY_UNTHROTTLED,
	VT_WHY_WOKEN,	   /* wants to run from now on */
	VT_WHY_MIGRATED,   /* waits on this pCPU now */
	VT_WHY_POLL_START, /* halted, and KVM polls for its wake-up: keeps the pCPU */
	VT_WHY_POLL_END,
} VtWhy;

/*
 * Called for each change, in order of time on each pCPU. entity: a vCPU, or nr_vcpus + n for the
 * competitor n (see vt_host_competitor()). The truth is up to date. It must not call back into the
 * host except for what reads.
 */
typedef void VtOnSwitch(void *arg, int64_t now_ns, int pcpu, int entity, VtWhy why);

/* The truth of a vCPU since vt_host_new(), of a competitor since the shape or phase began. */
typedef struct VtTruth {
	int64_t ran_ns;	     /* on a pCPU, at whatever speed; with overhead_ns, without polled_ns */
	int64_t stolen_ns;   /* wanted to run and did not: what KVM counts as steal time */
	int64_t polled_ns;   /* on a pCPU, in the host's halt polling */
	int64_t overhead_ns; /* of ran_ns: costs of virtualization */
	int64_t slices;	     /* times it got a pCPU */
	int64_t halts;
	int64_t migrations; /* to another pCPU */
	int pcpu;	    /* where it is, or was last */
	bool on_pcpu;	    /* runs or polls now */
	bool wants;	    /* not halted */
} VtTruth;

/* Costs of virtualization, ns. costs.c names the source of each. */
typedef struct VtCosts {
	/* charged here, to the vCPU's pCPU */
	int64_t halt_ns;	/* the exit by HLT */
	int64_t wake_ns;	/* from the wake-up to guest code, if it was blocked */
	int64_t wake_polled_ns; /* the same, if the host polled */
	int64_t host_switch_ns; /* from another task of the pCPU to this vCPU */
	/* for the caller */
	int64_t ipi_ns;		/* what sending an interrupt takes of the sender's time */
	int64_t ipi_latency_ns; /* from there to the handler, if the other vCPU runs */
	int64_t timer_ns;	/* arming the local timer once, with the exit when it expires */
} VtCosts;

/*
 * A host with `nr_vcpus` (1 to VT_MAX_VCPUS) vCPUs, all halted, a pCPU of its own for each.
 * `seed` decides all that is random: phases of ticks and quotas, bursts. NULL: no memory, or
 * nr_vcpus out of range.
 */
VtHost *vt_host_new(int nr_vcpus, uint64_t seed);
void vt_host_free(VtHost *host);

/*
 * Replace the shape by the description `text` (grammar: describe.c; empty: a pCPU for each vCPU)
 * from now_ns on. Returns 0; or -1 with a sentence in error[0..size), and the old shape stays.
 */
int vt_host_shape(VtHost *host, const char *text, int64_t now_ns, char *error, size_t size);

/* From now_ns on the vCPU can execute instructions. No effect if it already can. */
void vt_host_wake(VtHost *host, int vcpu, int64_t now_ns);
/*
 * The vCPU can execute nothing any more: it runs and has executed HLT, or it waits for a pCPU and
 * what it was woken for is gone. A running one halts at its pCPU's clock. No effect if it is
 * halted.
 */
void vt_host_halt(VtHost *host, int vcpu, int64_t now_ns);
/* The guest lets the host poll when this vCPU halts (default), or not: MSR_KVM_POLL_CONTROL. */
void vt_host_poll_control(VtHost *host, int vcpu, bool enabled);

/*
 * Find the next turn before limit_ns. Events of the host up to there are handled inside.
 * VT_RUN: *turn is set, and vt_host_ran() must follow before the next call.
 */
VtNext vt_host_next(VtHost *host, int64_t limit_ns, VtTurn *turn);
/*
 * The vCPU of the turn has done work_ns (>= 0) of work as counted at full speed, and caused
 * cost_ns (>= 0) of overhead. Its pCPU's clock moves by work_ns / speed + cost_ns.
 */
void vt_host_ran(VtHost *host, int vcpu, int64_t work_ns, int64_t cost_ns);

/* The time that all pCPUs have reached as of the last call of vt_host_next() or _advance(). */
int64_t vt_host_frontier_ns(const VtHost *host);
/* No vCPU runs until now_ns: let the host get there. Stops at the first vCPU that can run. */
void vt_host_advance(VtHost *host, int64_t now_ns);
/* The whole VM stands still for `ns`, as in a migration: the clock jumps, nothing is stolen. */
void vt_host_pause(VtHost *host, int64_t ns);

/* The truth of an entity (see VtOnSwitch), as of its pCPU's clock. false: there is none such. */
bool vt_host_truth(const VtHost *host, int entity, VtTruth *truth);
/* The competitor's name, such as "hog 0 on 3"; NULL: there is none such. */
const char *vt_host_competitor(const VtHost *host, int n);
void vt_host_on_switch(VtHost *host, VtOnSwitch *call, void *arg);

int vt_host_nr_pcpus(const VtHost *host);
/* Costs of the shape that holds. */
const VtCosts *vt_host_costs(const VtHost *host);
/* The vCPU's halt_poll_ns: how long the host will poll when it halts next. */
int64_t vt_host_halt_poll_ns(const VtHost *host, int vcpu);
/* Events of the host handled so far: what bounds the work inside a call. */
int64_t vt_host_nr_events(const VtHost *host);

#endif
