/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a decision knows of the vCPUs: which it may use, in which order it looks at them, and how
 * soon a task would run there. The decisions themselves are in policy/.
 */
#ifndef VAWARE_VCPUS_BPF_H
#define VAWARE_VCPUS_BPF_H

#include "vaware.bpf.h"

/* Set by whoever sees it, read by all. */
extern u64 uneven_until_ns;   /* until then vCPUs are known to differ in how soon they run a task */
extern u64 wake_typical_ns;   /* lower quartile of wake-up latencies in this VM */
extern u32 best_effort_vcpus; /* vCPUs that run best-effort work */
extern u64 late_until_ns;     /* until then rescue has something to do: its trial goes on */
extern struct vaware_trial ivh_trial;
extern struct vaware_trial rescue_trial;

/* Return the @i-th vCPU that the work of @cpu looks at, or -1 after the last one. */
static inline s32 near_vcpu(const struct vaware_vcpu_inputs *in, s32 cpu, u32 i)
{
	u32 other;

	if (!in)
		return i + 1 < nr_vcpus ? (s32)((cpu + 1 + i) % nr_vcpus) : -1;
	other = in->near[i % VAWARE_NEAR_VCPUS];
	return i < in->nr_near && other < nr_vcpus ? (s32)other : -1;
}

/* Return the flags (enum vaware_vcpu_flag) of @cpu; none while its evidence is old. */
static inline u32 vcpu_flags(s32 cpu)
{
	const struct vaware_vcpu_inputs *in;

	if (!policy_on(VAWARE_POLICY_RWC))
		return 0;
	in = inputs_of(cpu);
	return in ? in->flags : 0;
}

/* Return true if a task of @class may be placed on @cpu. */
static inline bool may_use(const struct task_struct *p, u32 class, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && !rwc_banned(vcpu_flags(cpu), class);
}

/* Return what vCPU @cpu gives to a CPU-bound task, in 1/1024 of the best one. */
static inline u32 fit_of(s32 cpu, const struct cpumask *idle)
{
	const struct vaware_vcpu_inputs *in;

	if (!policy_on(VAWARE_POLICY_CAPACITY))
		return 1024;
	in = inputs_of(cpu);
	if (!in)
		return 1024;
	return place_fit_1024(in->capacity_1024,
			      in->sibling != cpu && !bpf_cpumask_test_cpu(in->sibling, idle));
}

/* Return true if @cpu runs best-effort work at this moment. */
static inline bool runs_best_effort(s32 cpu, const struct vcpu_ctx *v, u64 now)
{
	return v->run_class == VAWARE_CLASS_BEST_EFFORT && !vcpu_stopped(cpu, now);
}

/*
 * Return the wake-up latency to expect of @v by a task that is hurt by long ones: those count for
 * more than their number.
 */
static inline u64 expected_wake_ns(const struct vcpu_ctx *v, u64 now)
{
	return bvs_faded_ns(v->wake_ns, time_delta(now, v->wake_at_ns), WAKE_HALF_LIFE_NS);
}

/* Return what a wake-up of @v takes on average. */
static inline u64 mean_wake_ns(const struct vcpu_ctx *v, u64 now)
{
	return wake_typical_ns +
	       bvs_faded_ns(v->wake_excess_ns, time_delta(now, v->wake_at_ns), WAKE_HALF_LIFE_NS);
}

/*
 * Put @until_ns, a variable that all vCPUs read, off to UNEVEN_NS after @now; written not more
 * often than it takes half of that to pass.
 */
static inline void put_off(u64 *until_ns, u64 now)
{
	if (time_before(*until_ns, now + UNEVEN_NS / 2))
		*until_ns = now + UNEVEN_NS;
}

/* Note that a vCPU is expected to run a task only after @delay_ns. */
static inline void note_unevenness(u64 delay_ns, u64 now)
{
	if (!bvs_good(delay_ns))
		put_off(&uneven_until_ns, now);
}

