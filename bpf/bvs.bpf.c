/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Biased vCPU selection (policy/bvs.h): which tasks have to choose, and tasks that sleep by timers.
 */
#include "bvs.bpf.h"

/* kernel/time/hrtimer.c: the timers of each vCPU */
extern const struct hrtimer_cpu_base hrtimer_bases __ksym __weak;

u64 bvs_timer_late_ns(s32 cpu, u64 now)
{
	const struct vcpu_ctx *v = vcpu_ctx_of(cpu);

	if (!v)
		return 0;
	return bvs_faded_ns(v->bvs.timer_late_ns, time_delta(now, v->bvs.timer_late_at_ns),
			    TIMER_HALF_LIFE_LOG2);
}

int bvs_timer_wakes(struct task_struct *p __arg_trusted, u32 class, s32 cpu, u64 now)
{
	const struct hrtimer_cpu_base *bases;
	const struct vaware_activity *a;
	struct vaware_stats *s;
	struct hrtimer *timer;
	struct vcpu_ctx *v;
	u64 late_ns;

	if (!(bvs_on() || (policies & VAWARE_POLICY_RESERVE)) || !&hrtimer_bases)
		return false;
	bases = bpf_this_cpu_ptr(&hrtimer_bases);
	timer = bases->clock_base[HRTIMER_BASE_MONOTONIC].running; /* its function, at present */
	if (!timer)
		return false;
	a = activity_of(cpu);
	v = vcpu_ctx_of(cpu);
	s = stats_here();
	if (!a || !v || !s)
		return false;
	late_ns = time_delta(bpf_ktime_get_ns(), timer->node.expires);
	if (class == VAWARE_CLASS_LATENCY && p->tgid != daemon_tgid)
		s->latency_late_ns += late_ns;
	if (!bvs_on())
		return false;
	v->bvs.timer_late_ns = bvs_learnt_late_ns(bvs_timer_late_ns(cpu, now), late_ns);
	v->bvs.timer_late_at_ns = now;
	note_unevenness(v->bvs.timer_late_ns, now);
	if (a->state == VAWARE_STATE_IDLE &&
	    !v->wakeup.claimed_ns) /* else the waker's stamp tells */
		wakeup_learn(v, late_ns, now);
	return true;
}

void bvs_send_timer_wakee(s32 cpu, s32 to, struct vcpu_ctx *v, u64 delay_ns, u64 now)
{
	v->bvs.timer_wakee_until_ns = now + bvs_keep_ns(bvs_timer_late_ns(cpu, now),
							bvs_timer_late_ns(to, now) + delay_ns);
}
