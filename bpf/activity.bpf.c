/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What each vCPU does: vact. Every event on a vCPU is a beat, which proves that it runs now. One
 * that was due and comes much later, or a steal clock that has moved, tells of a stop.
 *
 * Beats come with task switches, ticks and the ends of idle periods; where long stops are frequent
 * a timer adds one every BEAT_NS, pinned to its vCPU, for as long as that has something to run, if
 * it is busy for long at a time. An idle vCPU is not woken for beats, but for one at most: the
 * timer that was pending when it became idle. (To cancel it would cost as much: kernels from 7.0 on
 * do that by an interrupt to itself.)
 */
#include "account.bpf.h"
#include "activity.bpf.h"
#include "wakeup.bpf.h"

#define CLOCK_MONOTONIC 1 /* include/uapi/linux/time.h */

/* The timer that adds beats. Kept apart, for it is touched only where stops are frequent. */
struct beat_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set to nr_cpu_ids before load */
	__type(key, u32);
	__type(value, struct beat_timer);
} beat_timers SEC(".maps");

/* Stops found, for the activity log; a record that finds no room is lost. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* enlarged before load if the log is on */
} activity_log SEC(".maps");

/* Global, as those of the header. */
u64 activity_steal_clock_at(s32 cpu, u64 before_ns, u64 now);

extern const struct kernel_stat kstat __ksym __weak;
extern const struct kernel_cpustat kernel_cpustat __ksym __weak;

/* Return the number of softirqs on this vCPU so far of the kinds that can take long. */
static u64 long_softirqs(void)
{
	const struct kernel_stat *stat;

	if (!&kstat)
		return 0;
	stat = bpf_this_cpu_ptr(&kstat);
	return (u64)stat->softirqs[HI_SOFTIRQ] + stat->softirqs[NET_TX_SOFTIRQ] +
	       stat->softirqs[NET_RX_SOFTIRQ] + stat->softirqs[BLOCK_SOFTIRQ] +
	       stat->softirqs[IRQ_POLL_SOFTIRQ] + stat->softirqs[TASKLET_SOFTIRQ];
}

/* Log the stop that took @taken_ns and ended just now. */
static void log_inactive_period(s32 cpu, u64 taken_ns, u32 source)
{
	struct vaware_inactive_period *period;

	if (!log_activity)
		return;
	period = bpf_ringbuf_reserve(&activity_log, sizeof(*period), 0);
	if (!period)
		return;
	period->end_ns = bpf_ktime_get_ns();
	period->start_ns = period->end_ns - taken_ns;
	period->vcpu = cpu;
	period->source = source;
	bpf_ringbuf_submit(period, BPF_RB_NO_WAKEUP);
}

/* Let all distributions of @a fade as time goes by. */
static void fade(struct vaware_activity *a, struct vcpu_ctx *v, u64 now)
{
	u32 halvings = span_halvings(v->activity.spans_faded_ns, now), i;

	if (!halvings)
		return;
	v->activity.spans_faded_ns = now;
	for (i = 0; i < VAWARE_NR_SPANS; i++)
		span_decay(&a->spans[i], halvings);
}

/* What the steal clock of @v owes at @now will not be shown any more. Let it be evidence. */
static void note_missed(struct vcpu_ctx *v, const struct vaware_activity *a, u64 now)
{
	u64 busy_ns = now - a->idle_ns;

	v->activity.clock_missed_ns =
		activity_missed_ns(v->activity.clock_missed_ns, v->activity.clock_owed_ns,
				   time_delta(busy_ns, v->activity.clock_missed_busy_ns));
	v->activity.clock_missed_busy_ns = busy_ns;
	v->activity.clock_misses =
		activity_clock_misses(v->activity.clock_misses, v->activity.clock_missed_ns);
	v->activity.clock_owed_ns = 0;
}

/*
 * Return what the steal clock of @cpu, last seen at @before_ns, showed at @now, when this event
 * began. A long stop that came since is left to the next beat: its time has passed for the task by
 * then, too.
 */
__noinline u64 activity_steal_clock_at(s32 cpu, u64 before_ns, u64 now)
{
	u64 clock_ns = steal_clock_ns(cpu);

	if (clock_ns - before_ns >= PREEMPTION_LONG_NS &&
	    activity_stop_is_later(clock_ns - before_ns, now, read_clock_ns()))
		return before_ns;
	return clock_ns;
}

/*
 * The beat on @cpu at @now is late, or its steal clock has moved: the hypervisor had stopped
 * it. Take down when and for how long.
 */
