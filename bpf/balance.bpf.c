/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Balance: a busy vCPU takes work from a queue that is longer or stuck.
 */
#include "activity.bpf.h"
#include "balance.bpf.h"
#include "rwc.bpf.h"

/* A variable, counted down: the verifier would follow each pass of a loop from a known number. */
u32 cgroup_pull_scan = CGROUP_PULL_SCAN;

/* Return what the runnable tasks of @cpu weigh. Global: the verifier checks it once. */
__noinline u64 balance_weight(s32 cpu)
{
	const struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	struct task_struct *p;
	u32 left = cgroup_pull_scan;
	u64 weight = 0;

	if (v && v->run.class != VAWARE_CLASS_NONE && v->run.class != VAWARE_CLASS_BEST_EFFORT)
		weight = v->run.weight;
	bpf_for_each (scx_dsq, p, vcpu_dsq(cpu, false), 0) {
		const struct task_ctx *t = task_ctx_of(p);

		if (!left--)
			break;
		if (t)
			weight += task_weight(p, t);
	}
	return weight;
}

/*
 * Move a task from the queue of @victim to that of @cpu, if that evens what they weigh by what the
 * vCPUs give. Not to run at once: a light one would then get more than its share wherever it goes.
 */
__noinline int balance_weights(s32 cpu, s32 victim)
{
	const struct vaware_hints *here = hints_of(cpu), *there = hints_of(victim);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu), *o = vcpu_ctx_of(victim);
	u32 capacity = here && there ? here->capacity_1024 : 1;
	u32 other_capacity = here && there ? there->capacity_1024 : 1;
	u64 own = balance_weight(cpu), other = balance_weight(victim);
	struct task_struct *p;
	u32 left = cgroup_pull_scan, chance = bpf_get_prandom_u32();

	if (!v || !o)
		return false;
	bpf_for_each (scx_dsq, p, vcpu_dsq(victim, false), 0) {
		const struct task_ctx *t = task_ctx_of(p);

		if (!left--)
			break;
		if (!t || is_pinned(p) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ||
		    !cgroup_pulls(own, capacity, other, other_capacity, task_weight(p, t), chance))
			continue;
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER,
					   vtime_rebase(p->scx.dsq_vtime, o->vclock, v->vclock));
		waiting_set(cpu, false);
		if (scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, vcpu_dsq(cpu, false), 0)) {
			count(VAWARE_DISPATCH_BALANCE);
			return true;
		}
	}
	return false;
}

/* Return true if nobody takes what waits for @cpu: it is stopped, or a real-time task has it. */
static bool held_up(s32 cpu, u64 now)
{
	const struct vcpu_ctx *v = vcpu_ctx_of(cpu);

	return v && (v->run.class == VAWARE_CLASS_NONE || vcpu_preempted(cpu, now));
}

__noinline int balance_look(s32 cpu, u64 now)
{
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	u32 victim, waiting, own_waiting;
	struct task_struct *head;
	s32 offset;
	u64 dsq_id;

	if (!v || rwc_banned(rwc_flags(cpu), VAWARE_CLASS_THROUGHPUT))
		return false;
	v->balance.next_ns = now + BALANCE_INTERVAL_NS;
	offset = waiting_next(v->balance.cursor + 1, 0, nr_vcpus, false);
	if (offset < 0)
		return false;
	victim = (v->balance.cursor + 1 + offset) % nr_vcpus;
	v->balance.cursor = victim;
	if (victim == cpu)
		return false;
	dsq_id = vcpu_dsq(victim, false);
	waiting = scx_bpf_dsq_nr_queued(dsq_id);
	if (!waiting)
		return false;
	if (cgroups_in_use && !held_up(victim, now)) {
		balance_weights(cpu, victim);
		return false;
	}
	own_waiting = scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, false));
	head = __COMPAT_scx_bpf_dsq_peek(dsq_id);
	if (!queue_pulls(own_waiting, waiting, head ? waited_ns(head) : 0) ||
	    !scx_bpf_dsq_move_to_local(dsq_id, 0))
		return false;
	count(VAWARE_DISPATCH_BALANCE);
	return true;
}
