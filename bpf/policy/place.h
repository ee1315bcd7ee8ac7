/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a waking task goes, and one whose slice ended.
 */
#ifndef VAWARE_POLICY_PLACE_H
#define VAWARE_POLICY_PLACE_H

#include "../intf.h"
#include "tunables.h"

/*
 * Return true if a wakee whose waker is about to sleep should follow it rather than wake an idle
 * vCPU: vCPUs here are stopped often enough (@stolen_1024) that to wake one is to wait for the
 * hypervisor, while the waker's own is awake at this moment.
 */
static inline bool place_waker_first(u32 stolen_1024)
{
	return stolen_1024 >= STOLEN_DEAR_1024;
}

/*
 * Return true if a task whose slice ended should look for an idle vCPU. It should not while only
 * its own vCPU's kernel threads are before it: those are short, and a move costs a wake-up of the
 * other vCPU and the cache.
 */
static inline bool place_leave_on_expiry(u32 waiting, bool pinned)
{
	return waiting && !pinned;
}

#endif
