/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The wake-ups that a vCPU watches (policy/rescue.h). Its timer is pinned to it, the vCPU of the
 * waker: the one that is woken may be stopped.
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

#endif /* VAWARE_HEDGE_BPF_H */
