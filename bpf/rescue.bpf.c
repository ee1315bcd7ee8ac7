/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rescue (policy/rescue.h): the wake-ups that a vCPU watches, and the second vCPU that is woken
 * when the first has not begun to run in time. The timer is pinned to the vCPU of the waker: the
 * one that is woken may be stopped.
 */
#include "bvs.bpf.h"
#include "cost.bpf.h"
#include "near.bpf.h"
#include "rescue.bpf.h"
#include "rwc.bpf.h"
#include "wakeup.bpf.h"

#include "policy/rescue.h"

struct rescue_slot {
	u64 claimed_ns; /* of the vCPU that is watched: unchanged while it has not run */
	u32 target;	/* its number + 1; 0: the slot is free */
	u32 hedged;	/* how often */
};

/* Written by one vCPU, in wake-ups and in its timer. */
struct rescue_timer {
	struct bpf_timer timer;
	u64 due_ns; /* when the timer fires; 0 or long past: it is not armed */
	struct rescue_slot slots[RESCUE_SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set to nr_cpu_ids before load */
	__type(key, u32);
	__type(value, struct rescue_timer);
} vcpu_hedges SEC(".maps");

static struct rescue_timer *rescue_timer_of(s32 cpu)
{
	u32 key = cpu;

	return bpf_map_lookup_elem(&vcpu_hedges, &key);
}

bool rescue_wakee(const struct vcpu_ctx *v, u64 now)
{
	return policy_on(VAWARE_POLICY_RESCUE) &&
	       rescue_in_reach(wakeup_expected_ns(v, now), wake_typical_ns);
}

/* Have the timer @h run out @within_ns after @now, unless it does sooner. */
static void rescue_arm(struct rescue_timer *h, u64 within_ns, u64 now)
{
	if (h->due_ns && time_before(now, h->due_ns + RESCUE_AFTER_MAX_NS) &&
	    time_before(h->due_ns, now + within_ns))
		return;
	h->due_ns = now + within_ns;
	bpf_timer_start(&h->timer, within_ns, BPF_F_TIMER_CPU_PIN);
}

void rescue_watch(s32 target, u64 now)
{
	u64 within_ns = rescue_after_ns(wake_typical_ns);
	s32 cpu = bpf_get_smp_processor_id();
	struct rescue_timer *h;
	u32 i;

	if (cpu == target)
		return;
	h = rescue_timer_of(cpu);
	if (!h)
		return;
	for (i = 0; i < RESCUE_SLOTS; i++) {
		struct rescue_slot *slot = &h->slots[i];

		if (slot->target)
			continue;
		slot->claimed_ns = now;
		slot->hedged = 0;
		slot->target = target + 1;
		count(VAWARE_RESCUE_WATCHED);
		break;
	}
	rescue_arm(h, within_ns, now);
}

/*
 * Global functions, which the verifier checks once and not in each way or pass that leads to them:
 * that of 7.0 follows each way through each pass, and gives up after a million instructions.
 */
int rescue_may_take(s32 cpu, s32 stuck);
u64 rescue_look_after(struct rescue_slot *slot, u64 now);

/* NEAR_ACTIVATOR: how late a vCPU is, idle; 0 for one that runs. */
__noinline u64 rescue_activator_cost(struct task_struct *p __arg_trusted, s32 cpu,
				     const struct near *n)
{
	const struct vcpu_ctx *v = vcpu_ctx_of(cpu);

	if (!n || !v || !v->online || !task_may_run(p, cpu))
		return NEAR_NEVER;
	if (near_idle(cpu))
		return wakeup_expected_ns(v, n->now);
	return vcpu_preempted(cpu, n->now) ? NEAR_NEVER : 0;
}

s32 rescue_activate_near(struct task_struct *p, s32 cpu, u64 late_ns, u64 now)
{
	struct near n = {
		.use = NEAR_ACTIVATOR, .now = now, .cost_ns = late_ns, .cpu = cpu, .found = -1
	};
	s32 this_cpu = bpf_get_smp_processor_id(), other;

	if (!queued_wakeup || cpu == this_cpu || !policy_on(VAWARE_POLICY_RESCUE))
		return cpu;
	other = task_may_run(p, this_cpu) ? this_cpu : near_search(p, -1, &n);
	if (other < 0)
		return cpu;
	count(VAWARE_RESCUE_IN_REACH);
	return other;
}

bool rescue_take(struct vcpu_ctx *v, s32 stuck)
{
	v->rescue.from = 0;
	if (!scx_bpf_dsq_move_to_local(vcpu_dsq(stuck, false), 0)) {
		count(VAWARE_RESCUE_WON_FIRST);
		return false;
	}
	count(VAWARE_RESCUE_WON_HEDGE);
	return true;
}

bool rescue_leaves_to(s32 victim, const struct vcpu_ctx *v, s32 cpu, u64 now)
{
	return v->wakeup.claimed_ns && policy_on(VAWARE_POLICY_RESCUE) &&
	       scx_bpf_dsq_nr_queued(vcpu_dsq(victim, false)) &&
	       !rescue_worth_a_move(vcpu_wake_rest_ns(victim, now), vcpu_preemptions_ns(cpu, now));
}

/* Return whether @cpu may run the task that waits first in the queue of @stuck. */
__noinline int rescue_may_take(s32 cpu, s32 stuck)
{
	struct task_struct *head;
	bool may;

	bpf_rcu_read_lock(); /* 6.12 takes the timer for a program that may sleep */
	head = __COMPAT_scx_bpf_dsq_peek(vcpu_dsq(stuck, false));
	may = head && rwc_may_use(head, VAWARE_CLASS_THROUGHPUT, cpu);
	bpf_rcu_read_unlock();
	return may;
}

__noinline int rescue_makes_way(s32 cpu)
{
	const struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	const struct vaware_hints *in;
	u32 i;

	if (!v || v->run.class != VAWARE_CLASS_BEST_EFFORT || !policy_on(VAWARE_POLICY_RESCUE))
		return false;
	in = hints_of(cpu);
	bpf_for (i, 0, VAWARE_CANDIDATES) {
		s32 other = candidate_vcpu(in, cpu, i);

		if (other < 0)
			break;
		if (waiting_at(other, false) && rescue_may_take(cpu, other))
			return true;
	}
	return false;
}

/* NEAR_SECOND: how soon a vCPU takes over from @n->cpu: idle, or with best-effort work only. */
__noinline u64 rescue_second_cost(s32 cpu, const struct near *n)
{
	const struct vcpu_ctx *v = vcpu_ctx_of(cpu);

	if (!n || !v || bvs_keeps_timer_wakee(n->cpu, cpu, n->now) || !rescue_may_take(cpu, n->cpu))
		return NEAR_NEVER;
	if (!near_idle(cpu))
		return runs_best_effort(cpu, v, n->now) ? KICK_NS : NEAR_NEVER;
	return cpu == bpf_get_smp_processor_id() ? 0 : wakeup_expected_ns(v, n->now);
}

/* Send a second vCPU to the queue of @stuck. Return true if there was one. */
static bool rescue_by_second(s32 stuck, u64 now)
{
	struct near n = {
		.use = NEAR_SECOND, .now = now, .cost_ns = NEAR_NEVER, .cpu = stuck, .found = -1
	};
	s32 other = near_search(NULL, -1, &n);
	struct vcpu_ctx *o = other >= 0 ? vcpu_ctx_of(other) : NULL;

	if (!o) {
		count(VAWARE_RESCUE_NOBODY);
		return false;
	}
	o->rescue.from = stuck + 1;
	if (scx_bpf_test_and_clear_cpu_idle(other)) {
		wakeup_begin(other, o, now);
		kick(other, SCX_KICK_IDLE);
	} else {
		kick(other, SCX_KICK_PREEMPT);
	}
	count(VAWARE_RESCUE_HEDGED);
	return true;
}

/* Look after one wake-up. Return in how many ns to look again; 0: not any more. */
__noinline u64 rescue_look_after(struct rescue_slot *slot, u64 now)
{
	u64 after_ns = rescue_after_ns(wake_typical_ns), age_ns;
	struct vcpu_ctx *v;
	s32 stuck;

	if (!slot)
		return 0;
	stuck = (s32)slot->target - 1;
	v = vcpu_ctx_of(stuck);
	if (!v || v->wakeup.claimed_ns != slot->claimed_ns ||
	    !scx_bpf_dsq_nr_queued(vcpu_dsq(stuck, false)))
		return 0;
	age_ns = time_delta(now, slot->claimed_ns);
	if (age_ns < after_ns)
		return after_ns - age_ns;
	if (rescue_by_second(stuck, now) && ++slot->hedged >= RESCUE_SECONDS_MAX)
		return 0;
	return rescue_again_ns(age_ns, after_ns);
}

static int rescue_fired(void *map, int *key, struct rescue_timer *h)
{
	u64 now = now_unlocked_ns(), again_ns = 0;
	u32 i;

	/* This is a softirq: an interrupt may begin a watch meanwhile, and arm the timer anew. */
	h->due_ns = 0;
	bpf_for (i, 0, RESCUE_SLOTS) {
		struct rescue_slot *slot = &h->slots[i];
		u64 slot_ns;

		if (!slot->target)
			continue;
		slot_ns = rescue_look_after(slot, now);
		if (!slot_ns)
			slot->target = 0;
		else if (!again_ns || slot_ns < again_ns)
			again_ns = slot_ns;
	}
	if (again_ns)
		rescue_arm(h, again_ns, now);
	return 0;
}

/* Prepare the timers of all vCPUs. Return 0, or a negative error. */
int rescue_init(void)
{
	u32 cpu;

	bpf_for (cpu, 0, nr_vcpus) {
		struct rescue_timer *h = rescue_timer_of(cpu);

		if (!h || bpf_timer_init(&h->timer, &vcpu_hedges, 1 /* CLOCK_MONOTONIC */) ||
		    bpf_timer_set_callback(&h->timer, rescue_fired))
			return -EINVAL;
	}
	return 0;
}
