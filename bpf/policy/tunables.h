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

/*
 * Weights are those of sched_ext, 1 to 10000 with nice 0 at 100, in so many parts: a task of a
 * cgroup may weigh far less than 1.
 */
#define WEIGHT_PARTS 1024
#define WEIGHT_NICE_0 (100 * WEIGHT_PARTS)

/*
 * How often the shares of cgroups are computed, and how much of what is runnable is a new sample:
 * half of a change shows after 45 ms, EEVDF's order of size (PELT: 32 ms).
 */
#define CGROUP_PASS_NS (8 * NS_PER_MS)
#define CGROUP_AVERAGE_PARTS 8

/* The same while nothing is runnable, or no cgroup has a weight or a limit: within a second. */
#define CGROUP_IDLE_PASS_NS (500 * NS_PER_MS)

/* Passes between two looks at what the kernel has for a cgroup. */
#define CGROUP_READ_PASSES 16

/* Run time that a vCPU may hold back before it charges a limit, a cache line of all vCPUs. */
#define LIMIT_CHARGE_NS (250 * NS_PER_US)

/* Pools of limits are looked after at least this often, unless a vCPU or the VM is stopped. */
#define LIMIT_LATE_NS (100 * NS_PER_MS)

/*
 * The timer that lets go who is held comes when a period begins, but not sooner than this: with
 * many limits it looks at each cgroup once a ms, some microseconds in all.
 */
#define LIMIT_TIMER_MIN_NS NS_PER_MS

/* A task that is held by a limit runs for a moment now and then: a third of the watchdog's time. */
#define LIMIT_AGED_NS (10 * NS_PER_S)

/*
 * Ticks in a row in kernel mode from which on a task counts as without locks: what it does there is
 * its work, as in dd. Linux up to 6.17 asks for none.
 */
#define LIMIT_KERNEL_TICKS 10

/*
 * A cgroup owes no more than so many periods give it: as many tasks as it has may run for a tick as
 * it gets a limit, and all would wait until that is paid. At the usual period this is a second:
 * probes of containers time out after one.
 */
#define LIMIT_DEBT_PERIODS 10

/* Tasks that the backlog of a limit is searched for, and that it gives back, at a time. */
#define LIMIT_SCAN 1024
#define LIMIT_BATCH 64

/* A backlog that has been empty for so long is not looked at any more. */
#define LIMIT_FORGET_NS NS_PER_S

/* Tasks in a queue that a busy vCPU adds up, and among which it looks for one to pull. */
#define BALANCE_SCAN 16

/* A slice while others wait: EEVDF's order of size, so that nobody waits longer than there. */
#define SLICE_NS (3 * NS_PER_MS)

/* A slice when nobody waits: fewer expiries, each of which is a pass through the scheduler. */
#define SLICE_ALONE_NS (20 * NS_PER_MS)

/*
 * Run time before a waking task may take the vCPU away: a slice, as EEVDF's run-to-parity has it.
 * Tasks that wake each other all the time would else do little but switch.
 */
#define PROTECTED_RUN_NS SLICE_NS

/* A task that has used up a slice since it woke is CPU-bound, until it sleeps. */
#define CPU_BOUND_BURST_NS SLICE_NS

/*
 * Run time by which a task may be ahead of its queue, by its present weight: what one turn takes
 * it. Only a change of its cgroup's weight brings it further.
 */
#define AHEAD_MAX_NS (SLICE_ALONE_NS + SLICE_NS)

/*
 * Run time by which a task that joins is behind. Without it one that computes, forks and ends would
 * always be ahead, in its child, of those that wait. EEVDF lets new tasks begin with half a slice.
 */
#define JOIN_DEBIT_NS (SLICE_NS / 2)

/* Virtual time that a timer wakee may lag behind its queue: its bonus when it wakes. */
#define LAG_MAX_NS SLICE_NS

/* A task whose bursts are shorter on average is latency-sensitive. */
#define LATENCY_BURST_NS (500 * NS_PER_US)

/* How often a busy vCPU looks into one other queue. */
#define BALANCE_INTERVAL_NS (20 * NS_PER_MS)

