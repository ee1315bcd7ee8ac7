/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A task that runs has to leave its vCPU: another one serves it, even if it waits there.
 */
#ifndef VAWARE_LEAVE_BPF_H
#define VAWARE_LEAVE_BPF_H

#include "vaware.bpf.h"

/*
 * Return the vCPU that @prev, of @class, had better run on than on @cpu: the open one where it
 * waits least, idle, busy or stopped; -1: none. Global: the verifier checks it once.
 */
int leave_for(struct task_struct *prev __arg_trusted, s32 cpu, u32 class, u64 now);

#endif /* VAWARE_LEAVE_BPF_H */
