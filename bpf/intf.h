/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What crosses the boundary between the kernel half (bpf/), the user half (userspace/, through
 * bindgen), the native tests of bpf/policy/ and the simulator.
 */
#ifndef VAWARE_INTF_H
#define VAWARE_INTF_H

#ifndef __VMLINUX_H__
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
#include <stdbool.h>
#endif

/*
 * Policies, which go by what is known of the vCPUs; they can be switched on and off at run time:
 * bits of `policies` in main.bpf.c. The base is always on: queues by virtual deadline, preemption,
 * sync wake-ups, stealing, balancing, the wait bound.
 */
enum vaware_policy {
	/* Latency-sensitive tasks go to the vCPU with the least expected delay (vSched's bvs). */
	VAWARE_POLICY_BVS = 1 << 0,
	/* CPU-bound tasks leave a vCPU before it is stopped, for one that is awake (vSched's ivh).
	 */
	VAWARE_POLICY_IVH = 1 << 1,
	/* A wake-up that has not begun to run in time is hedged by waking a second vCPU. */
	VAWARE_POLICY_RESCUE = 1 << 2,
	/* Stragglers serve best-effort work only, and one vCPU of a stack is used (vSched's rwc).
	 */
	VAWARE_POLICY_RWC = 1 << 3,
	/* CPU-bound tasks go to the vCPUs with the most capacity, on cores of their own first. */
	VAWARE_POLICY_CAPACITY = 1 << 4,
	/* Idle vCPUs poll before they halt, where that saves wakees time (Gleaner's retention). */
	VAWARE_POLICY_RETAIN = 1 << 5,
	/* Work of short bursts keeps to few vCPUs, and the others stay idle (Gleaner). */
	VAWARE_POLICY_GATHER = 1 << 6,
	/* One vCPU is kept free of CPU-bound work, for latency-sensitive tasks. */
	VAWARE_POLICY_RESERVE = 1 << 7,
	/* A process whose threads wait for stopped vCPUs at shootdowns keeps to steady ones. */
	VAWARE_POLICY_SHOOTDOWN = 1 << 8,
};

#define VAWARE_NR_POLICIES 9 /* bits from 0 on */

/* What a policy has shown so far (policy/governor.h). */
enum vaware_verdict {
	VAWARE_TRIAL_OPEN, /* too little: it is on for a part of the time */
	VAWARE_TRIAL_WINS, /* tasks are better off with it: it is on, but for a look now and then */
	VAWARE_TRIAL_LOSES, /* they are not: it is off, but for a look now and then */
};

/* What policies are judged by, over all tasks of the VM that do normal work. */
enum vaware_outcome {
	VAWARE_OUTCOME_PROGRESS, /* the share that they get of the time in which they want to run */
	VAWARE_OUTCOME_WAIT,	 /* how long latency-sensitive ones wait for a vCPU on average */
	VAWARE_NR_OUTCOMES,
};

/*
 * Outcomes of epochs, as logarithms to the base of 2, in 1/256, by the weight of each epoch. They
 * say as much as weight^2 / weight_sq epochs of equal weight (Kish 1965).
 */
struct vaware_epochs {
	u64 count;     /* as so many of equal weight, to the nearest */
	u64 weight;    /* of all of them */
	u64 weight_sq; /* of the squares of their weights */
	u64 sum;
	u64 sum_sq; /* of their squares */
};

/* A policy in service: map `policy_trials`, by number of its bit. Written by governor.bpf.c. */
struct vaware_trial {
	struct vaware_epochs arms[2][VAWARE_NR_OUTCOMES]; /* [1] with the policy */
	u64 acted_epoch; /* the last in which it decided something; 0: never */
	u64 verdict;	 /* enum vaware_verdict */
	u64 prior;	 /* the same: with what it begins; by the daemon, from an earlier run */
};

/* Task classes, by which waits and run time are told apart. */
enum vaware_class {
	VAWARE_CLASS_LATENCY,	  /* short bursts between sleeps */
	VAWARE_CLASS_THROUGHPUT,  /* everything else under SCHED_NORMAL and SCHED_BATCH */
	VAWARE_CLASS_BEST_EFFORT, /* SCHED_IDLE: runs when nothing else does, or on the wait bound
				   */
	VAWARE_CLASS_KERNEL,	  /* kernel threads that belong to one vCPU */
	VAWARE_NR_CLASSES,
	VAWARE_CLASS_NONE = VAWARE_NR_CLASSES, /* no sched_ext task runs on the vCPU */
};

