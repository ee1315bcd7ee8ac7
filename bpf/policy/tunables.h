/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every constant of the policies, with unit and reason. What an operator may change is not here
 * but in main.bpf.c (const volatile).
 */
#ifndef VAWARE_POLICY_TUNABLES_H
#define VAWARE_POLICY_TUNABLES_H

#define NS_PER_US 1000ULL
#define NS_PER_MS (1000 * NS_PER_US)
#define NS_PER_S (1000 * NS_PER_MS)

/* Weight of nice 0 in sched_ext's scale of 1 to 10000. */
#define WEIGHT_NICE_0 100

/* A slice while others wait: EEVDF's order of size, so that nobody waits longer than there. */
#define SLICE_NS (3 * NS_PER_MS)

/* A slice when nobody waits: fewer expiries, each of which is a pass through the scheduler. */
#define SLICE_ALONE_NS (20 * NS_PER_MS)

/*
 * Run time before a waking task may take the vCPU away: a slice, as EEVDF's run-to-parity has it.
 * Tasks that wake each other all the time would else do little but switch.
 */
#define PROTECTED_RUN_NS SLICE_NS

/*
 * The same where a latency-sensitive task wakes and a CPU-bound one runs: such pairs are seldom,
 * and the wait hurts more than the switch.
 */
#define PROTECTED_FROM_LATENCY_NS (100 * NS_PER_US)

/* Virtual time that a sleeper may lag behind its queue: its bonus when it wakes. */
#define LAG_MAX_NS SLICE_NS

/* A task whose bursts are shorter on average is latency-sensitive. */
#define LATENCY_BURST_NS (500 * NS_PER_US)

/* How often a busy vCPU looks into one other queue. */
#define BALANCE_INTERVAL_NS (20 * NS_PER_MS)

/* A queue whose head has waited this long is stuck: its vCPU is stopped or held up. */
#define STUCK_NS (24 * NS_PER_MS)

/* Queues that an idle vCPU looks into per attempt: the bound that holds for any number of vCPUs. */
#define STEAL_ATTEMPTS 16

/* Tasks that the search for overdue ones looks at, from the tail of a queue. */
#define OVERDUE_SCAN 64

/* A wait for a spinlock that is worth counting: its holder was stopped. */
#define LOCK_WAIT_LONG_NS NS_PER_MS

/* Share of stolen time, in 1/1024, from which waking another vCPU counts as dear. */
#define STOLEN_DEAR_1024 51

#endif
