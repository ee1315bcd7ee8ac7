/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * State that the .bpf.c files share, and the few places where they touch the kernel: clock, steal
 * clock, idle claims, queues. Everything that decides is in policy/.
 */
#ifndef VAWARE_BPF_H
#define VAWARE_BPF_H

#include <scx/common.bpf.h>

#include "intf.h"
#include "policy/account.h"
#include "policy/activity.h"
#include "policy/bvs.h"
#include "policy/ivh.h"
#include "policy/place.h"
#include "policy/queue.h"
#include "policy/rescue.h"
#include "policy/rwc.h"
#include "policy/trial.h"
#include "policy/tunables.h"
#include "policy/vtime.h"

#define SCHED_IDLE 5		    /* include/uapi/linux/sched.h */
#define KVM_VCPU_PREEMPTED (1 << 0) /* arch/x86/include/uapi/asm/kvm_para.h */

/* Set before load by the daemon, userspace/src/scheduler.rs; defined in main.bpf.c. */
extern const volatile u32 nr_vcpus;	  /* nr_cpu_ids: possible vCPUs, offline ones included */
extern const volatile u64 wait_bound_ns;  /* no runnable task waits longer for an active vCPU */
extern const volatile u32 steal_source;	  /* enum vaware_steal_source */
extern const volatile bool activity_on;	  /* vact is at work; off to measure what it costs */
extern const volatile bool log_gaps;	  /* stops go to the activity log */
extern const volatile bool queued_wakeup; /* the kernel has idle vCPUs activate what wakes */

/* Set after load by the daemon. */
extern u64 tick_ns;  /* 1 s / HZ */
extern u64 policies; /* bits of enum vaware_policy; changes at run time */

/*
 * User queues: one for normal and one for best-effort work per vCPU, ordered by virtual deadline.
 * Waiting tasks stay in them, within reach of all vCPUs, until one is about to run them.
 */
#define DSQ_BEST_EFFORT (1ULL << 32)

static inline u64 vcpu_dsq(s32 cpu, bool best_effort)
{
	return best_effort ? DSQ_BEST_EFFORT | (u32)cpu : (u32)cpu;
}

/*
 * The maps are weak definitions, merged by the linker: extern ones come out of it broken
 * (libbpf 1.7).
 */

/* One vCPU. Written by whoever holds its runqueue lock; read by wakers without it. */
struct vcpu_ctx {
	/* The running task, for those who decide about preempting it. */
	u64 vclock; /* virtual time that the vCPU's queue has reached */
	u64 run_started_ns;
	u64 beat_ns;	  /* when the running task was last charged */
	u64 run_vtime;	  /* its virtual time then */
	u64 run_burst_ns; /* its run time since it woke, then */
	u64 run_burst_avg_ns;
	u32 run_class; /* enum vaware_class */
	u32 run_weight;
	u32 run_guest;	    /* it has been moved here by a policy */
	u32 run_rcu_reader; /* it was one when it was switched in */
	u32 in_turn;	    /* what runs next had the earliest deadline of the vCPU's queue */
	u32 yielded;	    /* it called sched_yield while others waited */
	u32 stolen_1024;    /* decaying share of stolen time */

	/* For the vCPU itself. */
	u64 charged_stolen_ns; /* stolen time when the running task was last charged */
	u64 folded_run_ns;     /* run and stolen time not yet in stolen_1024 */
	u64 folded_stolen_ns;
	u64 overdue_next_ns; /* when to look for overdue tasks again */
	u64 balance_next_ns; /* when to look into another queue again */
	u32 steal_cursor;    /* where the last search through other queues ended */
	u32 balance_cursor;
	u32 overdue_cursor;

	/* For vact: see activity.bpf.c. */
	u64 woke_ns;		 /* when it last had something to run after it had been idle */
	u64 busy_ns;		 /* for how long it has, on average */
	u64 stop_ns;		 /* how long its stops are: activity_stop_ns() */
	u64 timer_due_ns;	 /* when its timer runs out; 0: not armed */
	u64 long_stop_ns;	 /* end of the last stop that is worth timer beats; 0: none */
	u64 long_stop_busy_ns;	 /* the same by a clock that stands while the vCPU is idle */
	u64 long_stops_apart_ns; /* mean busy time between those */
	u64 tick_due_ns; /* when its next tick comes if it runs a task of ours; 0: not known yet */
	u64 steal_clock_ns; /* steal clock at the last beat */
	u64 clock_owed_ns;  /* stops seen by late beats that the steal clock has not shown yet */
	u64 clock_owed_since_ns;
	u64 steal_stat_ns; /* the kernel's steal statistics at the last tick */
	u64 softirqs;	   /* those of the kinds that take long, at the last timer beat */
	u64 spans_faded_ns;
	u64 steal_stat_seen; /* steal_stat_ns is one */