/* Decisions, counted on the vCPU that took them. */
enum vaware_counter {
	VAWARE_PLACE_PREV_IDLE,	 /* wake-up: the previous vCPU was idle */
	VAWARE_PLACE_OTHER_IDLE, /* wake-up: another idle vCPU was found */
	VAWARE_PLACE_WAKER,	 /* wake-up: stayed with the waker */
	VAWARE_PLACE_QUEUED,	 /* wake-up: queued on the busy previous vCPU */
	VAWARE_PREEMPT_HERE,	 /* wakee took the vCPU of its waker */
	VAWARE_PREEMPT_REMOTE,	 /* wakee took another vCPU: one kick each */
	VAWARE_PREEMPT_LEFT,	 /* latency-sensitive wakee of a CPU-bound task: part of its work */
	VAWARE_DISPATCH_OWN,	 /* took a task from the vCPU's own queue */
	VAWARE_DISPATCH_STEAL,	 /* idle: took a task from another vCPU's queue */
	VAWARE_DISPATCH_BALANCE, /* busy: took a task from a longer or stuck queue */
	VAWARE_DISPATCH_KEEP,	 /* the running task got another slice */
	VAWARE_DISPATCH_OVERDUE, /* a task that neared the wait bound went first */
	VAWARE_EXPIRED_TO_IDLE,	 /* a task whose slice ended moved to an idle vCPU */
	VAWARE_REAL_TIME_LEFT,	 /* a task left its vCPU to a real-time task */
	VAWARE_RCU_READER_FIRST, /* a task queued early: it was preempted as an RCU reader */
	VAWARE_LIMIT_HELD,	 /* a task had to wait as its cgroup had used up its cpu.max */
	VAWARE_PINNED_LOCAL,	 /* a task of one vCPU went straight to it */
	VAWARE_YIELD_IGNORED,	 /* sched_yield with nobody waiting: cost nothing */
	VAWARE_KICKS,		 /* inter-processor interrupts asked for */
	VAWARE_LOCK_WAITS_LONG,	 /* spinlock waits of 1 ms or more */
	VAWARE_BVS_PICKED,	 /* wake-up: vCPU chosen by expected delay */
	VAWARE_BVS_QUEUED,	 /* the same, a busy one */
	VAWARE_BVS_SLEEPER,	/* a task that sleeps by timers left a vCPU whose timers are late */
	VAWARE_IVH_ASKED,	/* claimed a vCPU for a task that had better leave its own */
	VAWARE_IVH_MOVED,	/* the task left in time, for a vCPU that was awake */
	VAWARE_IVH_LATE,	/* the target or the source answered too late: it ran on */
	VAWARE_IVH_USELESS,	/* the task no longer ran when the target was awake */
	VAWARE_RESCUE_IN_REACH, /* tasks that others can take while their vCPU wakes, slow before */
	VAWARE_RESCUE_WATCHED,	/* wake-ups under watch: the vCPU had been slow before */
	VAWARE_RESCUE_HEDGED,	/* second vCPUs woken: the extra wake-ups */
	VAWARE_RESCUE_WON_FIRST, /* the first vCPU had taken the task when the second one came */
	VAWARE_RESCUE_WON_HEDGE, /* the second vCPU took it */
	VAWARE_RESCUE_NOBODY,	 /* no second vCPU was idle or ran best-effort work */
	VAWARE_RESCUE_YIELDED, /* best-effort work made way for normal work that waited elsewhere */
	VAWARE_RWC_AVOIDED,    /* wake-up: moved off a vCPU that is banned */
	VAWARE_RWC_LEFT,       /* a task left the banned vCPU that it ran on */
	VAWARE_RWC_FORCED,     /* a task was placed on a banned vCPU: it may run nowhere else */
	VAWARE_CAPACITY_MOVED, /* a CPU-bound task moved to an idle vCPU with more capacity */
	VAWARE_GATHER_KEPT,    /* wake-up: to an open vCPU while others are parked */
	VAWARE_GATHER_SPILLED, /* wake-up: to any vCPU, for open ones had no time for it soon */
	VAWARE_RESERVE_TAKEN,  /* wake-up: to the vCPU that is kept free, which was idle */
	VAWARE_RESERVE_LEFT,   /* a task that turned out to be CPU-bound left that vCPU */
	VAWARE_SHOOTDOWN_KEPT, /* a task of a confined process was kept off an unsteady vCPU */
	VAWARE_SHOOTDOWN_LEFT, /* such a task left the unsteady vCPU that it ran on */
	VAWARE_NR_COUNTERS,
};

/*
 * What the daemon has found out about one vCPU, for the policies: map `vcpu_hints`, by vCPU
 * number. Written by the daemon (userspace/src/inputs.rs), read here. Groups are named by the
 * lowest number of their vCPUs.
 */
