/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the running task is charged for.
 */
#ifndef VAWARE_ACCOUNT_BPF_H
#define VAWARE_ACCOUNT_BPF_H

#include "activity.bpf.h"
#include "limit.bpf.h"
#include "queue.bpf.h"
#include "reserve.bpf.h"

#include "policy/account.h"

/* Charge @p, which runs on @cpu, for what it ran since it was last charged, until @now. */
static inline void charge_task(struct task_struct *p, struct task_ctx *t, s32 cpu,
			       struct vcpu_ctx *v, u64 now)
{
	struct vaware_activity *a = activity_of(cpu);
	u64 elapsed_ns = time_delta(now, v->run.charged_ns), stolen_ns = 0, run_ns;
	struct vaware_stats *s = stats_of(cpu); /* who changes its task may run elsewhere */
	u32 class = v->run.class;

	if (activity_on && a) {
		if (cpu == bpf_get_smp_processor_id())
			activity_seen(a, v, cpu, now);
		stolen_ns = a->stolen_ns - v->account.charged_steal_ns;
		v->account.charged_steal_ns = a->stolen_ns;
	}
	run_ns = account_run_ns(elapsed_ns, stolen_ns);
	v->run.charged_ns = now;
	t->vtime += vtime_of_run(run_ns, task_weight(p, t));
	limit_charge(t, v, run_ns);
	reserve_charge(t, cpu, run_ns, now);
	t->burst_ns += run_ns;
	v->account.run_ns += run_ns;
	v->account.steal_ns += elapsed_ns - run_ns;
	if (v->account.run_ns + v->account.steal_ns >= tick_ns) {
		v->account.steal_1024 = account_stolen_1024(v->account.steal_1024,
							    v->account.run_ns, v->account.steal_ns);
		v->account.run_ns = 0;
		v->account.steal_ns = 0;
	}
	if (cgroups_in_use && elapsed_ns > run_ns)
		cgroup_met(&t->cgroup, 0, 0, elapsed_ns - run_ns);
	if (s) {
		s->stolen_ns += elapsed_ns - run_ns;
		if (account_normal(class))
			s->lost_ns += elapsed_ns - run_ns;
		if (class < VAWARE_NR_CLASSES)
			s->run_ns[class] += run_ns;
	}
}

/*
 * Charge @p, which runs on @cpu and goes on, or may. Idempotent: called whenever its virtual time
 * has to be right, and on every tick.
 */
static inline void charge(struct task_struct *p, struct task_ctx *t, s32 cpu, struct vcpu_ctx *v,
			  u64 now)
{
	charge_task(p, t, cpu, v, now);
	v->run.vtime = t->vtime;
	v->run.burst_ns = t->burst_ns;
	v->run.class = task_class(p, t); /* a task that goes on alone is not switched in again */
}

#endif /* VAWARE_ACCOUNT_BPF_H */
