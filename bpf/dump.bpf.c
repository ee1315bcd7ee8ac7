/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the kernel's report of a stall says of the state of this scheduler.
 */
#include "activity.bpf.h"
#include "queue.bpf.h"

/* Not printed for a vCPU that is idle with nothing waiting. */
void BPF_STRUCT_OPS(vaware_dump_cpu, struct scx_dump_ctx *dctx, s32 cpu, bool idle)
{
	const struct vaware_activity *a = activity_of(cpu);
	const struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	u32 normal, best_effort;
	u64 now = now_unlocked_ns();

	if (!a || !v)
		return;
	normal = scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, false));
	best_effort = scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, true));
	if (idle && !normal && !best_effort)
		return;
	scx_bpf_dump("vaware: online=%u state=%u class=%u queued=%u best_effort=%u hints=%u/%u\n",
		     v->online, a->state, v->run.class, normal, best_effort, waiting_at(cpu, false),
		     waiting_at(cpu, true));
	scx_bpf_dump(
		"vaware: ran_us=%llu seen_us=%llu claimed_us=%llu stolen_ms=%llu steal=%u/1024\n",
		time_delta(now, v->run.started_ns) / NS_PER_US,
		time_delta(now, a->last_seen_ns) / NS_PER_US,
		v->wakeup.claimed_ns ? time_delta(now, v->wakeup.claimed_ns) / NS_PER_US : 0,
		a->stolen_ns / NS_PER_MS, v->account.steal_1024);
}

void BPF_STRUCT_OPS(vaware_dump_task, struct scx_dump_ctx *dctx, struct task_struct *p)
{
	const struct task_ctx *t = task_ctx_of(p);

	if (!t)
		return;
	scx_bpf_dump("vaware: vcpu=%u class=%u queued_us=%llu burst_us=%llu average_us=%llu\n",
		     t->vcpu, task_class(p, t),
		     t->queued_ns ? time_delta(now_unlocked_ns(), t->queued_ns) / NS_PER_US : 0,
		     t->burst_ns / NS_PER_US, t->burst_avg_ns / NS_PER_US);
}