	/* Wake-ups of the vCPU (vcpus.bpf.h). */
	u64 claimed_ns;	  /* another vCPU woke it, idle, at this time; 0: it has run since */
	u64 wake_took_ns; /* its last wake-up, until vact has taken it down */
	u64 wake_ns;	  /* its wake-up latency, as expected at wake_at_ns */
	u64 wake_at_ns;
	u64 wake_excess_ns; /* what its wake-ups take, on average, beyond when they are hedged */
	u32 wakes;
	u64 timer_late_ns; /* how late sleepers' timers run out here, as expected at
			      timer_late_at_ns */
	u64 timer_late_at_ns;
	u64 sleeper_until_ns; /* a sleeper has been sent to it, which is worth a wait until then */
	u32 rescue_from;      /* number + 1 of the vCPU to whose queue it has been sent */

	/* The trial of rescue: waits that it is to be told of, [1] with rescue. */
	u64 trial_wait_ns[2];
	u32 trial_wakes[2];
	u64 trial_told_epoch; /* the last in which it was told */

	/* Harvesting (harvest.bpf.h). As a target, written by the source: */
	u32 ivh_claim; /* number + 1 of the source */
	/* as a source: */
	u32 ivh_target;	   /* number + 1 of the target */
	s32 ivh_pid;	   /* the task that would leave */
	u64 ivh_asked_ns;  /* when this vCPU asked */
	u64 ivh_called_ns; /* when it was asked */
	u64 ivh_awake_ns;  /* when it was awake after that */

	/*
	 * The spinlock that it waits for. One is enough: where an interrupt waits as well, the
	 * outer wait is not seen.
	 */
	u64 lock;
	u64 lock_since_ns;
} __attribute__((aligned(64)));

/* One task. Written by the vCPU that holds its runqueue lock. */
struct task_ctx {
	u64 vtime;     /* relative to the vclock of `vcpu` */
	u64 queued_ns; /* when it began to wait; 0: it does not wait */
	u64 burst_ns;  /* run time since it last woke */
	u64 burst_avg_ns;
	u64 predicted_ns; /* wait that bvs expects; 0: it has not chosen */
	u32 vcpu;
	u32 leaves_for;	    /* number + 1 of the vCPU to go to when it is next queued */
	u32 guest;	    /* moved by a policy since it last slept */
	u32 by_work;	    /* a CPU-bound task woke it, when it last had to wait for a busy vCPU */
	u32 rescue_arm;	    /* 1: it was woken on an idle vCPU without rescue, 2: with; 0: else */
	u32 trial_on;	    /* ivh was on in its present epoch of the trial */
	u64 trial_since_ns; /* when it was first seen in that epoch, without having slept since; 0:
			       never */
	u64 trial_burst_ns; /* burst_ns then */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set to nr_cpu_ids before load */
	__type(key, u32);
	__type(value, struct vcpu_ctx);
} vcpu_ctxs SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to nr_cpu_ids before load */
	__type(key, u32);
	__type(value, struct vaware_stats);
} vcpu_stats SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to nr_cpu_ids before load */
	__type(key, u32);
	__type(value, struct vaware_activity);
} vcpu_activity SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to nr_cpu_ids before load */
	__type(key, u32);
	__type(value, struct vaware_vcpu_inputs);
} vcpu_inputs SEC(".maps") __weak;

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

/* Return what the daemon knows of vCPU @cpu, or NULL if that is nothing, or too old. */
static inline struct vaware_vcpu_inputs *inputs_of(s32 cpu)
{
	u32 key = cpu;
	struct vaware_vcpu_inputs *in = bpf_map_lookup_elem(&vcpu_inputs, &key);

	return in && bpf_jiffies64() < in->valid_until_jiffies ? in : NULL;
}

/* Return the counters of the vCPU that this runs on. */
static inline struct vaware_stats *stats_here(void)
{
	u32 key = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&vcpu_stats, &key);
}

static inline void count(enum vaware_counter counter)
{
	struct vaware_stats *s = stats_here();

	if (s)
		s->counters[counter]++;
}

/*
 * Return a clock in ns for run and wait times: the runqueue's, already read by the kernel for this
 * event. Gaps are the business of the beats, which see it move from tick to tick.
 */
static inline u64 now_ns(void)
{
	return scx_bpf_now();
}

static inline bool policy_on(enum vaware_policy policy)
{
	return policies & policy;
}

static inline bool is_best_effort(const struct task_struct *p)
{
	return p->policy == SCHED_IDLE;
}

