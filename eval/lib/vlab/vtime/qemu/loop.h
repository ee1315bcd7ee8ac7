/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by the parts of the vCPU thread: loop.c, control.c, files.c. */
#ifndef VTIME_LOOP_H
#define VTIME_LOOP_H

#include "vtime.h"
#include "host/host.h"

/* The simulated host. */
extern VtHost *vt_host;

/* The time that all vCPUs have reached, ns. */
int64_t vt_now_ns(void);

/* control.c: the lab's line. */
void vt_control_connect(const char *path);
/* Look for a word of the lab's without waiting. */
void vt_control_poll(void);
/* True when the clock is to stand still now. */
bool vt_control_wants_hold(void);
/* Tell the lab that the clock stands still, and wait until it lets it go. */
void vt_control_hold(void);
/* The lab wants the clock to stand still at this time. */
int64_t vt_control_until_ns(void);
/* Record the host's scheduling if the lab wants it. */
void vt_control_record(int64_t now_ns, int pcpu, int entity, VtWhy why);

/* Stop the whole VM for @ns: its clock jumps. */
void vt_pause(int64_t ns);
/* No instruction more in this turn. */
void vt_end_turn(void);

/* files.c: stand still until what was rung for is served. */
void vt_files_settle(EventNotifier *doorbell);
/* True if the queue of @signal has something that the guest does not know of. */
bool vt_files_served(EventNotifier *signal);

#endif