/* Learn that @v, idle, took @sample_ns to run after something had happened that woke it. */
static inline void learn_wake(struct vcpu_ctx *v, u64 sample_ns, u64 now)
{
	v->wake_took_ns = sample_ns;
	v->wake_ns = bvs_learnt_ns(expected_wake_ns(v, now), sample_ns);
	v->wake_at_ns = now;
	note_unevenness(v->wake_ns, now);
}

/* Note that @cpu, claimed while it was idle, is woken. (One that wakes itself runs already.) */
static inline void begin_wake(s32 cpu, struct vcpu_ctx *v, u64 now)
{
	if (cpu != bpf_get_smp_processor_id())
		v->claimed_ns = now;
}

/* Note that @v runs. If it was woken, learn how long that took. */
static inline void end_wake(struct vcpu_ctx *v, u64 now)
{
	u64 sample_ns;

	if (!v->claimed_ns)
		return;
	sample_ns = time_delta(now, v->claimed_ns);
	v->claimed_ns = 0;
	v->sleeper_until_ns = 0;
	learn_wake(v, sample_ns, now);
	v->wake_excess_ns =
		rescue_excess_ns(v->wake_excess_ns, sample_ns, rescue_hedge_ns(wake_typical_ns));
	if (!(v->wakes++ % WAKE_TYPICAL_EVERY))
		wake_typical_ns = rescue_typical_ns(wake_typical_ns, sample_ns);
}

/* Note a stop of @v that is worth timer beats, or one that the work on it has just evaded. */
static inline void note_long_stop(struct vcpu_ctx *v, const struct vaware_activity *a, u64 now)
{
	u64 busy_ns = now - a->idle_ns;

	v->long_stops_apart_ns = activity_apart_ns(v->long_stops_apart_ns, v->long_stop_ns,
						   busy_ns - v->long_stop_busy_ns, now);
	v->long_stop_ns = now;
	v->long_stop_busy_ns = busy_ns;
}

/* vcpus.bpf.c: by themselves, for the verifier to look at once and not at each place of a loop. */

/*
 * Return the cost in ns of placing a task of @class with @burst_ns of work on @cpu now: its delay,
 * what it loses, and what others lose by it.
 */
u64 vcpu_cost_ns(s32 cpu, u32 class, u64 burst_ns, u64 now);

/* Return for how long more the wake-up of @cpu, which is under way, is expected to take, in ns. */
u64 vcpu_wake_rest_ns(s32 cpu, u64 now);

/* Return for how long @cpu, which runs, is expected to be stopped within a slice, in ns. */
u64 vcpu_stops_ns(s32 cpu, u64 now);

/* Return how late to expect the timers of @cpu that wake sleepers, in ns. */
u64 vcpu_timer_late_ns(s32 cpu, u64 now);

/*
 * Return true if it is a timer that wakes a task at present, on this vCPU @cpu, where the kernel
 * has left it since the task fell asleep here. Learn how late it is: the task could be woken no
 * sooner than @cpu ran, and to sleep elsewhere is all that would have helped it.
 */
int vcpu_timer_wakes(s32 cpu, u64 now);

/*
 * Note that this vCPU @cpu has sent a sleeper to @v, vCPU @to, which is expected to run it after
 * @delay_ns.
 */
static inline void send_sleeper(s32 cpu, s32 to, struct vcpu_ctx *v, u64 delay_ns, u64 now)
{
	v->sleeper_until_ns = now + bvs_keep_ns(vcpu_timer_late_ns(cpu, now),
						vcpu_timer_late_ns(to, now) + delay_ns);
}

/*
 * Return true if a sleeper waits for @owner that vCPU @cpu had better leave to it: it would go to
 * sleep again on @cpu, whose timers are later.
 */
static inline bool keeps_sleeper(s32 owner, s32 cpu, u64 now)
{
	const struct vcpu_ctx *v = vcpu_ctx_of(owner);

	return v && time_before(now, v->sleeper_until_ns) &&
	       vcpu_timer_late_ns(owner, now) < vcpu_timer_late_ns(cpu, now);
}

#endif /* VAWARE_VCPUS_BPF_H */
