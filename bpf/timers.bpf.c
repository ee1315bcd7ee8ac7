/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that sleep until a set time: how late they are woken. The kernel leaves a sleeper's timer
 * on the vCPU where it fell asleep, so it wakes no sooner than that vCPU runs; to sleep elsewhere
 * is all that helps it.
 */
#include "vcpus.bpf.h"

#define CLOCK_MONOTONIC 1 /* include/uapi/linux/time.h */

extern const void hrtimer_wakeup __ksym __weak; /* kernel/time/hrtimer.c: wakes a sleeper */

/* In a hard interrupt: a timer has run out on this vCPU, and does its work next. */
SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(vaware_timer_expired, struct hrtimer *timer)
{
	s32 cpu = bpf_get_smp_processor_id();
	const struct vaware_activity *a;
	struct hrtimer_sleeper *sleeper;
	struct task_struct *p;
	struct vcpu_ctx *v;
	u64 now, late_ns;

	if (!&hrtimer_wakeup || (u64)timer->function != (u64)&hrtimer_wakeup)
		return 0;
	v = vcpu_ctx_of(cpu);
	a = activity_of(cpu);
	if (!v || !a)
		return 0;
	sleeper = container_of(timer, struct hrtimer_sleeper, timer);
	p = BPF_CORE_READ(sleeper, task);
	v->timer_pid = BPF_CORE_READ(p, pid);
	if (timer->base->clockid != CLOCK_MONOTONIC) /* in the time of another clock */
		return 0;
	now = now_ns();
	late_ns = time_delta(bpf_ktime_get_ns(), timer->node.expires);
	v->timer_late_ns = bvs_learnt_ns(expected_timer_late_ns(v, now), late_ns);
	v->timer_late_at_ns = now;
	note_unevenness(v->timer_late_ns, now);
	if (a->state == VAWARE_STATE_IDLE && !v->claimed_ns) /* else the waker's stamp tells */
		learn_wake(v, late_ns, now);
	return 0;
}
