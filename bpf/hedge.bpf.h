/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The wake-ups that a vCPU watches (policy/rescue.h), and the trial of that. The timer is pinned to
 * the vCPU of the waker: the one that is woken may be stopped.
 */
#ifndef VAWARE_HEDGE_BPF_H
#define VAWARE_HEDGE_BPF_H

#include "vcpus.bpf.h"

struct hedge_slot {
	u64 claimed_ns; /* of the vCPU that is watched: unchanged while it has not run */
	u32 target;	/* its number + 1; 0: the slot is free */
	u32 hedged;	/* how often */
};

/* Written by one vCPU, in wake-ups and in its timer. */
struct hedges {
	struct bpf_timer timer;
	u64 due_ns; /* when the timer fires; 0 or long past: it is not armed */
	struct hedge_slot slots[HEDGE_SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set to nr_cpu_ids before load */
	__type(key, u32);
	__type(value, struct hedges);
} vcpu_hedges SEC(".maps") __weak;

static inline struct hedges *hedges_of(s32 cpu)
{
	u32 key = cpu;

	return bpf_map_lookup_elem(&vcpu_hedges, &key);
}

/* Watch the wake-up of @target, which began at @now, from this vCPU. */
static inline void hedge_watch(s32 target, u64 now)
{
	u64 within_ns = rescue_hedge_ns(wake_typical_ns);
	s32 cpu = bpf_get_smp_processor_id();
	struct hedges *h;
	u32 i;

	if (cpu == target)
		return;
	h = hedges_of(cpu);
	if (!h)
		return;
	for (i = 0; i < HEDGE_SLOTS; i++) {
		struct hedge_slot *slot = &h->slots[i];

		if (slot->target)
			continue;
		slot->claimed_ns = now;
		slot->hedged = 0;
		slot->target = target + 1;
		count(VAWARE_RESCUE_WATCHED);
		break;
	}
	if (h->due_ns && time_before(now, h->due_ns + HEDGE_MAX_NS) &&
	    time_before(h->due_ns, now + within_ns))
		return;
	h->due_ns = now + within_ns;
	bpf_timer_start(&h->timer, within_ns, BPF_F_TIMER_CPU_PIN);
}

/*
 * Return true if @t, which wakes on @v at @now, is to be within reach of others meanwhile. Its wait
 * counts in the trial while there are vCPUs for which that matters.
 */
static inline bool rescue_wakee(struct task_ctx *t, const struct vcpu_ctx *v, u64 now)
{
	bool late, on;

	t->rescue_arm = 0;
	if (!policy_on(VAWARE_POLICY_RESCUE))
		return false;
	late = rescue_in_reach(v->wake_excess_ns, wake_typical_ns);
	if (late)
		put_off(&late_until_ns, now);
	if (!time_before(now, late_until_ns))
		return false;
	on = rescue_in_epoch(trial_epoch(now), rescue_trial.verdict);
	t->rescue_arm = 1 + on;
	return late && on;
}

/* Take down for the trial that @t waited for @wait_ns, until now, for @v. */
static inline void rescue_measure(struct task_ctx *t, struct vcpu_ctx *v, struct vaware_stats *s,
				  u64 wait_ns, u64 now)
{
	u32 with = t->rescue_arm == 2;
	struct vaware_trial *trial = &rescue_trial;

	if (!t->rescue_arm)
		return;
	t->rescue_arm = 0;
	s->rescue_wait_ns[with] += wait_ns;
	s->rescue_wakes[with]++;
	if (v->trial_told_epoch == trial_epoch(now))
		return;
	v->trial_wait_ns[with] += wait_ns;
	if (++v->trial_wakes[with] < RESCUE_TRIAL_BATCH)
		return;
	trial_add(with ? &trial->with : &trial->without, v->trial_wait_ns[with],
		  v->trial_wakes[with], RESCUE_TRIAL_MAX);
	v->trial_wait_ns[with] = 0;
	v->trial_wakes[with] = 0;
	v->trial_told_epoch = trial_epoch(now);
	trial->verdict = trial_verdict(trial->verdict, &trial->without, &trial->with, RESCUE_MARGIN,
				       RESCUE_TRIAL_MIN);
}

#endif /* VAWARE_HEDGE_BPF_H */
