/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Virtual time for QEMU: what the rest of the emulator calls.
 *
 * All vCPUs run in one thread, each on a pCPU of a simulated host (../host). Time is counted in
 * executed instructions. All functions are called with the BQL held, unless they say otherwise.
 * Times are ns of QEMU_CLOCK_VIRTUAL.
 */
#ifndef VTIME_H
#define VTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct CPUState CPUState;
typedef struct EventNotifier EventNotifier;

/* True when $VT_CONTROL names the lab's socket. Constant for the life of the process. */
bool vt_enabled(void);

/* The vCPU thread: set up after all vCPUs exist, then run them for good. */
void vt_init(void);
void vt_loop(void);

/* @cpu may be able to run, or may have been stopped. */
void vt_touch(CPUState *cpu);
/* Another thread wants the vCPU thread to look at all vCPUs. Any context. */
void vt_kick(void);

/* The vCPU that runs has caused an exit to the hypervisor that costs @ns. */
void vt_charge(int64_t ns);
/* Costs of exits, see ../host/costs.c. */
void vt_charge_timer(void);

/*
 * The vCPU that runs sends a fixed interrupt to @cpu: @deliver(apic, vector, trigger_mode) is
 * called when it has arrived.
 */
void vt_ipi(CPUState *cpu, void *apic, int vector, int trigger_mode,
	    void (*deliver)(void *apic, int vector, int trigger_mode));

/* The time stamp counter for a vCPU whose clock says @ns: it never runs backwards for any reader.
 */
int64_t vt_tsc(int64_t ns);

/* The guest has written @size bytes at @data to its port "vaware.clock": hold the clock. */
void vt_guest_word(const uint8_t *data, size_t size);
/* @size bytes of the lab's have arrived in the guest. */
void vt_input(size_t size);
/* The guest has rung the doorbell of a device that another process serves. */
void vt_doorbell(EventNotifier *doorbell);
/* That process signals a queue: true if the guest has to hear of it. */
bool vt_is_news(EventNotifier *signal);

/* KVM's paravirtual interface, of which $VT_KVM lists what is offered (kvm.c). */
uint32_t vt_kvm_features(void);
bool vt_kvm_write_msr(CPUState *cpu, uint32_t msr, uint64_t value);
bool vt_kvm_read_msr(CPUState *cpu, uint32_t msr, uint64_t *value);
/* @cpu is put on a pCPU (@stolen_ns: all that was taken from it), or taken off it. */
void vt_kvm_enter(CPUState *cpu, int64_t stolen_ns);
void vt_kvm_leave(CPUState *cpu);
/* The guest lets the hypervisor poll before it puts @cpu to sleep, or not. */
void vt_poll_control(CPUState *cpu, bool enabled);

#endif
