/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a waking task goes when no vCPU is idle for it, and where one whose slice ended goes.
 */
#ifndef VAWARE_POLICY_PLACE_H
#define VAWARE_POLICY_PLACE_H

#include "../intf.h"
#include "tunables.h"

/*
 * Return true if a wakee should stay with its waker rather than wake the idle vCPU it could have.
 *
 * The waker said that it is about to sleep (@sync), nobody else waits for its vCPU, and vCPUs here
 * are stopped often enough (@stolen_1024) that waking one means waiting for the hypervisor, while
 * the waker's own vCPU is awake at this moment.
 */
static inline bool place_stay_with_waker(bool sync, bool waker_allowed, u32 waker_waiting,
					 u32 stolen_1024)
{
	return sync && waker_allowed && !waker_waiting && stolen_1024 >= STOLEN_DEAR_1024;
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
