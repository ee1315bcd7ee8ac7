/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that join the scheduler, and vCPUs that come and go.
 */
#include "activity.bpf.h"
#include "queue.bpf.h"

s32 BPF_STRUCT_OPS(vaware_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *t = bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	/* Where the same programs are attached again, it has been here before. */
	*t = (struct task_ctx){ .cgroup.unlocked =
					args->fork && cgroups_in_use ? cgroups_epoch : 0 };
	if (bpf_core_field_exists(args->cgroup) && args->cgroup)
		cgroup_join(t, args->cgroup);
	return 0;
}

/* A task leaves, to another class or for good. */
void BPF_STRUCT_OPS(vaware_disable, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_of(p);

	if (t)
		cgroup_uncount(t);
}

/* A task joins, by fork or by a change of its policy. */
void BPF_STRUCT_OPS(vaware_enable, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	struct task_ctx *t = task_ctx_of(p);

	if (!v || !t)
		return;
	t->vtime = v->vclock + vtime_of_run(JOIN_DEBIT_NS, task_weight(p, t));
	t->vcpu = cpu;
	t->cgroup.utime_ns = p->utime; /* its ticks were not seen */
}

void BPF_STRUCT_OPS(vaware_cpu_online, s32 cpu)
{
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);

	if (v)
		v->online = true;
}

/*
 * A task of a higher class takes @cpu, for as long as it likes. What waits in the local queue, the
 * task that ran among it, is out of reach there: queue it anew. The stopper is gone at once. For
 * the kernel's own scheduler, above this one with --partial, there is no reason of its own.
 */
void BPF_STRUCT_OPS(vaware_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	if (args->reason != SCX_CPU_PREEMPT_STOP)
		scx_bpf_reenqueue_local();
}

/*
 * Empty a queue of @cpu, which will not look into it any more; those that do may be busy for long,
 * or not allowed to take what waits there. Each task goes to the local queue of the vCPU that it is
 * on: @cpu, or the one that activated it. From there the kernel moves it to where it may run, and
 * asks ops.enqueue; for tasks that may not move it waits before it takes the vCPU away.
 */
static void empty_queue(s32 cpu, bool best_effort)
{
	struct task_struct *p;

	bpf_for_each (scx_dsq, p, vcpu_dsq(cpu, best_effort), 0)
		scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL_ON | scx_bpf_task_cpu(p), 0);
	waiting_correct(cpu, best_effort);
}

void BPF_STRUCT_OPS(vaware_cpu_offline, s32 cpu)
{
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);

	if (v)
		v->online = false;
	empty_queue(cpu, false);
	empty_queue(cpu, true);
	activity_offline(cpu);
}
