/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long tasks wait at shootdowns, by the time that the kernel takes to flush a range. That holds
 * whichever way it asks the other vCPUs. Attached only while vCPUs differ.
 */
#include "context.bpf.h"
#include "shootdown.bpf.h"

#include "policy/tunables.h"

u32 confined[VAWARE_CONFINED];
struct vaware_shooter shooters[VAWARE_SHOOTERS];

__noinline int shootdown_avoids(s32 cpu)
{
	const struct vaware_hints *in = hints_of(cpu);

	return in && (in->flags & VAWARE_VCPU_UNSTEADY);
}

__noinline int shootdown_lists(u32 process)
{
	u32 i;

	for (i = 0; i < VAWARE_CONFINED; i++)
		if (confined[i] == process)
			return true;
	return false;
}

SEC("fentry/flush_tlb_mm_range")
int BPF_PROG(vaware_flush_begin)
{
	struct task_ctx *t = task_ctx_of(bpf_get_current_task_btf());

	if (t)
		t->flush_began_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("fexit/flush_tlb_mm_range")
int BPF_PROG(vaware_flush_end)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *t = task_ctx_of(p);
	struct vaware_shooter *shooter;
	struct vaware_stats *s;
	u32 process = p->tgid;
	u64 wait_ns;

	if (!t || !t->flush_began_ns)
		return 0;
	wait_ns = bpf_ktime_get_ns() - t->flush_began_ns;
	t->flush_began_ns = 0;
	if (wait_ns < SHOOTDOWN_LONG_NS)
		return 0;
	s = stats_here();
	if (s)
		s->shootdown_ns += wait_ns;
	shooter = &shooters[process % VAWARE_SHOOTERS];
	if (shooter->process != process) {
		shooter->process = process;
		shooter->wait_ns = 0;
	}
	__sync_fetch_and_add(&shooter->wait_ns, wait_ns);
	return 0;
}
