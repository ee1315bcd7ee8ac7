// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host's half of KVM's steal clock, for vCPUs that are threads of an emulator: what KVM does in
 * record_steal_time() and kvm_steal_time_set_preempted() (arch/x86/kvm/x86.c) when it loads and
 * puts a vCPU. The guest never runs between the end of an inactive period and the word of it.
 *
 * The guest's page is pinned by the kernel (__uptr in task storage, Linux 6.13), so it can be
 * written where nothing may fault. sched_exit_tp (Linux 6.16) comes at the end of a switch, when
 * the run delay of the task that comes is up to date.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define __uptr __attribute__((btf_type_tag("uptr")))
#include "clock.h"

char _license[] SEC("license") = "GPL";

#define KVM_VCPU_PREEMPTED 1

struct sched_info {
	unsigned long long run_delay;
} __attribute__((preserve_access_index));

struct task_struct {
	struct sched_info sched_info;
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct vcpu_clock);
} vcpus SEC(".maps");

/* Without it, the type information of the map has no more than the name of the struct. */
struct guest_steal_time described;

/* The compiler must not reorder the words of the protocol; x86 does not. */
#define in_order() __asm__ volatile("" ::: "memory")

SEC("tp_btf/sched_switch")
int BPF_PROG(put, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct vcpu_clock *vcpu = bpf_task_storage_get(&vcpus, prev, 0, 0);
	struct guest_steal_time *guest;

	if (!vcpu)
		return 0;
	guest = vcpu->guest;
	/* A vCPU that halted is not preempted. */
	if (guest && (preempt || prev_state == 0))
		guest->preempted = KVM_VCPU_PREEMPTED;
	return 0;
}

SEC("tp_btf/sched_exit_tp")
int BPF_PROG(load, bool is_switch)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct guest_steal_time *guest;
	struct vcpu_clock *vcpu;

	if (!is_switch)
		return 0;
	vcpu = bpf_task_storage_get(&vcpus, task, 0, 0);
	if (!vcpu)
		return 0;
	guest = vcpu->guest;
	if (!guest)
		return 0;
	vcpu->steal_ns += task->sched_info.run_delay - vcpu->run_delay_ns;
	vcpu->run_delay_ns = task->sched_info.run_delay;
	guest->preempted = 0;
	guest->version |= 1;
	in_order();
	guest->steal = vcpu->steal_ns;
	in_order();
	guest->version++;
	return 0;
}
