/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is known of each vCPU and each task. A struct inside belongs to the feature it is named
 * after: only that feature's file writes it.
 *
 * The maps are weak definitions, merged by the linker: extern ones come out of it broken
 * (libbpf 1.7).
 */
#ifndef VAWARE_CONTEXT_BPF_H
#define VAWARE_CONTEXT_BPF_H

#include "vaware.bpf.h"

/* The task that runs on a vCPU, for those who decide about preempting it. Written by run.bpf.c. */
struct running_ctx {
	u64 started_ns;
	u64 charged_ns; /* when it was last charged */
	u64 vtime;	/* its virtual time then */
	u64 burst_ns;	/* its run time since it woke, then */
	u64 burst_avg_ns;
	u32 class; /* enum vaware_class */
	u32 weight;
	u32 migrated;	/* it has been moved here by a policy */
	u32 rcu_reader; /* it was one when it was switched in */
};

/* account.bpf.h: run time and steal time of a vCPU. */
struct account_ctx {
	u32 steal_1024;	      /* decaying share of steal time */
	u64 charged_steal_ns; /* steal time when the running task was last charged */
	u64 run_ns;	      /* run and steal time not yet in steal_1024 */
	u64 steal_ns;
};

/* balance.bpf.c: one that looks into another vCPU's queue now and then, in turns. */
struct look_ctx {
	u64 next_ns; /* when to look again */
	u64 base;    /* what the clock read as the shared one began */
	u32 cursor;
};

/* activity.bpf.c: what user space does not see of struct vaware_activity. */
struct activity_ctx {
	u64 woke_ns; /* when it last had something to run after it had been idle; 0: never yet */
	u64 busy_ns; /* for how long it has, on average */
	u64 stop_ns; /* how long its preemptions are: activity_preemption_ns() */
	u64 timer_due_ns;	       /* when its timer runs out; 0: not armed */
	u64 long_preemption_ns;	       /* end of the last one that is worth timer beats; 0: none */
	u64 long_preemption_busy_ns;   /* the same by a clock that stands while the vCPU is idle */
	u64 long_preemptions_apart_ns; /* mean busy time between those */
	u64 tick_due_ns; /* when its next tick comes if it runs a task of ours; 0: not known yet */
	u64 steal_clock_ns; /* steal clock at the last beat */
	u64 clock_owed_ns;  /* what beats were late and the steal clock has not shown yet */
	u64 clock_owed_since_ns;
	u64 clock_missed_ns;	  /* evidence that it never does: activity_missed_ns() */
	u64 clock_missed_busy_ns; /* as of then, by a clock that stands while the vCPU is idle */
	u64 clock_misses;	  /* the evidence is enough */
	u64 steal_stat_ns;	  /* the kernel's steal statistics at the last tick */
	u64 softirqs;		  /* those of the kinds that take long, at the last timer beat */
	u64 spans_faded_ns;
	u64 steal_stat_seen; /* steal_stat_ns is one */
};

/* wakeup.bpf.c: wake-ups of a vCPU. */
struct wakeup_ctx {
	u64 took_ns; /* its last wake-up, until it is in struct vaware_activity */
	u32 count;
	u32 ended;	 /* it has been woken, and has run nothing since */
	u64 claimed_ns;	 /* another vCPU woke it, idle, at this time; 0: it has run since */
	u64 expected_ns; /* its wake-up latency, as expected at expected_at_ns */
	u64 expected_at_ns;
};

/* bvs.bpf.c */
struct bvs_ctx {
	u64 timer_late_ns; /* how late timers that wake tasks run out here, as expected at
			      timer_late_at_ns */
	u64 timer_late_at_ns;
	u64 timer_wakee_until_ns; /* a timer wakee has been sent to it, which is worth a wait until
				   * then
				   */
};

/* rescue.bpf.c */
struct rescue_ctx {
	u32 from; /* number + 1 of the vCPU to whose queue it has been sent */
};

/* ivh.bpf.c */
struct ivh_ctx {
	/* As a target, written by the source: */
	u32 claim; /* number + 1 of the source */
	/* as a source: */
	u32 target;    /* number + 1 of the target */
	s32 pid;       /* the task that would leave */
	u64 asked_ns;  /* when this vCPU asked */
	u64 called_ns; /* when it was asked */
	u64 awake_ns;  /* when it was awake after that */
};

/*
 * lock.bpf.c: the spinlock that a vCPU waits for. One is enough: where an interrupt waits as well,
 * the outer wait is not seen.
 */