int activity_note_preemption(s32 cpu, u64 now)
{
	struct vaware_activity *a = activity_of(cpu);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	u64 clock_ns, taken_ns, late_ns = 0, began_ns = now;
	struct activity_taken taken;
	u32 source = VAWARE_STEAL_BEATS;

	if (!a || !v)
		return 0;
	clock_ns = activity_steal_clock_at(cpu, v->activity.steal_clock_ns, now);
	taken_ns = clock_ns - v->activity.steal_clock_ns;
	v->activity.steal_clock_ns = clock_ns;
	a->clock_stolen_ns += taken_ns;
	if (activity_late(a->due_ns, now)) {
		late_ns = now - (a->due_ns - BEAT_LATE_NS);
		began_ns = activity_preemption_began_ns(a->last_seen_ns, a->due_ns - BEAT_LATE_NS);
		a->beats_stolen_ns += now - began_ns;
	}
	if (steal_source == VAWARE_STEAL_KVM) {
		if (v->activity.clock_owed_ns &&
		    now - v->activity.clock_owed_since_ns > CLOCK_LAG_NS)
			note_missed(v, a, now);
		taken = activity_fuse(taken_ns, late_ns, v->activity.clock_owed_ns,
				      v->activity.clock_misses);
		if (!v->activity.clock_owed_ns)
			v->activity.clock_owed_since_ns = now;
		v->activity.clock_owed_ns = taken.owed_ns;
		if (taken.by_clock) {
			source = VAWARE_STEAL_KVM;
			began_ns = now - taken.ns;
		}
		taken_ns = taken.ns;
	} else {
		taken_ns = now - began_ns;
	}
	a->stolen_ns += taken_ns;
	if (taken_ns < PREEMPTION_MIN_NS)
		return 0;
	fade(a, v, now);
	if (!activity_ends(taken_ns, v->activity.stop_ns)) {
		a->since_ns += taken_ns;
	} else {
		if (a->state == VAWARE_STATE_ACTIVE && began_ns > a->since_ns)
			span_add(&a->spans[VAWARE_SPAN_STOPPED], began_ns - a->since_ns);
		a->since_ns = now;
	}
	v->activity.stop_ns = activity_preemption_ns(v->activity.stop_ns, taken_ns);
	span_add(&a->spans[VAWARE_SPAN_INACTIVE], taken_ns);
	a->preemptions++;
	a->last_preemption_ns = now;
	if (taken_ns >= PREEMPTION_LONG_NS)
		activity_note_long_preemption(v, a, now);
	log_inactive_period(cpu, taken_ns, source);
	return 0;
}

/*
 * A beat at @now is late by the timer. Return true if a softirq may have held the timer up: long
 * ones have run since its last beat, and the interrupt of the tick has not been missed.
 */
static bool held_up(const struct vaware_activity *a, const struct vcpu_ctx *v, u64 now)
{
	return v->activity.timer_due_ns && activity_late(a->due_ns, now) &&
	       v->activity.tick_due_ns &&
	       !activity_late(v->activity.tick_due_ns + BEAT_LATE_NS, now) &&
	       long_softirqs() != v->activity.softirqs;
}

/* Beat on @cpu at @now, at a time that was due. */
static void beat_when_due(struct vaware_activity *a, struct vcpu_ctx *v, s32 cpu, u64 now)
{
	if (held_up(a, v, now))
		a->due_ns = 0;
	activity_seen(a, v, cpu, now);
}

/*
 * Return true if a timer should add the next beat of @v, which runs a task of ours at @now: long
 * stops are frequent, it is busy for long, on average, by now, or as the task is that has come, and
 * the next tick is not as near.
 */
static bool activity_wants_beat(const struct vcpu_ctx *v, u64 now)
{
	return !v->activity.timer_due_ns &&
	       activity_wants_timer(v->activity.long_preemptions_apart_ns,
				    v->activity.long_preemption_ns, now, tick_ns) &&
	       (activity_outlasts_beats(v->activity.busy_ns) ||
		activity_outlasts_beats(time_delta(now, v->activity.woke_ns)) ||
		activity_outlasts_beats(v->run.burst_ns)) &&
	       !activity_tick_suffices(v->activity.tick_due_ns, tick_ns, now);
}

int activity_want_beat(s32 cpu, u64 now)
{
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	struct beat_timer *b;
	u32 key = cpu;

	if (!v || !activity_wants_beat(v, now))
		return 0;
	b = bpf_map_lookup_elem(&beat_timers, &key);
	if (b && !bpf_timer_start(&b->timer, BEAT_NS, BPF_F_TIMER_CPU_PIN))
		v->activity.timer_due_ns = now + BEAT_NS;
	return 0;
}

/* The timer of vCPU @cpu has run out. */
static int timer_beat(void *map, u32 *cpu, struct beat_timer *b)
{
	struct vaware_activity *a = activity_of(*cpu);
	struct vcpu_ctx *v = vcpu_ctx_of(*cpu);
	u64 now = now_unlocked_ns();

	if (!a || !v)
		return 0;
	/* One that was pending when its vCPU became idle or went offline is let go. */
	if (a->state != VAWARE_STATE_ACTIVE || *cpu != bpf_get_smp_processor_id()) {
		v->activity.timer_due_ns = 0;
		return 0;
	}
	beat_when_due(a, v, *cpu, now);
	v->activity.softirqs = long_softirqs();
	v->activity.timer_due_ns = 0;
	activity_want_beat(*cpu, now);
	a->due_ns = activity_due_ns(v, v->run.class != VAWARE_CLASS_NONE, now);
	vaware_between_ticks(*cpu, now);
	return 0;
}

