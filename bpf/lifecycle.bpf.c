/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that join the scheduler, and vCPUs that come, go, and fall idle.
 */
#include "activity.bpf.h"

s32 BPF_STRUCT_OPS(vaware_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *t = bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	/* Where the same programs are attached again, it has been here before. */
	*t = (struct task_ctx){};
	return 0;
}

/* A task joins, by fork or by a change of its policy: neither ahead of the others nor behind. */
void BPF_STRUCT_OPS(vaware_enable, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	struct task_ctx *t = task_ctx_of(p);

	if (!v || !t)
		return;
	t->vtime = v->vclock;
	t->vcpu = cpu;
}

/* Nothing to prepare: queues exist for all possible vCPUs. Without this the kernel would eject us.
 */
void BPF_STRUCT_OPS(vaware_cpu_online, s32 cpu)
{
}

/* What still waits in the queues of a vCPU that goes offline is taken by the others: wake one. */
void BPF_STRUCT_OPS(vaware_cpu_offline, s32 cpu)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	s32 idle = scx_bpf_pick_idle_cpu(online, 0);

	activity_offline(cpu);
	scx_bpf_put_cpumask(online);
	if (idle >= 0)
		kick(idle, SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(vaware_update_idle, s32 cpu, bool idle)
{
	activity_idle(cpu, idle);
}
