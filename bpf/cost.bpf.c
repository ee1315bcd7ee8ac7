/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What it costs to place a task on a vCPU.
 */
#include "capacity.bpf.h"
#include "cost.bpf.h"
#include "queue.bpf.h"
#include "wakeup.bpf.h"

#include "policy/place.h"

u64 vcpu_stop_rest_ns(s32 cpu, u64 now)
{
	const struct vaware_activity *a = activity_of(cpu);

	return a ? activity_rest_ns(&a->spans[VAWARE_SPAN_INACTIVE],
				    time_delta(now, a->last_seen_ns))
		 : 0;
}

/* Return what is known of @cpu by one who wants a task of @class to run there soon. */
static struct candidate candidate_on(s32 cpu, const struct vcpu_ctx *v, u32 class, bool idle,
				     u64 now)
{
	struct candidate c = {
		.class = idle ? VAWARE_CLASS_NONE : v->run.class,
		.waiting = scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, false)),
	};
	struct running r;

	if (c.class == VAWARE_CLASS_NONE) {
		if (cpu != bpf_get_smp_processor_id()) /* this one is awake */
			c.wake_ns = wakeup_expected_ns(v, now);
		if (!idle && !c.waiting) /* it is being woken for another task */
			c.waiting = 1;
		return c;
	}
	r = running_on(v, now);
	c.protected_ns = queue_protected_rest_ns(class, &r);
	c.stopped = vcpu_preempted(cpu, now);
	if (c.stopped)
		c.rest_ns = vcpu_stop_rest_ns(cpu, now);
	return c;
}

u64 vcpu_cost_ns(s32 cpu, u32 class, u64 burst_ns, u64 now)
{
	const struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	const struct cpumask *idle;
	struct candidate c;
	u64 cost_ns;

	if (!v || !v->online)
		return ~0ULL;
	idle = scx_bpf_get_idle_cpumask();
	c = candidate_on(cpu, v, class, bpf_cpumask_test_cpu(cpu, idle), now);
	if (class == VAWARE_CLASS_LATENCY)
		cost_ns = bvs_delay_ns(&c);
	else
		cost_ns = place_cost_ns(
			&c, place_loss_ns(effective_capacity_of(cpu, idle), burst_ns), burst_ns);
	scx_bpf_put_idle_cpumask(idle);
	return cost_ns;
}

u64 vcpu_preemptions_ns(s32 cpu, u64 now)
{
	const struct vaware_activity *a = activity_of(cpu);
	u32 hazard_1024 = vcpu_hazard_1024(cpu, now, SLICE_NS);

	if (!a || !hazard_1024)
		return 0;
	return hazard_1024 * activity_rest_ns(&a->spans[VAWARE_SPAN_INACTIVE], 0) / 1024;
}
