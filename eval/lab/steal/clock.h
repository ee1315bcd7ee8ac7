/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef STEAL_CLOCK_H
#define STEAL_CLOCK_H

/* What the guest has per vCPU: struct kvm_steal_time of the kernel's kvm_para.h, an ABI. */
struct guest_steal_time {
	__u64 steal;   /* ns */
	__u32 version; /* odd while the host writes */
	__u32 flags;
	__u8 preempted;
	__u8 padding[47];
};

#ifndef __uptr
#define __uptr
#endif

/* What the imitated steal clock keeps with the thread of a vCPU. */
struct vcpu_clock {
	struct guest_steal_time __uptr *guest;
	__u64 steal_ns;	    /* as last told */
	__u64 run_delay_ns; /* of the thread when it was last put on a core */
};

#endif