/* Return true if @p is a kernel thread that belongs to one vCPU. */
static inline bool is_vcpu_kthread(const struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1;
}

/*
 * Return true if @p can run on its present vCPU only. BPF's own prolog may have disabled migration
 * of the current task once more; the framework found out at load whether it does. (Its
 * is_migration_disabled() reads the kernel's configuration file, which not every VM has.)
 */
static inline bool is_pinned(const struct task_struct *p)
{
	u32 disabled = 0;

	if (p->nr_cpus_allowed == 1)
		return true;
	if (bpf_core_field_exists(p->migration_disabled))
		disabled = p->migration_disabled;
	if (disabled && __scx_prolog_disables_migration && bpf_get_current_task_btf() == p)
		disabled--;
	return disabled;
}

/*
 * Return true if @p was preempted as an RCU reader: a grace period cannot end before it goes on.
 * Known from the time that it is switched out to that at which it leaves its critical section.
 */
static inline bool is_rcu_reader(const struct task_struct *p)
{
	return bpf_core_field_exists(p->rcu_blocked_node) && p->rcu_blocked_node;
}

static inline u32 task_class(const struct task_struct *p, const struct task_ctx *t)
{
	return account_class(is_best_effort(p), is_vcpu_kthread(p),
			     account_burst_ns(t->burst_avg_ns, t->burst_ns));
}

/* Return the class by which @p waits for a vCPU that is busy. */
static inline u32 waiting_class(const struct task_struct *p, const struct task_ctx *t)
{
	return account_waiting_class(task_class(p, t), t->by_work);
}

static inline void kick(s32 cpu, u64 flags)
{
	scx_bpf_kick_cpu(cpu, flags);
	count(VAWARE_KICKS);
}

/* Make the virtual time of @t relative to the clock of @v, that of vCPU @cpu. */
static inline void carry_vtime(struct task_ctx *t, s32 cpu, const struct vcpu_ctx *v)
{
	const struct vcpu_ctx *from;

	if (t->vcpu == cpu)
		return;
	from = vcpu_ctx_of(t->vcpu);
	t->vtime = from ? vtime_rebase(t->vtime, from->vclock, v->vclock) : v->vclock;
	t->vcpu = cpu;
}

/*
 * Begin the wait of @p for vCPU @cpu: carry its virtual time over to that vCPU's clock. Return the
 * deadline by which it is queued.
 */
static inline u64 begin_wait(struct task_struct *p, struct task_ctx *t, s32 cpu, struct vcpu_ctx *v,
			     u64 now)
{
	carry_vtime(t, cpu, v);
	t->vtime = vtime_enter(t->vtime, v->vclock);
	t->queued_ns = now;
	if (!is_rcu_reader(p))
		return vtime_deadline(t->vtime, p->scx.weight, SLICE_NS);
	count(VAWARE_RCU_READER_FIRST);
	return vtime_reader_deadline(v->vclock);
}

extern const struct kvm_steal_time steal_time __ksym __weak;

/* Return the ns that the hypervisor says it has taken from @cpu so far; 0 without a steal clock. */
static inline u64 steal_clock_ns(s32 cpu)
{
	const struct kvm_steal_time *st;

	if (steal_source != VAWARE_STEAL_KVM || !&steal_time)
		return 0;
	st = bpf_per_cpu_ptr(&steal_time, cpu);
	return st ? st->steal : 0;
}

/* activity.bpf.c: the beat of @cpu at @now is late, or its steal clock has moved. */
extern int vact_stopped(s32 cpu, u64 now);

/* A beat: @cpu, which this runs on, is active at @now. */
static inline void vact_beat(struct vaware_activity *a, const struct vcpu_ctx *v, s32 cpu, u64 now)
{
	if (activity_late(a->due_ns, now) || steal_clock_ns(cpu) != v->steal_clock_ns)
		vact_stopped(cpu, now);
	a->beat_ns = now;
}

/*
 * Return true if a timer should add the next beat of @v, which runs a task of ours at @now: long
 * stops are frequent, it is busy for long, on average, by now, or as the task is that has come, and
 * the next tick is not as near.
 */
static inline bool vact_wants_beat(const struct vcpu_ctx *v, u64 now)
{
	return !v->timer_due_ns &&
	       activity_wants_timer(v->long_stops_apart_ns, v->long_stop_ns, now, tick_ns) &&
	       (activity_outlasts_beats(v->busy_ns) ||
		activity_outlasts_beats(time_delta(now, v->woke_ns)) ||
		activity_outlasts_beats(v->run_burst_ns)) &&
	       !activity_tick_suffices(v->tick_due_ns, tick_ns, now);
}

