/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sync: a wakee follows a waker that is about to sleep.
 */
#ifndef VAWARE_SYNC_BPF_H
#define VAWARE_SYNC_BPF_H

#include "queue.bpf.h"

/*
 * Return true if @p, of @class, may follow its waker, which is about to leave this vCPU @cpu to
 * whoever comes next; nobody else waits for it. What wakes tasks in an interrupt, as network
 * traffic does, is not the task that was interrupted: that one goes on.
 */
__hidden bool sync_may_follow(struct task_struct *p, u32 class, s32 cpu, u64 wake_flags);

/* Return true if a wakee that may follow its waker, which runs on @v, had better do so. */
__hidden bool sync_waker_first(const struct vcpu_ctx *v, u64 now);

#endif /* VAWARE_SYNC_BPF_H */
