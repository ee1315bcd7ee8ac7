/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How work blocks.
 */
#include "blocking.bpf.h"

#include "policy/gather.h"

#define CPUIDLE_FLAG_POLLING 1 /* include/linux/cpuidle.h */

/* Return true if idle vCPU @cpu polls: its cpuidle driver has put it into a state that does. */
static bool polls(s32 cpu)
{
	const struct cpuidle_state *state;
	const struct rq *rq = bpf_per_cpu_ptr(&runqueues, cpu);

	if (!bpf_core_field_exists(rq->idle_state))
		return false;
	state = rq ? rq->idle_state : NULL;
	return state && state->flags & CPUIDLE_FLAG_POLLING;
}

__noinline int blocking_wake(struct task_ctx *t, s32 cpu, u32 idle)
{
	struct vcpu_ctx *here = vcpu_ctx_of(bpf_get_smp_processor_id());
	struct vaware_stats *s = stats_here();
	u64 now = now_unlocked_ns();

	if (!t || !here || !s)
		return 0;
	if (time_delta(now, here->blocking.woke_ns) > GATHER_TOGETHER_NS) {
		if (here->blocking.together)
			s->wakes_together[gather_together_bucket(here->blocking.together)] +=
				here->blocking.together;
		here->blocking.together = 0;
	}
	here->blocking.together++;
	here->blocking.woke_ns = now;
	t->target = 1 + (!idle	      ? VAWARE_TARGET_ACTIVE
			 : polls(cpu) ? VAWARE_TARGET_POLLING
				      : VAWARE_TARGET_HALTED);
	return 0;
}

__noinline int blocking_ran(struct task_ctx *t, u64 wait_ns)
{
	struct vaware_stats *s = stats_here();
	u32 target;

	if (!t || !s || !t->target)
		return 0;
	target = t->target - 1;
	t->target = 0;
	if (target >= VAWARE_NR_TARGETS)
		return 0;
	s->wakes[target]++;
	s->wake_wait_ns[target] += wait_ns;
	return 0;
}

__noinline int blocking_slept(u64 burst_ns)
{
	struct vaware_stats *s = stats_here();

	if (!s)
		return 0;
	s->sleeps++;
	s->slept_burst_ns += burst_ns;
	return 0;
}
