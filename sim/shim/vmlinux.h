/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the BPF source touches of the kernel's types: the fields it reads or writes, no more, under
 * the kernel's names. A field that is missing here is a compile error in bpf/: add it, and let the
 * simulated kernel (src/guest/) keep it right.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#include <stdbool.h>
#include <stddef.h>

typedef unsigned char u8;
typedef signed char s8;
typedef unsigned short u16;
typedef short s16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef s32 __s32;
typedef u64 __u64;
typedef s64 __s64;
typedef s32 pid_t;

#define SIM_MAX_VCPUS 1024

typedef struct cpumask {
	u64 bits[SIM_MAX_VCPUS / 64];
} cpumask_t;

struct bpf_cpumask {
	cpumask_t cpumask;
};

struct scx_dispatch_q {
	u64 id;
	u32 nr;
};

struct sched_ext_entity {
	struct scx_dispatch_q *dsq;
	u32 flags;
	u32 weight;
	s32 selected_cpu;
	unsigned long runnable_at;
	u64 slice;
	u64 dsq_vtime;
	bool disallow;
};

struct sched_entity {
	u64 exec_start;
	u64 sum_exec_runtime;
};

struct mm_struct {
	s32 mm_users;
};

struct sigset {
	unsigned long sig[1];
};

struct sigpending {
	struct sigset signal;
};

union rcu_special {
	struct {
		u8 blocked;
	} b;
};

struct task_struct {
	unsigned int ptrace;
	unsigned long jobctl;
	u64 utime;
	struct sigpending pending;
	unsigned int __state;
	u32 flags;
	int on_cpu;
	u32 policy;
	int prio;
	int static_prio;
	int nr_cpus_allowed;
	cpumask_t *cpus_ptr;
	cpumask_t cpus_mask;
	u16 migration_disabled;
	union rcu_special rcu_read_unlock_special;
	struct sched_entity se;
	struct sched_ext_entity scx;
	struct mm_struct *mm;
	u64 start_time;
	u64 nvcsw;
	u64 nivcsw;
	pid_t pid;
	pid_t tgid;
	struct task_struct *group_leader;
	char comm[16];
};

enum {
	HI_SOFTIRQ,
	TIMER_SOFTIRQ,
	NET_TX_SOFTIRQ,
	NET_RX_SOFTIRQ,
	BLOCK_SOFTIRQ,
	IRQ_POLL_SOFTIRQ,
	TASKLET_SOFTIRQ,
	NR_SOFTIRQS = 10,
};

struct kernel_stat {
	unsigned int softirqs[NR_SOFTIRQS];
};

struct kvm_steal_time {
	u64 steal;
	u32 version;
	u32 flags;
	u8 preempted;
	u8 pad[47];
};

enum cpu_usage_stat {
	CPUTIME_USER,
	CPUTIME_NICE,
	CPUTIME_SYSTEM,
	CPUTIME_SOFTIRQ,
	CPUTIME_IRQ,
	CPUTIME_IDLE,
	CPUTIME_IOWAIT,
	CPUTIME_STEAL,
	CPUTIME_GUEST,
	CPUTIME_GUEST_NICE,
	NR_STATS,
};

struct kernel_cpustat {
	u64 cpustat[NR_STATS];
};

struct cpuidle_state {
	u32 flags;
};

struct scx_rq {
	u32 flags;
};

struct rq {
	struct scx_rq scx;
	struct cpuidle_state *idle_state;
	struct task_struct *curr;
	u32 nr_running;
};

struct timerqueue_linked_node {
	s64 expires;
};

struct hrtimer {
	struct timerqueue_linked_node node;
};

enum {
	HRTIMER_BASE_MONOTONIC,
};

struct hrtimer_cpu_base {
	struct {
		struct hrtimer *running;
	} clock_base[1];
};

struct bpf_spin_lock {
	u32 val;
};

struct bpf_timer {
	u64 opaque[2];
};

struct bpf_iter_scx_dsq {
	u64 opaque[6];
};

/* Cgroups: there are none here. */
enum cgroup_subsys_id {
	cpu_cgrp_id,
};

struct cgroup_subsys_state {
	u32 flags;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_subsys_state *subsys[1];
	int level;
};

struct cfs_bandwidth {
	s64 period;
	u64 quota;
	u64 burst;
};

struct task_group {
	int idle;
	unsigned long shares;
	struct cfs_bandwidth cfs_bandwidth;
};

struct scx_cgroup_init_args {
	u32 weight;
};

struct scx_init_task_args {
	bool fork;
	struct cgroup *cgroup;
};

struct scx_exit_task_args {
	bool cancelled;
};

struct scx_cpu_acquire_args {
	u8 unused;
};

enum scx_cpu_preempt_reason {
	SCX_CPU_PREEMPT_RT,
	SCX_CPU_PREEMPT_DL,
	SCX_CPU_PREEMPT_STOP,
};

struct scx_cpu_release_args {
	enum scx_cpu_preempt_reason reason;
	struct task_struct *task;
};

