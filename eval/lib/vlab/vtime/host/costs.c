// SPDX-License-Identifier: GPL-2.0-only
/*
 * Costs of virtualization, as published.
 *
 * [ARMVIRT] Dall et al., "ARM Virtualization: Performance and Architectural Implications", ISCA
 *	2016, table of microbenchmarks, KVM on x86: Xeon E5-2450, 2.1 GHz, no APIC virtualization.
 *	In cycles: hypercall 1300, interrupt controller trap 2384, virtual IPI 5230 (issued to
 *	handled, both vCPUs running), virtual IRQ completion 1556, VM switch 4812, I/O latency in
 *	18923 (host's signal to the guest's handler, the vCPU being idle).
 * [IPIV] Zeng Guang, "IPI virtualization support for VM", kvm list, 2022 (v9 of the series that
 *	became Linux 6.0). IPI microbenchmark, 100,000 IPIs, two pinned vCPUs, x2APIC: normal IPI
 *	131.7 ms with IPI virtualization; self-IPI, which causes no exit, 5.09 ms to send.
 * [DEADLINE] Wanpeng Li, "KVM: VMX: TSCDEADLINE MSR emulation fastpath", kvm list, 2020. Xeon
 *	Skylake, 2.5 GHz, kvm-unit-tests vmexit/tscdeadline_immed, cycles: 2468 with APICv, 3851
 *	without.
 *
 * Gleaner (ATC 2014, table 2) measured dearer ones in 2013: 9 us more than bare metal for an IPI to
 * a running vCPU, 29 us more if it wakes a halted one.
 */
#include <string.h>

#include "plan.h"

#define ARMVIRT_NS(cycles) ((cycles) * 10 / 21)
#define DEADLINE_NS(cycles) ((cycles) * 10 / 25)

static const struct {
	const char *name;
	VtCosts costs;
} profiles[] = {
	{ "none", { 0 } },
	{ "posted",			 /* posted interrupts and IPI virtualization, or AVIC */
	  { .halt_ns = ARMVIRT_NS(1300), /* HLT exits as any other */
	    .wake_ns = ARMVIRT_NS(18923 - 1556), /* the guest's EOI does not exit */
	    .wake_polled_ns = ARMVIRT_NS(1300),	 /* entry and injection: an exit's other half */
	    .host_switch_ns = ARMVIRT_NS(4812),
	    .ipi_ns = 51,	    /* [IPIV] self-IPI: the register alone */
	    .ipi_latency_ns = 1317, /* [IPIV] normal IPI */
	    .timer_ns = DEADLINE_NS(2468) } },
	{ "exits", /* each of these traps */
	  { .halt_ns = ARMVIRT_NS(1300),
	    .wake_ns = ARMVIRT_NS(18923),
	    .wake_polled_ns = ARMVIRT_NS(1300 + 1556),
	    .host_switch_ns = ARMVIRT_NS(4812),
	    .ipi_ns = ARMVIRT_NS(2384),
	    .ipi_latency_ns = ARMVIRT_NS(5230),
	    .timer_ns = DEADLINE_NS(3851) } },
};

const VtCosts *vt_costs_profile(const char *name, size_t length)
{
	size_t i;

	for (i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++) {
		if (strlen(profiles[i].name) == length && !memcmp(profiles[i].name, name, length))
			return &profiles[i].costs;
	}
	return NULL;
}
