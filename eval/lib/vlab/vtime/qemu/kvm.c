/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * KVM's paravirtual interface, as far as it concerns time: the steal clock with its "preempted"
 * flag, TLB flushes left to a preempted vCPU's next entry, and poll control for guests that poll
 * before they halt. Linux Documentation/virt/kvm/x86/msr.rst and cpuid.rst; arch/x86/kvm/x86.c
 * record_steal_time(), kvm_steal_time_set_preempted().
 *
 * $VT_KVM lists what the guest is offered: steal, tlb-flush, poll-control. Empty or unset: no KVM.
 */
#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "cpu.h"
#include "exec/cpu-common.h"
#include "exec/exec-all.h"
#include "exec/cputlb.h"
#include "standard-headers/asm-x86/kvm_para.h"
#include "vtime/vtime.h"

#define STEAL_ALIGNMENT 64
#define VCPUS_MAX 1024

/* Offsets in struct kvm_steal_time. */
enum { STEAL_AT = 0, VERSION_AT = 8, PREEMPTED_AT = 16 };

static struct {
	uint64_t steal_msr, poll_msr;
	bool preempted;
} vcpus[VCPUS_MAX];

uint32_t vt_kvm_features(void)
{
	static const struct {
		const char *name;
		int bit;
	} known[] = {
		{ "steal", KVM_FEATURE_STEAL_TIME },
		{ "tlb-flush", KVM_FEATURE_PV_TLB_FLUSH },
		{ "poll-control", KVM_FEATURE_POLL_CONTROL },
	};
	static int64_t features = -1;

	if (features < 0) {
		g_auto(GStrv) words = g_strsplit(getenv("VT_KVM") ?: "", ",", -1);

		features = 0;
		for (char **word = words; *word; word++) {
			bool found = !**word;

			for (int i = 0; i < ARRAY_SIZE(known); i++) {
				if (!strcmp(*word, known[i].name)) {
					features |= 1 << known[i].bit;
					found = true;
				}
			}
			if (!found) {
				error_report("$VT_KVM offers '%s'; it may be steal, tlb-flush or "
					     "poll-control.",
					     *word);
				exit(1);
			}
		}
	}
	return features;
}

static bool offers(int bit)
{
	return vt_kvm_features() & (1u << bit);
}

static hwaddr steal_time(CPUState *cpu)
{
	uint64_t msr = cpu->cpu_index < VCPUS_MAX ? vcpus[cpu->cpu_index].steal_msr : 0;

	return msr & KVM_MSR_ENABLED ? msr & ~(uint64_t)(STEAL_ALIGNMENT - 1) : 0;
}

void vt_kvm_enter(CPUState *cpu, int64_t stolen_ns)
{
	hwaddr at = steal_time(cpu);
	uint32_t version;
	uint8_t flags;

	if (!at) {
		return;
	}
	cpu_physical_memory_read(at + PREEMPTED_AT, &flags, sizeof(flags));
	if (flags & KVM_VCPU_FLUSH_TLB) {
		tlb_flush(cpu);
	}
	flags = 0;
	cpu_physical_memory_write(at + PREEMPTED_AT, &flags, sizeof(flags));
	vcpus[cpu->cpu_index].preempted = false;

	/* No vCPU runs while this is written, but the guest's readers look at the version. */
	cpu_physical_memory_read(at + VERSION_AT, &version, sizeof(version));
	version = (version & ~1u) + 2;
	cpu_physical_memory_write(at + STEAL_AT, &stolen_ns, sizeof(stolen_ns));
	cpu_physical_memory_write(at + VERSION_AT, &version, sizeof(version));
}

void vt_kvm_leave(CPUState *cpu)
{
	hwaddr at = steal_time(cpu);
	uint8_t flags = KVM_VCPU_PREEMPTED;

	if (at && !vcpus[cpu->cpu_index].preempted) {
		cpu_physical_memory_write(at + PREEMPTED_AT, &flags, sizeof(flags));
		vcpus[cpu->cpu_index].preempted = true;
	}
}

bool vt_kvm_write_msr(CPUState *cpu, uint32_t msr, uint64_t value)
{
	if (!vt_enabled() || cpu->cpu_index >= VCPUS_MAX) {
		return false;
	}
	if (msr == MSR_KVM_STEAL_TIME && offers(KVM_FEATURE_STEAL_TIME)) {
		vcpus[cpu->cpu_index].steal_msr = value;
		vcpus[cpu->cpu_index].preempted = false;
		return true;
	}
	if (msr == MSR_KVM_POLL_CONTROL && offers(KVM_FEATURE_POLL_CONTROL)) {
		vcpus[cpu->cpu_index].poll_msr = value;
		vt_poll_control(cpu, value & 1);
		return true;
	}
	return false;
}

bool vt_kvm_read_msr(CPUState *cpu, uint32_t msr, uint64_t *value)
{
	if (!vt_enabled() || cpu->cpu_index >= VCPUS_MAX) {
		return false;
	}
	if (msr == MSR_KVM_STEAL_TIME && offers(KVM_FEATURE_STEAL_TIME)) {
		*value = vcpus[cpu->cpu_index].steal_msr;
		return true;
	}
	if (msr == MSR_KVM_POLL_CONTROL && offers(KVM_FEATURE_POLL_CONTROL)) {
		*value = vcpus[cpu->cpu_index].poll_msr;
		return true;
	}
	return false;
}