/* Prepare the timer of vCPU @cpu. It starts when the vCPU is first found to be stopped from. */
int activity_init(s32 cpu)
{
	struct vaware_activity *a = activity_of(cpu);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	struct beat_timer *b;
	u32 key = cpu;
	int err;

	b = bpf_map_lookup_elem(&beat_timers, &key);
	if (!a || !v || !b)
		return -ENOENT;
	a->since_ns = now_unlocked_ns();
	v->activity.spans_faded_ns = a->since_ns;
	v->activity.long_preemptions_apart_ns = BEATS_QUIET_NS;
	v->activity.steal_clock_ns = steal_clock_ns(cpu);
	err = bpf_timer_init(&b->timer, &beat_timers, CLOCK_MONOTONIC);
	return err ?: bpf_timer_set_callback(&b->timer, timer_beat);
}

/* A tick on @cpu, at which a task of ours runs: a hard interrupt, which softirqs do not delay. */
int activity_tick(s32 cpu)
{
	struct vaware_activity *a = activity_of(cpu);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	const struct kernel_cpustat *stat;
	u64 now = now_ns();

	if (!a || !v || cpu != bpf_get_smp_processor_id())
		return 0;
	beat_when_due(a, v, cpu, now);
	v->activity.tick_due_ns = activity_tick_due_ns(v->activity.tick_due_ns, tick_ns, now);
	activity_want_beat(cpu, now);
	a->due_ns = activity_due_ns(v, true, now);
	if (steal_source != VAWARE_STEAL_KVM && &kernel_cpustat) {
		/* No clock that we go by; the kernel's, from whatever hypervisor, to compare. */
		stat = bpf_this_cpu_ptr(&kernel_cpustat);
		if (v->activity.steal_stat_seen)
			a->clock_stolen_ns +=
				stat->cpustat[CPUTIME_STEAL] - v->activity.steal_stat_ns;
		v->activity.steal_stat_ns = stat->cpustat[CPUTIME_STEAL];
		v->activity.steal_stat_seen = true;
	}
	return 0;
}

int activity_idle(s32 cpu, u64 now)
{
	struct vaware_activity *a = activity_of(cpu);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);

	if (!activity_on || !a || !v || a->state == VAWARE_STATE_IDLE)
		return 0;
	activity_seen(a, v, cpu, now);
	if (a->preemptions) { /* else nobody asks when it will be preempted */
		fade(a, v, now);
		span_add(&a->spans[VAWARE_SPAN_IDLED], now - a->since_ns);
	}
	v->activity.busy_ns = account_average_ns(v->activity.busy_ns, now - v->activity.woke_ns);
	a->state = VAWARE_STATE_IDLE;
	a->since_ns = now;
	a->due_ns = 0;
	a->idle_periods++;
	return 0;
}

int activity_wake_up(s32 cpu, u64 now)
{
	struct vaware_activity *a = activity_of(cpu);
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	u64 clock_ns, taken_ns, wake_ns;

	if (!a || !v)
		return 0;
	clock_ns = activity_steal_clock_at(cpu, v->activity.steal_clock_ns, now);
	taken_ns = clock_ns - v->activity.steal_clock_ns;
	wake_ns = v->wakeup.took_ns;
	v->wakeup.took_ns = 0;
	v->activity.steal_clock_ns = clock_ns;
	if (v->activity.woke_ns)
		a->idle_ns += now - a->since_ns;
	else /* it may have been busy before the scheduler was loaded */
		taken_ns = 0;
	a->state = VAWARE_STATE_ACTIVE;
	a->since_ns = now;
	a->last_seen_ns = now;
	a->due_ns = 0;
	v->activity.woke_ns = now;
	a->clock_stolen_ns += taken_ns;
	if (wake_ns) {
		fade(a, v, now);
		span_add(&a->spans[VAWARE_SPAN_WAKE], wake_ns);
	}
	if (steal_source != VAWARE_STEAL_KVM)
		taken_ns = wake_ns >= WAKE_LATE_NS ? wake_ns : 0;
	if (!taken_ns)
		return 0;
	a->stolen_ns += taken_ns;
	a->wake_stolen_ns += taken_ns;
	if (taken_ns >= PREEMPTION_MIN_NS) {
		a->last_preemption_ns = now;
		log_inactive_period(cpu, taken_ns, VAWARE_STEAL_WAKE);
	}
	return 0;
}

void activity_offline(s32 cpu)
{
	struct vaware_activity *a = activity_of(cpu);

	if (a) {
		a->state = VAWARE_STATE_IDLE;
		a->due_ns = 0;
	}
}
