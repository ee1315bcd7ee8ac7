/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sync: a wakee follows a waker that is about to sleep.
 */
#include "interrupt.bpf.h"
#include "rwc.bpf.h"
#include "sync.bpf.h"
#include "wakeup.bpf.h"

#include "policy/place.h"

bool sync_may_follow(struct task_struct *p, u32 class, s32 cpu, u64 wake_flags)
{
	return (wake_flags & SCX_WAKE_SYNC) && rwc_may_use(p, class, cpu) && !is_best_effort(p) &&
	       !in_interrupt() && !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) && !waiting_at(cpu, false);
}

bool sync_waker_first(const struct vcpu_ctx *v, u64 now)
{
	return place_waker_first(v->account.steal_1024, v->run.burst_avg_ns,
				 v->run.burst_ns + time_delta(now, v->run.charged_ns),
				 wake_typical_ns);
}