/*
 * The same where cgroups have shares: as often as those are computed. A vCPU that has not looked
 * for BALANCE_FORGET_NS more was idle or alone, or stopped: its clock is set anew.
 */
#define BALANCE_SHARES_NS CGROUP_PASS_NS
#define BALANCE_FORGET_NS (128 * NS_PER_MS)

/* Until a task that made weights uneven goes on: vCPUs look into one queue after another. */
#define BALANCE_SETTLE_NS (8 * BALANCE_SHARES_NS)

/*
 * Virtual time by which a task that has not slept may be behind its queue: what it was due where it
 * waited before. More than two vCPUs drift apart between two looks, with a task of a tenth of the
 * usual weight.
 */
#define LAG_SHARES_MAX_NS (128 * NS_PER_MS)

/* The same as run time: for so long it may have the vCPU alone, until it has made up for that. */
#define LAG_SHARES_RUN_NS (4 * BALANCE_SHARES_NS)

/* A queue whose head has waited this long is stuck: its vCPU is stopped or held up. */
#define STUCK_NS (24 * NS_PER_MS)

/* Queues where work waits that an idle vCPU tries: the bound for any number of vCPUs. */
#define STEAL_ATTEMPTS 16

/* Empty queues that the search for overdue tasks passes by at a time. */
#define OVERDUE_SKIP 16

/* Tasks that the search for overdue ones looks at, from the head or the tail of a queue. */
#define OVERDUE_SCAN 64

/* A wait for a spinlock that is worth counting: its holder was stopped. */
#define LOCK_WAIT_LONG_NS NS_PER_MS

/* Share of stolen time, in 1/1024, from which waking another vCPU counts as costly. */
#define STEAL_COSTLY_1024 51

/*
 * Interval of the beats that a timer adds on a busy vCPU: finds stops of twice that for sure. Half
 * of it finds a few more of the shorter ones, and gained nothing in simulation.
 */
#define BEAT_NS (2 * NS_PER_MS)

/* Beats that a busy period has to have for a timer: the last one wakes a vCPU that is idle again.
 */
#define BEATS_MIN 4

/*
 * A beat that is later than this was held up by a stop: far above what a timer's interrupt takes to
 * arrive.
 */
#define BEAT_LATE_NS (250 * NS_PER_US)

/*
 * Timer beats are worth what they cost (an exit to the hypervisor or two each) while stops that
 * ticks might miss come this often on average, in busy time. After so long without one ticks alone
 * look on.
 */
#define PREEMPTION_LONG_NS NS_PER_MS
#define BEATS_APART_NS (200 * NS_PER_MS)
#define BEATS_QUIET_NS NS_PER_S

/* So much stopped time replaces what was known of how long stops are. */
#define PREEMPTIONS_KNOWN_NS (128 * NS_PER_MS)

/* A stop of less than one part in so many of what stops take does not end an active period. */
#define PREEMPTION_PARTS 4

/* Shorter stops count as stolen time, but not as inactive periods. */
#define PREEMPTION_MIN_NS (50 * NS_PER_US)

/* A steal clock that has not shown within this time what late beats have seen, never will. */
#define CLOCK_LAG_NS (20 * NS_PER_MS)

/*
 * A steal clock misses stops if beats were late by so much in all that it never showed, more than
 * one part of the busy time. One late beat counts for an eighth of it at most: interrupts may have
 * been off, which they are seldom.
 */
#define MISSED_NS (256 * NS_PER_MS)
#define MISSED_ONCE_NS (MISSED_NS / 8)
#define MISSED_PARTS 64

/* A halted vCPU that runs later than this after it was woken had to wait for the hypervisor. */
#define WAKE_LATE_NS NS_PER_MS

/* Half-life of the distributions of active and inactive periods. */
#define SPAN_HALF_LIFE_NS (8 * NS_PER_S)

/* Length to expect of an inactive period while none has been seen: a usual host slice. */
#define PREEMPTED_UNKNOWN_NS (4 * NS_PER_MS)

/* Half-life of what is known of a vCPU's wake-up latency: 2^32 ns, 4.3 s. */
#define WAKE_HALF_LIFE_LOG2 32

