/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Activity: what each vCPU does, and when the hypervisor has preempted it.
 */
#ifndef VAWARE_ACTIVITY_BPF_H
#define VAWARE_ACTIVITY_BPF_H

#include "context.bpf.h"

#include "policy/activity.h"

#define KVM_VCPU_PREEMPTED (1 << 0) /* arch/x86/include/uapi/asm/kvm_para.h */

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

/* Prepare what is known of vCPU @cpu, and its timer. Return 0, or a negative error. */
int activity_init(s32 cpu);

/* The beat of @cpu at @now is late, or its steal clock has moved. */
int activity_note_preemption(s32 cpu, u64 now);

/* A beat: @cpu, which this runs on, is active at @now. */
static inline void activity_seen(struct vaware_activity *a, const struct vcpu_ctx *v, s32 cpu,
				 u64 now)
{
	if (activity_late(a->due_ns, now) || steal_clock_ns(cpu) != v->activity.steal_clock_ns)
		activity_note_preemption(cpu, now);
	a->last_seen_ns = now;
}

/* Global functions, which the verifier checks once and not at each call. */

/*
 * Idle vCPU @cpu has something to run again. From its wake-up until now it may have waited for the
 * hypervisor: the waker has stamped when it was, and a steal clock counts the wait.
 */
int activity_wake_up(s32 cpu, u64 now);

/* Have the timer of @cpu add a beat, if long stops are frequent there. */
int activity_want_beat(s32 cpu, u64 now);

/* Return when the next beat is due on @v at the latest; @ticks: it runs a task of ours. 0: none. */
static inline u64 activity_due_ns(struct vcpu_ctx *v, bool ticks, u64 now)
{
	if (v->activity.timer_due_ns > now)
		return v->activity.timer_due_ns + BEAT_LATE_NS;
	if (!ticks || !v->activity.tick_due_ns)
		return 0;
	v->activity.tick_due_ns = activity_tick_after_ns(v->activity.tick_due_ns, tick_ns, now);
	return v->activity.tick_due_ns + BEAT_LATE_NS;
}

/* A task of ours is about to run on @cpu: a beat, and ticks are due from now on. */
static inline void activity_running(s32 cpu, struct vcpu_ctx *v, u64 now)
{
	struct vaware_activity *a = activity_of(cpu);

	if (!activity_on || !a)
		return;
	if (cpu == bpf_get_smp_processor_id()) {
		if (a->state == VAWARE_STATE_IDLE)
			activity_wake_up(cpu, now);
		else
			activity_seen(a, v, cpu, now);
		if (v->activity.long_preemption_ns)
			activity_want_beat(cpu, now);
		a->due_ns = activity_due_ns(v, true, now);
	}
	v->account.charged_steal_ns = a->stolen_ns;
}

/* No task of ours runs on @cpu any more: ticks are not ours to see. */
static inline void activity_stopping(s32 cpu, struct vcpu_ctx *v, u64 now)
{
	struct vaware_activity *a = activity_of(cpu);

	if (activity_on && a && cpu == bpf_get_smp_processor_id())
		a->due_ns = activity_due_ns(v, false, now);
}

/* A tick on @cpu, at which a task of ours runs. */
int activity_tick(s32 cpu);

/*
 * vCPU @cpu, which this runs on, has found nothing to run. It is idle until a task of ours runs: a
 * real-time task of the kernel's, of which we are not told, counts as idle time.
 */
int activity_idle(s32 cpu, u64 now);

/* vCPU @cpu goes offline. */
__hidden void activity_offline(s32 cpu);

/* Note a preemption of @v that is worth timer beats, or one that the work on it has just evaded. */
static inline void activity_note_long_preemption(struct vcpu_ctx *v,
						 const struct vaware_activity *a, u64 now)
{
	u64 busy_ns = now - a->idle_ns;

	v->activity.long_preemptions_apart_ns = activity_apart_ns(
		v->activity.long_preemptions_apart_ns, v->activity.long_preemption_ns,
		busy_ns - v->activity.long_preemption_busy_ns, now);
	v->activity.long_preemption_ns = now;
	v->activity.long_preemption_busy_ns = busy_ns;
}

/*
 * Return true if @cpu is believed to be stopped at @now though it has something to run: by the
 * host's own flag where there is a steal clock, else because it gives no sign of life.
 */
static inline bool vcpu_preempted(s32 cpu, u64 now)
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
	return activity_preempted(a->state, a->due_ns, now);
}

/* Return true if @cpu runs best-effort work at this moment. */
static inline bool runs_best_effort(s32 cpu, const struct vcpu_ctx *v, u64 now)
{
	return v->run.class == VAWARE_CLASS_BEST_EFFORT && !vcpu_preempted(cpu, now);
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

/* run.bpf.c: what cannot wait for the next tick, from the timer of @cpu. */
int vaware_between_ticks(s32 cpu, u64 now);

#endif /* VAWARE_ACTIVITY_BPF_H */
