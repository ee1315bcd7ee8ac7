/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whether it is an interrupt that wakes a task, not the task that is current.
 */
#ifndef VAWARE_INTERRUPT_BPF_H
#define VAWARE_INTERRUPT_BPF_H

#include "vaware.bpf.h"

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
static inline bool in_interrupt(void)
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

#endif /* VAWARE_INTERRUPT_BPF_H */
