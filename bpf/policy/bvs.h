/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Biased vCPU selection (vSched 3.2): a task goes where it will run soonest, by one number for
 * every state that a vCPU can be in: the expected delay.
 */
#ifndef VAWARE_POLICY_BVS_H
#define VAWARE_POLICY_BVS_H

#include "../intf.h"
#include "tunables.h"

/* A vCPU that a waking task could go to. */
struct candidate {
	u32 class;	  /* enum vaware_class of what runs there; VAWARE_CLASS_NONE: it is idle */
	u32 waiting;	  /* tasks of normal work in its queue */
	bool stopped;	  /* it is believed to be stopped by the hypervisor */
	u64 rest_ns;	  /* if so: how long that is expected to last */
	u64 wake_ns;	  /* if idle: its expected wake-up latency */
	u64 protected_ns; /* if busy: how long what runs there is not preempted */
};

/* Return in how many ns a waking task of normal work is expected to run on @c. */
static inline u64 bvs_delay_ns(const struct candidate *c)
{
	u64 queue_ns = c->waiting * SLICE_NS;

	if (c->class == VAWARE_CLASS_NONE)
		return c->wake_ns + queue_ns;
	if (c->class != VAWARE_CLASS_BEST_EFFORT)
		queue_ns += c->protected_ns;
	return KICK_NS + queue_ns + (c->stopped ? c->rest_ns : 0);
}

/*
 * Return the latency to expect @age_ns after it was last put at @latency_ns. It halves every
 * 2^@half_life_log2 ns, so that a vCPU that nobody uses any more is tried again; by shifts alone,
 * for every wake-up of an idle vCPU asks.
 */
static inline u64 bvs_faded_ns(u64 latency_ns, u64 age_ns, u32 half_life_log2)
{
	u64 halvings = age_ns >> half_life_log2, part_1024;

	if (halvings >= 32)
		return 0;
	latency_ns >>= halvings;
	part_1024 = (age_ns & ((1ULL << half_life_log2) - 1)) >> (half_life_log2 - 10);
	return latency_ns - latency_ns / 2 * part_1024 / 1024;
}

/*
 * Return the wake-up latency to expect after one of @sample_ns, where @expected_ns was expected: a
 * moving mean. What one met says little of the next.
 */
static inline u64 bvs_learnt_ns(u64 expected_ns, u64 sample_ns)
{
	if (sample_ns > expected_ns)
		return expected_ns + (sample_ns - expected_ns) / WAKE_LEARN_PARTS;
	return expected_ns - (expected_ns - sample_ns) / WAKE_LEARN_PARTS;
}

/*
 * The same for the lateness of timers. It rises faster than it falls: on a vCPU that is seldom
 * stopped, but for long, most timers are on time, and a task that sleeps there meets each stop.
 */
static inline u64 bvs_learnt_late_ns(u64 expected_ns, u64 sample_ns)
{
	if (sample_ns > expected_ns)
		return expected_ns + (sample_ns - expected_ns) / LATE_LEARN_PARTS;
	return expected_ns - (expected_ns - sample_ns) / EARLY_LEARN_PARTS;
}

/* Return what it costs to sleep, and wake by timers, where those are @late_ns late. */
static inline u64 bvs_sleep_ns(u64 late_ns)
{
	return SLEEPS_AHEAD * late_ns;
}

/*
 * Return how long a timer wakee that a vCPU with timers @late_ns late has sent to another is left
 * to that one, where it runs and wakes @there_ns late. Nothing else keeps it from those that are
 * awake sooner: they would have it sleep with their late timers again. 0: the two differ too little
 * for the wait to be worth it.
 */
static inline u64 bvs_keep_ns(u64 late_ns, u64 there_ns)
{
	u64 keep_ns = late_ns / TIMER_WAKEE_WAIT_PARTS;

	return keep_ns > there_ns ? keep_ns : 0;
}

/* Return true if a task that would run after @delay_ns need not look any further. */
static inline bool bvs_good(u64 delay_ns)
{
	return delay_ns <= WAKE_GOOD_NS;
}

#endif