enum vaware_vcpu_flag {
	/* Of one vCPU: */
	VAWARE_VCPU_STRAGGLER = 1 << 0, /* far slower than the others: for best-effort work */
	VAWARE_VCPU_STACKED = 1 << 1,	/* shares its time with another that is used instead */
	/* Of the whole VM, and so set on all vCPUs or on none: */
	VAWARE_VCPU_UNEVEN = 1 << 2, /* they differ in what they give to a task */
	VAWARE_VCPU_SMT = 1 << 3,    /* some are hardware threads of one core */
	VAWARE_VCPU_LLCS = 1 << 4,   /* they belong to several last-level caches */
	/* Of one vCPU: */
	VAWARE_VCPU_PARKED = 1 << 5,   /* work of short bursts is gathered on others */
	VAWARE_VCPU_RESERVE = 1 << 6,  /* kept free of CPU-bound work */
	VAWARE_VCPU_UNSTEADY = 1 << 7, /* gives clearly less than the best: no confined process */
};

/* Processes that are confined to steady vCPUs at a time. */
#define VAWARE_CONFINED 4

/*
 * Processes of which waits at shootdowns are known: the last one by each remainder of its number.
 * It is rare that two that wait long share one, and then they take turns.
 */
#define VAWARE_SHOOTERS 64

/* A process at whose shootdowns tasks waited long. Written by whoever waits; read by the daemon. */
struct vaware_shooter {
	u64 process; /* its number in the first PID namespace; 0: none */
	u64 wait_ns; /* since it is in here: of all its tasks, by SHOOTDOWN_LONG_NS and more */
};

/*
 * A vCPU gives clearly more than another one from this ratio of their capacities on: less is no
 * reason to move work, for it may be noise and costs its caches.
 */
#define VAWARE_CLEARLY_MORE 5
#define VAWARE_CLEARLY_LESS 4

/* vCPUs that a decision looks at: the bound that holds for any number of vCPUs. */
#define VAWARE_CANDIDATES 16

struct vaware_hints {
	u64 valid_until_jiffies; /* the rest counts until then: the daemon's heartbeat; 0: never */
	u32 capacity_1024;	 /* share of a core x its speed; 1024: a whole one of the best */
	u32 flags;		 /* of enum vaware_vcpu_flag */
	u32 sibling; /* the other hardware thread of its core; its own number if there is none */
	u16 nr_candidates; /* entries of `candidates` in use */
	u16 nr_near; /* so many of the first are in use for normal work, and share its cache */
	u32 candidates[VAWARE_CANDIDATES]; /* other vCPUs, the best for this one's work first */
};

/*
 * Waits in runqueues: bucket 0 holds waits below 1 us, bucket i those in [2^(i-1), 2^i) us,
 * the last one everything from there up (2^24 us = 17 s).
 */
#define VAWARE_WAIT_BUCKETS 26

/* What a vCPU did when a task that woke was sent to it. */
enum vaware_target {
	VAWARE_TARGET_POLLING, /* idle, and looked for work by itself (haltpoll) */
	VAWARE_TARGET_HALTED,  /* idle, and had to be woken */
	VAWARE_TARGET_ACTIVE,  /* it had something to run */
	VAWARE_NR_TARGETS,
};

/* Wake-ups that one vCPU sends off together: bucket i holds those of [2^i, 2^(i+1)), the last more.
 */
#define VAWARE_TOGETHER_BUCKETS 8

/*
 * Counters of one vCPU, written by that vCPU alone; a reader may see a sum one event old.
 * Times are in ns since load.
 */
struct vaware_stats {
	u64 counters[VAWARE_NR_COUNTERS];
	u64 wait_hist[VAWARE_NR_CLASSES][VAWARE_WAIT_BUCKETS];
	u64 wait_ns[VAWARE_NR_CLASSES]; /* sum of the waits in the histogram */
	u64 wait_max_ns[VAWARE_NR_CLASSES];
	u64 run_ns[VAWARE_NR_CLASSES]; /* charged run time: stolen time is not in it */
	u64 stolen_ns; /* taken from a running task by the hypervisor, as far as known */
	u64 switches;
	u64 bvs_predicted_ns; /* sums over those waits that bvs has predicted */
	u64 bvs_actual_ns;
	u64 lock_wait_max_ns;
	/* How work blocks; measured while retain or gather is on (blocking.bpf.h): */
	u64 wakes[VAWARE_NR_TARGETS]; /* of tasks, by what the vCPU did to which they were sent */
	u64 wake_wait_ns[VAWARE_NR_TARGETS];	     /* waits of those tasks */
	u64 wakes_together[VAWARE_TOGETHER_BUCKETS]; /* those wake-ups, by how many came together */
	u64 sleeps;				     /* bursts of tasks that ended */
	u64 slept_burst_ns;			     /* their lengths */
	/* For the governor, of normal work; waits of the daemon's tasks are not in them: */
	u64 lost_ns;	   /* it waited for a vCPU, or that was stopped while it ran */
	u64 latency_waits; /* of latency-sensitive tasks */
	u64 latency_wait_ns;
	u64 latency_late_ns; /* their timers woke them later than they had set them for */
	u64 shootdown_ns; /* it waited for other vCPUs at shootdowns, long; part of its run time */
};

