/* SPDX-License-Identifier: GPL-2.0-only */
/* What the Rust half sees of the C half, through bindgen. */
#include "vmlinux.h"
#include "../../bpf/intf.h"

int sim_state_reset(void);
bool sim_is_global(u64 address);
void sim_contention_begin(void *lock);
void sim_contention_end(void *lock);

extern struct kvm_steal_time steal_time;
extern struct kernel_cpustat kernel_cpustat;
extern struct hrtimer_cpu_base hrtimer_bases;
extern u32 __preempt_count;
extern struct rq runqueues;

/* The scheduler, and what its daemon sets (userspace/src/scheduler.rs). */
extern struct sched_ext_ops vaware;
extern u32 nr_vcpus;
extern u64 wait_bound_ns;
extern bool queued_wakeup;
extern u32 steal_source;
extern u64 tick_ns;
extern u64 policies;
extern u32 hints_flags;
extern u32 reserve_vcpu;
extern u32 confined[VAWARE_CONFINED];
extern u64 hints_until_jiffies;

/* Maps that the simulator reads or writes as the daemon would, by address alone. */
extern char vcpu_activity;
extern char vcpu_stats;
extern char vcpu_hints;