/* One in so many parts of the error is learnt of wake-ups, and of late and early timers. */
#define WAKE_LEARN_PARTS 32
#define LATE_LEARN_PARTS 16
#define EARLY_LEARN_PARTS 64

/*
 * Half-life of what is known of a vCPU's timers, 2^31 ns, 2.1 s: a task that sleeps there to try it
 * again may pay with a whole stop, so not often.
 */
#define TIMER_HALF_LIFE_LOG2 31

/*
 * Sleeps for which a vCPU is chosen. The one on which this is decided is awake, or nothing would
 * be: to look one ahead favours it, however often it is stopped.
 */
#define SLEEPS_AHEAD 2

/* A timer wakee waits for timers that are on time for one in so many parts of what it was late. */
#define TIMER_WAKEE_WAIT_PARTS 4

/* A vCPU on which a task is expected to run within this is taken without a look at the others. */
#define WAKE_GOOD_NS (400 * NS_PER_US)

/*
 * Candidates that a latency-sensitive task that wakes looks at, besides its own vCPU. Of two at
 * random the better one is nearly as good as the best of all (Mitzenmacher, The power of two
 * choices, 2001). Where half of the vCPUs are bad, all of four are once in 16.
 */
#define WAKE_LOOKS 4

/* Wake-ups of which one goes into the VM's typical latency, which is a cache line of all vCPUs. */
#define WAKE_TYPICAL_EVERY 16

/* How long an uneven vCPU keeps the policies looking at all of them. */
#define UNEVEN_NS NS_PER_S

/*
 * What a switch to a task and away from it costs, caches included. Who takes the vCPU from a task
 * that has run for less pays for the rest: a task that naps for a microsecond at a time would leave
 * CPU-bound work nothing but switches, and have it pay for them.
 */
#define SWITCHES_NS (20 * NS_PER_US)

/* What it takes to interrupt a vCPU that runs. */
#define KICK_NS (20 * NS_PER_US)

/* What a move to another vCPU costs a task: its caches. */
#define MOVE_NS (100 * NS_PER_US)

/* How many times as soon a latency-sensitive task has to run elsewhere to leave its vCPU. */
#define AWAY_TIMES 2

/* Limits of the time after which a wake-up is hedged. */
#define RESCUE_AFTER_MIN_NS (200 * NS_PER_US)
#define RESCUE_AFTER_MAX_NS (2 * NS_PER_MS)

/*
 * What others who can take the task have to save for what it costs, and how many wake-ups. Found by
 * experiment: by a fifth of it threads with barriers lose, by twice as much requests do (see
 * docs/decisions.md).
 */
#define REACH_WORTH_NS (500 * NS_PER_US)
#define REACH_WORTH_WAKES 8

/* Wake-ups of one waker that are watched at a time, and vCPUs that are woken for one. */
#define RESCUE_SLOTS 4
#define RESCUE_SECONDS_MAX 3

/* What one hardware thread gets of a core while the other is busy. */
#define SMT_SHARE_1024 640

/* Run time here before a task leaves, and run time since it last woke. */
#define IVH_MIN_RUN_NS (500 * NS_PER_US)
#define IVH_MIN_BURST_NS (2 * NS_PER_MS)

/* A vCPU that has been idle for less belongs to tasks that talk to each other. */
#define IVH_IDLE_NS (500 * NS_PER_US)

/*
 * Stopped time to expect, its probability by its length, from which another vCPU is woken for the
 * task that runs. A move too early costs little: 20 ms at stake are worth it by one in fifty.
 */
#define IVH_WORTH_NS (4 * MOVE_NS)

/* Expected wake-ups of a target that are allowed for. */
#define IVH_WAKE_MARGIN 4

/*
 * Targets that a source tries to claim at a time. Ticks of all vCPUs come at the same moment, and
 * then the target that is best for one is so for all: one of them gets it in each try.
 */
#define IVH_TRIES 4

/* For how long "awake" is true, and how long the target stays awake for the task. */
#define IVH_FRESH_NS (300 * NS_PER_US)

