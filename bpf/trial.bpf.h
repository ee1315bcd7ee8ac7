/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who may change a trial. One that finds it busy drops its sample: nobody waits for another vCPU,
 * which may be stopped.
 */
#ifndef VAWARE_TRIAL_BPF_H
#define VAWARE_TRIAL_BPF_H

#include "vaware.bpf.h"

/* Return true if the caller may change @trial, and calls trial_leave() after that. */
static inline bool trial_enter(struct vaware_trial *trial)
{
	return !__sync_val_compare_and_swap(&trial->busy, 0, 1);
}

static inline void trial_leave(struct vaware_trial *trial)
{
	__sync_val_compare_and_swap(&trial->busy, 1, 0);
}

#endif /* VAWARE_TRIAL_BPF_H */