struct scx_exit_info {
	s32 kind;
	s64 exit_code;
	const char *reason;
	const char *msg;
};

struct scx_dump_ctx {
	s32 kind;
};

/* The ops of the newest kernel; functions are called through their BPF context, an array of u64. */
struct sched_ext_ops {
	void *select_cpu, *enqueue, *dequeue, *dispatch, *tick, *runnable, *running, *stopping;
	void *quiescent, *yield, *core_sched_before, *set_weight, *set_cpumask, *update_idle;
	void *cpu_acquire, *cpu_release, *init_task, *exit_task, *enable, *disable;
	void *cgroup_init, *cgroup_exit, *cgroup_move, *cgroup_set_weight, *cgroup_set_bandwidth;
	void *cgroup_set_idle;
	void *dump, *dump_cpu, *dump_task, *cpu_online, *cpu_offline, *init, *exit;
	u32 dispatch_max_batch;
	u64 flags;
	u32 timeout_ms;
	u32 exit_dump_len;
	u64 hotplug_seq;
	char name[128];
};

#define PF_EXITING 0x00000004
#define PF_IDLE 0x00000002
#define PF_KTHREAD 0x00200000
#define PF_NO_SETAFFINITY 0x04000000

/* include/linux/sched/ext.h and kernel/sched/ext/internal.h */
#define SCX_DSQ_FLAG_BUILTIN (1ULL << 63)
#define SCX_DSQ_FLAG_LOCAL_ON (1ULL << 62)
#define SCX_DSQ_INVALID (SCX_DSQ_FLAG_BUILTIN | 0)
#define SCX_DSQ_GLOBAL (SCX_DSQ_FLAG_BUILTIN | 1)
#define SCX_DSQ_LOCAL (SCX_DSQ_FLAG_BUILTIN | 2)
#define SCX_DSQ_LOCAL_ON (SCX_DSQ_FLAG_BUILTIN | SCX_DSQ_FLAG_LOCAL_ON)
#define SCX_DSQ_LOCAL_CPU_MASK 0xffffffffULL
#define SCX_SLICE_DFL (20 * 1000000ULL)
#define SCX_SLICE_INF (~0ULL)

#define SCX_ENQ_WAKEUP 0x1ULL
#define SCX_ENQ_HEAD (1ULL << 4)
#define SCX_ENQ_MIGRATING (1ULL << 6)
#define SCX_ENQ_CPU_SELECTED (1ULL << 10)
#define SCX_ENQ_PREEMPT (1ULL << 32)
#define SCX_ENQ_REENQ (1ULL << 40)
#define SCX_ENQ_LAST (1ULL << 41)
#define SCX_ENQ_CLEAR_OPSS (1ULL << 56)
#define SCX_ENQ_DSQ_PRIQ (1ULL << 57)
#define SCX_DEQ_SLEEP 0x1ULL
#define SCX_DEQ_CORE_SCHED_EXEC (1ULL << 32)

#define SCX_TASK_QUEUED (1U << 0)
#define SCX_TASK_RESET_RUNNABLE_AT (1U << 2)

#define SCX_WAKE_FORK 4ULL
#define SCX_WAKE_TTWU 8ULL
#define SCX_WAKE_SYNC 16ULL

#define SCX_KICK_IDLE 1ULL
#define SCX_KICK_PREEMPT 2ULL
#define SCX_KICK_WAIT 4ULL

#define SCX_PICK_IDLE_CORE 1ULL
#define SCX_DSQ_ITER_REV (1ULL << 16)

#define SCX_OPS_KEEP_BUILTIN_IDLE (1ULL << 0)
#define SCX_OPS_ENQ_LAST (1ULL << 1)
#define SCX_OPS_ENQ_EXITING (1ULL << 2)
#define SCX_OPS_SWITCH_PARTIAL (1ULL << 3)
#define SCX_OPS_ENQ_MIGRATION_DISABLED (1ULL << 4)
#define SCX_OPS_ALLOW_QUEUED_WAKEUP (1ULL << 5)

#define SCX_ECODE_ACT_RESTART (1LL << 48)
#define NUMA_NO_NODE (-1)

#define BPF_ANY 0
#define BPF_NOEXIST 1
#define BPF_EXIST 2
#define BPF_F_NO_PREALLOC (1U << 0)
#define BPF_F_MMAPABLE (1U << 10)
#define BPF_LOCAL_STORAGE_GET_F_CREATE (1ULL << 0)
#define BPF_F_TIMER_ABS (1ULL << 0)
#define BPF_F_TIMER_CPU_PIN (1ULL << 1)
#define CLOCK_MONOTONIC 1

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERCPU_HASH 5
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_LRU_HASH 9
#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_MAP_TYPE_CGRP_STORAGE 32

#define EPERM 1
#define ENOENT 2
#define E2BIG 7
#define EAGAIN 11
#define ENOMEM 12
#define EBUSY 16
#define EEXIST 17
#define ENODEV 19
#define EINVAL 22
#define ENOSPC 28

#endif