/* A target that is not awake within this time is given up. */
#define IVH_PATIENCE_NS (20 * NS_PER_MS)

/*
 * Wake-ups of one vCPU that follow each other within this come together: a few times what one takes
 * its waker, and less than it takes a wakee to run and wake another.
 */
#define GATHER_TOGETHER_NS (20 * NS_PER_US)

/*
 * A task may have one part in so many of the vCPU that is kept free, and so much ahead: two slices
 * at once. One that somebody waits for sleeps most of the time.
 */
#define RESERVE_PARTS 4
#define RESERVE_AHEAD_NS (2 * RESERVE_PARTS * SLICE_NS)

/*
 * A shootdown takes long from here on: a vCPU that runs answers within some 10 us, one that is
 * stopped after a turn of the host's, a millisecond or more.
 */
#define SHOOTDOWN_LONG_NS (100 * NS_PER_US)

/* A policy on trial is on or off for so long: many of the host's slices. */
#define TRIAL_EPOCH_NS (64 * NS_PER_MS)

/*
 * Epochs of both kinds that a verdict needs if the difference is clear, after which one that is not
 * counts as none, and that are remembered: a second or two of each kind.
 */
#define TRIAL_EPOCHS_MIN 4
#define TRIAL_EPOCHS_ENOUGH 12
#define TRIAL_EPOCHS_MAX 24

/*
 * Square of the standard errors by which a difference is clear. It is looked at after each epoch,
 * so 2 would be passed by chance every few seconds; 4 takes twice as long to see a fifth.
 */
#define TRIAL_SURE_SQ (3 * 3)

/* How much epochs differ at least, in 1/256 of an octave: few may be alike by chance. */
#define EPOCH_NOISE_256 16ULL

/*
 * An epoch with less work, or fewer wake-ups, says nothing. To the reserve any wake-up counts: the
 * later timers are, the fewer there are.
 */
#define EPOCH_WORK_MIN_NS (TRIAL_EPOCH_NS / 16)
#define EPOCH_WAKES_MIN 8

/* What an epoch is weighed by: a thousand of these for a task that wants to run all the time. */
#define EPOCH_WEIGHT_NS (64 * NS_PER_US)

/* Tasks that get less than one part in so many of what they want get as good as nothing. */
#define PROGRESS_FLOOR_PARTS 16

/* A vCPU is full in an epoch that wants to run for so long: an eighth is left for pauses. */
#define EPOCH_FULL_NS (TRIAL_EPOCH_NS / 8 * 7)

/* A policy that has done nothing for so many epochs is not judged: one that has lost tries less. */
#define TRIAL_ACTED_EPOCHS 64

/* After so long with nothing wrong there are no epochs; what is wrong then is judged anew. */
#define TRIAL_QUIET_NS (3 * NS_PER_S)

/* An epoch that has lasted so long is ended by another vCPU: that of the timer is stopped. */
#define TRIAL_LOST_NS (4 * TRIAL_EPOCH_NS)

/* A loss from which a policy is switched off, in 1/256 of an octave: 9 %. */
#define HARM_256 32

/*
 * To win, harvesting has to give tasks as much more of the time as others, moves paid; by late
 * beats a fifth more: a task that moves often then seems to run for so much longer than it does.
 * Rescue has to save a quarter of the wait. In 1/256 of an octave.
 */
#define IVH_GAIN_BEATS_256 67
#define RESCUE_GAIN_256 82

/*
 * Without relaxed work conservation a task may meet a straggler, and wait for a hundred ms there:
 * longer than an epoch, for all that wait for that task. A wrong ban costs less, as stragglers have
 * a twentieth of the VM at most.
 */
#define RWC_OPEN_64 62

/*
 * Until the vCPU is free, and those it is for sleep there, an epoch is half over. So it stays free,
 * or does not, for half a second.
 */
#define RESERVE_HOLD_LOG2 3

/*
 * The vCPU that is kept free has to halve the wait. It may cost one of two vCPUs, beyond what is no
 * loss: who names the policy asks for that.
 */
#define RESERVE_GAIN_256 256
#define RESERVE_HARM_256 (256 + HARM_256)

#endif