struct lock_ctx {
	u64 address;
	u64 since_ns;
};

/* limit.bpf.c: run time that is not charged to the pools of limits yet. */
struct limit_vcpu {
	u32 limiter; /* to whom: see struct cgroup_ctx */
	u64 owed_ns;
};

/* blocking.bpf.c: tasks that are woken on one vCPU shortly one after another. */
struct blocking_ctx {
	u64 woke_ns; /* when it last woke one */
	u32 together;
};

/* One vCPU. Written by the one that holds its runqueue lock; read by wakers without it. */
struct vcpu_ctx {
	/* The first two cache lines are what others look at before they place a task here. */
	struct running_ctx run;
	u32 online;
	u32 in_turn; /* what runs next had the earliest deadline of the vCPU's queue */
	struct wakeup_ctx wakeup;
	struct bvs_ctx bvs;

	u64 vclock;	     /* virtual time that the vCPU's queue has reached */
	u32 yielded;	     /* what runs called sched_yield while others waited */
	u32 steal_cursor[2]; /* where the last search through other queues ended; [1] best-effort */
	struct account_ctx account;
	u64 overdue_next_ns; /* when it looks for overdue tasks of its own again */
	struct look_ctx balance;
	struct activity_ctx activity;
	struct rescue_ctx rescue;
	struct ivh_ctx ivh;
	struct lock_ctx lock;
	struct limit_vcpu limit;
	struct blocking_ctx blocking;
} __attribute__((aligned(64)));

/* bvs: one task. */
struct bvs_task {
	u64 predicted_ns; /* wait that it expects; 0: it has not chosen */
};

/* cgroup.bpf.c, limit.bpf.c: one task. */
struct cgroup_task {
	u32 number;	/* of its cgroup's entry in `cgroups` */
	u32 generation; /* of that entry */
	u32 counted;	/* weight by which it is among that cgroup's runnable tasks; 0: it is not */
	u64 held_ns;	/* since when a limit holds it; 0: none does */
	u64 utime_ns;	/* its time in user mode at the last look */
	u32 unlocked;	/* value of cgroups_epoch if it has no lock of the kernel; else 0 */
	u32 kernel_ticks; /* so many ticks in a row found it in kernel mode */
};

/* One task. Written by the vCPU that holds its runqueue lock. */
struct task_ctx {
	u64 vtime;	  /* relative to the vclock of `vcpu` */
	u64 slept_vclock; /* what that read when it fell asleep */
	u64 queued_ns;	  /* when it began to wait; 0: it does not wait */
	u64 burst_ns;	  /* run time since it last woke */
	u64 burst_avg_ns;
	u32 vcpu;
	u32 slept;	/* where cgroups have shares, and its virtual time has not gone on since */
	u32 leaves_for; /* number + 1 of the vCPU to go to when it is next queued */
	u32 migrated;	/* moved by a policy since it last slept */
	u32 by_work;	/* preempt.bpf.c: a CPU-bound task woke it, when it last had to wait */
	struct bvs_task bvs;
	u64 reserve_paid_until_ns; /* by what it ran on the reserve (policy/reserve.h) */
	struct cgroup_task cgroup;
	u64 overdue_until_ns; /* `burst_ns` at which it has had its slice; 0: it was not overdue */
	u64 flush_began_ns;   /* shootdown.bpf.c: since when it flushes; 0: it does not */
	u32 target; /* blocking.bpf.c: enum vaware_target of its wake-up + 1; 0: it did not wake */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* values of others begin in the midst of a cache line */
	__uint(max_entries, 1);		   /* set to nr_cpu_ids before load */
	__type(key, u32);
	__type(value, struct vcpu_ctx);
} vcpu_ctxs SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to nr_cpu_ids before load */
	__type(key, u32);
	__type(value, struct vaware_activity);
} vcpu_activity SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps") __weak;

static inline struct vcpu_ctx *vcpu_ctx_of(s32 cpu)
{
	u32 key = cpu;

	return bpf_map_lookup_elem(&vcpu_ctxs, &key);
}

static inline struct vaware_activity *activity_of(s32 cpu)
{
	u32 key = cpu;

	return bpf_map_lookup_elem(&vcpu_activity, &key);
}

static inline struct task_ctx *task_ctx_of(struct task_struct *p)
{
	return bpf_task_storage_get(&task_ctxs, p, 0, 0);
}

#endif /* VAWARE_CONTEXT_BPF_H */
