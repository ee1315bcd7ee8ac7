/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What time it is, in ns, for run and wait times. Gaps are the business of the beats, which see
 * the clock move from tick to tick.
 */
#ifndef VAWARE_CLOCK_BPF_H
#define VAWARE_CLOCK_BPF_H

#include <scx/common.bpf.h>

/* kernel/sched/sched.h, from Linux 6.14 on; before, scx_bpf_now() is bpf_ktime_get_ns(). */
enum scx_rq_flags___clock {
	SCX_RQ_CLK_VALID___clock = 1 << 5,
};

/* How far bpf_ktime_get_ns() is ahead of now_ns(); kept by vaware_read_clocks. */
extern u64 clock_ahead_ns;

/*
 * Return the time where this vCPU's runqueue is locked: ops.dispatch, running, stopping and tick.
 * The kernel has read the clock for this event.
 */
static inline u64 now_ns(void)
{
	return scx_bpf_now();
}

/* Return true if scx_bpf_now() would return what the clock was when it was last updated here. */
static inline bool clock_is_cached(void)
{
	const struct rq *rq = bpf_this_cpu_ptr(&runqueues);

	return bpf_core_enum_value_exists(enum scx_rq_flags___clock, SCX_RQ_CLK_VALID___clock) &&
	       rq->scx.flags &
		       bpf_core_enum_value(enum scx_rq_flags___clock, SCX_RQ_CLK_VALID___clock);
}

/* Return the time at this moment, whatever the kernel has cached. */
static inline u64 read_clock_ns(void)
{
	return bpf_ktime_get_ns() - clock_ahead_ns;
}

/*
 * Return the time anywhere. Who takes a task from the queue of another vCPU updates the clock of
 * that one's runqueue, and leaves it marked as valid (move_remote_task_to_local_dsq() in
 * kernel/sched/ext.c). Until that runqueue is unlocked by others than such, scx_bpf_now() returns
 * that time there: for a tick on a busy vCPU, for much longer on an idle one.
 */
static inline u64 now_unlocked_ns(void)
{
	return clock_is_cached() ? read_clock_ns() : now_ns();
}

#endif /* VAWARE_CLOCK_BPF_H */
