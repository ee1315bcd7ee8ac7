/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rescue (policy/rescue.h): the timers that watch wake-ups, and the second vCPU that is woken when
 * the first has not begun to run in time.
 */
#include "hedge.bpf.h"

/*
 * Global functions, which the verifier checks once and not in each pass of the loops that call
 * them: that of 7.0 follows each way through each pass, and gives up after a million instructions.
 */
int vaware_may_take(s32 cpu, s32 stuck);
int vaware_find_second(s32 stuck, u64 now);

/* Return whether @cpu may run the task that waits first in the queue of @stuck. */
__noinline int vaware_may_take(s32 cpu, s32 stuck)
{
	struct task_struct *head;
	bool may;

	bpf_rcu_read_lock(); /* 6.12 takes the timer for a program that may sleep */
	head = __COMPAT_scx_bpf_dsq_peek(vcpu_dsq(stuck, false));
	may = head && may_use(head, VAWARE_CLASS_THROUGHPUT, cpu);
	bpf_rcu_read_unlock();
	return may;
}

/*
 * Return the vCPU that could take over from @stuck soonest: idle, or with best-effort work only. -1
 * if there is none.
 */
__noinline int vaware_find_second(s32 stuck, u64 now)
{
	const struct vaware_vcpu_inputs *in = inputs_of(stuck);
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	s32 this_cpu = bpf_get_smp_processor_id(), found = -1;
	u64 least_ns = ~0ULL;
	u32 i;

	bpf_for (i, 0, VAWARE_NEAR_VCPUS) {
		s32 other = near_vcpu(in, stuck, i);
		struct vcpu_ctx *o = other >= 0 ? vcpu_ctx_of(other) : NULL;
		u64 delay_ns;

		if (!o)
			break;
		if (keeps_sleeper(stuck, other, now))
			continue;
		if (bpf_cpumask_test_cpu(other, idle))
			delay_ns = other == this_cpu ? 0 : expected_wake_ns(o, now);
		else if (runs_best_effort(other, o, now))
			delay_ns = KICK_NS;
		else
			continue;
		if (delay_ns < least_ns && vaware_may_take(other, stuck)) {
			least_ns = delay_ns;
			found = other;
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	return found;
}

/* Send a second vCPU to the queue of @stuck. Return true if there was one. */
static bool hedge(s32 stuck, u64 now)
{
	s32 other = vaware_find_second(stuck, now);
	struct vcpu_ctx *o = other >= 0 ? vcpu_ctx_of(other) : NULL;

	if (!o) {
		count(VAWARE_RESCUE_NOBODY);
		return false;
	}
	o->rescue_from = stuck + 1;
	if (scx_bpf_test_and_clear_cpu_idle(other)) {
		begin_wake(other, o, now);
		kick(other, SCX_KICK_IDLE);
	} else {
		kick(other, SCX_KICK_PREEMPT);
	}
	count(VAWARE_RESCUE_HEDGED);
	return true;
}

/* Look after one wake-up. Return in how many ns to look again; 0: not any more. */
static u64 look_after(struct hedge_slot *slot, u64 now)
{
	u64 hedge_ns = rescue_hedge_ns(wake_typical_ns), age_ns;
	s32 stuck = (s32)slot->target - 1;
	struct vcpu_ctx *v = vcpu_ctx_of(stuck);

	if (!v || v->claimed_ns != slot->claimed_ns ||
	    !scx_bpf_dsq_nr_queued(vcpu_dsq(stuck, false)))
		return 0;
	age_ns = time_delta(now, slot->claimed_ns);
	if (age_ns < hedge_ns)
		return hedge_ns - age_ns;
	if (hedge(stuck, now) && ++slot->hedged >= HEDGES_MAX)
		return 0;
	return rescue_again_ns(age_ns, hedge_ns);
}

static int hedge_fired(void *map, int *key, struct hedges *h)
{
	u64 now = now_ns(), again_ns = 0;
	u32 i;

	bpf_for (i, 0, HEDGE_SLOTS) {
		struct hedge_slot *slot = &h->slots[i];
		u64 slot_ns;

		if (!slot->target)
			continue;
		slot_ns = look_after(slot, now);
		if (!slot_ns)
			slot->target = 0;
		else if (!again_ns || slot_ns < again_ns)
			again_ns = slot_ns;
	}
	h->due_ns = again_ns ? now + again_ns : 0;
	if (again_ns)
		bpf_timer_start(&h->timer, again_ns, BPF_F_TIMER_CPU_PIN);
	return 0;
}

/* Prepare the timers of all vCPUs. Return 0, or a negative error. */
int vaware_prepare_hedges(void)
{
	u32 cpu;

	bpf_for (cpu, 0, nr_vcpus) {
		struct hedges *h = hedges_of(cpu);

		if (!h || bpf_timer_init(&h->timer, &vcpu_hedges, 1 /* CLOCK_MONOTONIC */) ||
		    bpf_timer_set_callback(&h->timer, hedge_fired))
			return -EINVAL;
	}
	return 0;
}