/* activity.bpf.c: let a timer add a beat on @cpu, which this runs on. */
extern int vact_add_beat(s32 cpu, u64 now);

/* Return when the next beat is due on @v at the latest; @ticks: it runs a task of ours. 0: none. */
static inline u64 vact_due_ns(struct vcpu_ctx *v, bool ticks, u64 now)
{
	if (v->timer_due_ns > now)
		return v->timer_due_ns + BEAT_LATE_NS;
	if (!ticks || !v->tick_due_ns)
		return 0;
	v->tick_due_ns = activity_tick_after_ns(v->tick_due_ns, tick_ns, now);
	return v->tick_due_ns + BEAT_LATE_NS;
}

/*
 * Return true if @cpu is believed to be stopped at @now though it has something to run: by the
 * host's own flag where there is a steal clock, else because it gives no sign of life.
 */
static inline bool vcpu_stopped(s32 cpu, u64 now)
{
	const struct vaware_activity *a = activity_of(cpu);
	const struct kvm_steal_time *st;

	if (!a || a->state != VAWARE_STATE_ACTIVE)
		return false;
	if (steal_source == VAWARE_STEAL_KVM && &steal_time) {
		st = bpf_per_cpu_ptr(&steal_time, cpu);
		if (st && st->preempted & KVM_VCPU_PREEMPTED)
			return true;
	}
	return activity_stopped(a->state, a->due_ns, now);
}

/* Return the probability, in 1/1024, that active @cpu is stopped within the next @within_ns. */
static inline u32 vcpu_hazard_1024(s32 cpu, u64 now, u64 within_ns)
{
	const struct vaware_activity *a = activity_of(cpu);

	if (!a || a->state != VAWARE_STATE_ACTIVE)
		return 0;
	return activity_hazard_1024(&a->spans[VAWARE_SPAN_STOPPED], &a->spans[VAWARE_SPAN_IDLED],
				    time_delta(now, a->since_ns), within_ns);
}

/*
 * Charge @p, which runs on @cpu, for what it ran since the last beat until @now. Idempotent: called
 * whenever its virtual time has to be right, and on every tick.
 */
static inline void charge(struct task_struct *p, struct task_ctx *t, s32 cpu, struct vcpu_ctx *v,
			  u64 now)
{
	struct vaware_activity *a = activity_of(cpu);
	u64 elapsed_ns = time_delta(now, v->beat_ns), stolen_ns = 0, run_ns;
	struct vaware_stats *s = stats_here();
	u32 class = v->run_class;

	if (activity_on && a) {
		if (cpu == bpf_get_smp_processor_id())
			vact_beat(a, v, cpu, now);
		stolen_ns = a->stolen_ns - v->charged_stolen_ns;
		v->charged_stolen_ns = a->stolen_ns;
	}
	run_ns = account_run_ns(elapsed_ns, stolen_ns);
	v->beat_ns = now;
	t->vtime += vtime_of_run(run_ns, p->scx.weight);
	t->burst_ns += run_ns;
	v->run_vtime = t->vtime;
	v->run_burst_ns = t->burst_ns;
	v->run_class = task_class(p, t); /* a task that goes on alone is not switched in again */

	v->folded_run_ns += run_ns;
	v->folded_stolen_ns += elapsed_ns - run_ns;
	if (v->folded_run_ns + v->folded_stolen_ns >= tick_ns) {
		v->stolen_1024 =
			account_stolen_1024(v->stolen_1024, v->folded_run_ns, v->folded_stolen_ns);
		v->folded_run_ns = 0;
		v->folded_stolen_ns = 0;
	}
	if (s) {
		s->stolen_ns += elapsed_ns - run_ns;
		if (class < VAWARE_NR_CLASSES)
			s->run_ns[class] += run_ns;
	}
}

/*
 * Move the clock of @v on to @vtime, that of the task which it goes on with: the earliest there is.
 * New tasks then enter beside it, not behind by all that it ran alone.
 */
static inline void advance_vclock(struct vcpu_ctx *v, u64 vtime)
{
	if (vtime_before(v->vclock, vtime))
		v->vclock = vtime;
}

/* Return what a decision needs to know of the task that runs on @v. */
static inline struct running running_on(const struct vcpu_ctx *v, u64 now)
{
	struct running r = {
		.class = v->run_class,
		.weight = v->run_weight,
		.vtime = v->run_vtime,
		.ran_ns = time_delta(now, v->run_started_ns),
		.burst_ns = v->run_burst_ns,
		.unbilled_ns = time_delta(now, v->beat_ns),
		.guest = v->run_guest,
		.rcu_reader = v->run_rcu_reader,
	};

	return r;
}

#endif /* VAWARE_BPF_H */
