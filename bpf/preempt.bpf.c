/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Preempt: a waking task takes the vCPU from the one that runs there.
 */
#include "preempt.bpf.h"

/*
 * The count of preempt_disable() and its like (arch/x86/include/asm/preempt.h), up to Linux 6.14
 * part of something else. Since there is local_interrupt_disable() the bits of interrupts are
 * higher.
 */
struct pcpu_hot___up_to_6_14 {
	int preempt_count;
} __attribute__((preserve_access_index));

extern const u32 __preempt_count __ksym __weak;
extern const struct pcpu_hot___up_to_6_14 pcpu_hot __ksym __weak;
extern const unsigned long local_interrupt_disable_state __ksym __weak;

#define IN_SOFTIRQ (1U << 8)
#define IN_HARDIRQ_OR_NMI 0x00ff0000
#define IN_HARDIRQ_OR_NMI_ABOVE_DISABLED 0x1f000000

/* Return true if this runs in an interrupt, or if that cannot be told. */
static bool in_interrupt(void)
{
	u32 mask = IN_SOFTIRQ, now;

	if (&__preempt_count)
		now = *(const u32 *)bpf_this_cpu_ptr(&__preempt_count);
	else if (&pcpu_hot)
		now = ((const typeof(pcpu_hot) *)bpf_this_cpu_ptr(&pcpu_hot))->preempt_count;
	else
		return true;
	mask |= &local_interrupt_disable_state ? IN_HARDIRQ_OR_NMI_ABOVE_DISABLED
					       : IN_HARDIRQ_OR_NMI;
	return now & mask;
}

/* Return true if what wakes a task at present is a CPU-bound task on this vCPU. */
static bool woken_by_work(u64 now)
{
	const struct vcpu_ctx *here = vcpu_ctx_of(bpf_get_smp_processor_id());

	return here && here->run.class != VAWARE_CLASS_NONE &&
	       account_cpu_bound(here->run.burst_ns + time_delta(now, here->run.charged_ns)) &&
	       !in_interrupt();
}

bool preempt_wakee(struct task_struct *p, struct task_ctx *t, const struct vcpu_ctx *v,
		   u64 deadline, u64 now)
{
	struct running r;
	u32 class;

	if (!policy_on(VAWARE_POLICY_PREEMPT))
		return false;
	t->by_work = woken_by_work(now);
	class = waiting_class(p, t);
	if (class != task_class(p, t))
		count(VAWARE_PREEMPT_LEFT);
	r = running_on(v, now);
	return queue_preempts(class, deadline, &r);
}