/* Where stolen time is read from (docs/detection.md). */
enum vaware_steal_source {
	VAWARE_STEAL_BEATS, /* no steal clock: beats that came late */
	VAWARE_STEAL_KVM,   /* per-vCPU kvm_steal_time, announced by CPUID */
	VAWARE_STEAL_WAKE,  /* of a gap alone: a halted vCPU that was woken and ran late */
};

/*
 * Clock of all stamps in struct vaware_activity: the scheduler's (scx_bpf_now), which user space
 * cannot read by itself; struct vaware_clock tells it.
 */

/* What a vCPU does, by its own last word. Whether it is stopped others must judge. */
enum vaware_state {
	VAWARE_STATE_IDLE,   /* nothing to run: halted, or about to be */
	VAWARE_STATE_ACTIVE, /* has something to run */
};

/*
 * Lengths of periods of a vCPU, in buckets of half an octave: bucket 0 is [0, 2^15) ns; after it
 * come [2^k, 1.5 * 2^k) and [1.5 * 2^k, 2^(k+1)) ns for k = 15 to 31; the last is from 2^32 ns up.
 * Each period adds VAWARE_SPAN_UNIT; all weights halve every 8 s (policy/activity.h).
 */
#define VAWARE_SPAN_BUCKETS 36
#define VAWARE_SPAN_UNIT 256

struct vaware_spans {
	u32 weights[VAWARE_SPAN_BUCKETS];
};

enum vaware_span {
	VAWARE_SPAN_STOPPED,  /* active periods that a stop ended (policy/activity.h) */
	VAWARE_SPAN_IDLED,    /* active periods that ended because it had nothing left to run */
	VAWARE_SPAN_INACTIVE, /* how long it was stopped while it had something to run */
	VAWARE_SPAN_WAKE,     /* wake-up latency: from the wake-up of a halted vCPU until it ran */
	VAWARE_NR_SPANS,
};

/*
 * What is known of one vCPU's activity. Written by that vCPU alone; whoever reads may see one event
 * half written. Stamps are in ns of the clock above; sums are since load.
 */
struct vaware_activity {
	/* Read by wakers on other vCPUs. */
	u64 last_seen_ns; /* last proof that it ran */
	u64 due_ns;	  /* without another by then, it was stopped; 0: none is due */
	u64 since_ns;	  /* since when it is idle, or active, less stops that do not end this */
	u64 stolen_ns;	  /* taken by the hypervisor, from the best source there is */
	u32 state;	  /* enum vaware_state */
	u32 preemptions;

	/* For metrics and cross-checks. */
	u64 beats_stolen_ns; /* taken while it was active, by late beats alone */
	u64 clock_stolen_ns; /* the same by the steal clock alone */
	u64 wake_stolen_ns;  /* taken while it woke; in stolen_ns, too */
	u64 idle_ns;
	u64 idle_periods;
	u64 last_preemption_ns; /* when the last inactive period ended; 0: there was none */

	struct vaware_spans spans[VAWARE_NR_SPANS];
} __attribute__((aligned(64)));

/* One inactive period, as it goes to the activity log. Stamps are in ns of CLOCK_MONOTONIC. */
struct vaware_inactive_period {
	u64 start_ns; /* estimated, unless a steal clock tells the length */
	u64 end_ns;
	u32 vcpu;
	u32 source; /* enum vaware_steal_source */
};

/*
 * What the tasks of one cgroup met, those of cgroups below it left out: map `cgroup_sums`. Counted
 * while any cgroup has a weight, a limit or cpu.idle.
 */
struct vaware_cgroup {
	u64 id;	       /* the kernel's number: its inode in cgroupfs; 0: no cgroup has the entry */
	u64 wait_ns;   /* waits for a vCPU */
	u64 held_ns;   /* held by a limit (cpu.max), summed over tasks */
	u64 stolen_ns; /* steal time while they ran */
};

/* Argument of the vaware_read_clocks program: the kernel's clocks, read together. */
struct vaware_clock {
	u64 jiffies;
	u64 sched_ns; /* the clock of struct vaware_activity */
};

#endif /* VAWARE_INTF_H */
