/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The governor: whether a policy pays depends on the host, so it is measured in service. Time is
 * cut into epochs. In each of them a policy is on or off, drawn at random and apart from the
 * others, and what all tasks of the VM met in it goes to that kind of epoch: which part of the
 * time that they wanted they obtained, and how long those that woke had to wait. A policy that
 * does harm is off, but for a look now and then; one that costs something is so until it helps.
 *
 * Outcomes are taken down as logarithms: what is compared are ratios, and a single long wait does
 * not decide.
 */
#ifndef VAWARE_POLICY_GOVERNOR_H
#define VAWARE_POLICY_GOVERNOR_H

#include "../intf.h"
#include "bits.h"
#include "tunables.h"

/* What all tasks of the VM met, summed over its vCPUs: since load, or in an epoch. */
struct governor_sums {
	u64 run_ns;  /* they ran: normal work only, and no waits of the daemon's, here and below */
	u64 lost_ns; /* they waited for a vCPU, or that was stopped while they ran */
	u64 wait_ns; /* latency-sensitive ones waited */
	u64 wakes;   /* so many of them */
	u64 late_ns; /* their timers were late before that */
	u64 moves;   /* so often a running task was sent elsewhere */
	u64 shootdown_ns;	      /* of the run time they waited for other vCPUs */
	u64 acts[VAWARE_NR_POLICIES]; /* decisions of each policy */
};

/* How a policy is judged. */
struct governed {
	u64 seed;	 /* so that two policies do not draw the same */
	u32 open_64;	 /* in how many epochs of 64 it is on while nothing is known, */
	u32 winning_64;	 /* after it has won, */
	u32 losing_64;	 /* and after it has lost */
	u32 outcome;	 /* enum vaware_outcome that it is for */
	u32 gain_256;	 /* what it has to gain of that to win, in 1/256 of an octave */
	u32 harm_256;	 /* the loss in the other one by which it loses */
	bool has_to_win; /* it costs something: without a gain it loses */
	u32 wakes_min;	 /* an epoch with fewer says nothing of waits */
	u32 hold_log2;	 /* it is on or off for 2 to the power of this epochs in a row */
	bool late_waits; /* a wait begins when the timer was due that ended the sleep */
	bool when_full;	 /* an epoch says something only if work filled all vCPUs but one */
};

/*
 * Return how the policy with bit @index is judged. @exact: a steal clock tells what tasks obtain;
 * by late beats one that moves often seems to run for a fifth longer than it does.
 */
static inline struct governed governed_of(u32 index, bool exact)
{
	struct governed g = {
		.seed = (index + 1) * 0x9e3779b97f4a7c15ULL, /* 2^64 by the golden ratio */
		.open_64 = 56,
		.winning_64 = 62,
		.losing_64 = 4,
		.outcome = VAWARE_OUTCOME_PROGRESS,
		.gain_256 = HARM_256,
		.harm_256 = HARM_256,
		.wakes_min = EPOCH_WAKES_MIN,
	};

	switch (1 << index) {
	case VAWARE_POLICY_BVS:
	case VAWARE_POLICY_GATHER:
		g.outcome = VAWARE_OUTCOME_WAIT;
		break;
	case VAWARE_POLICY_RWC:
		g.open_64 = RWC_OPEN_64;
		break;
	case VAWARE_POLICY_IVH:
		g.open_64 = 32;
		if (!exact)
			g.gain_256 = IVH_GAIN_BEATS_256;
		g.has_to_win = true;
		break;
	case VAWARE_POLICY_RESCUE:
		g.outcome = VAWARE_OUTCOME_WAIT;
		g.open_64 = 48;
		g.gain_256 = RESCUE_GAIN_256;
		g.has_to_win = true;
		break;
	case VAWARE_POLICY_SHOOTDOWN:
		g.open_64 = 48;
		g.has_to_win = true;
		break;
	case VAWARE_POLICY_RESERVE:
		g.outcome = VAWARE_OUTCOME_WAIT;
		g.open_64 = 32;
		g.winning_64 = 63;
		g.hold_log2 = RESERVE_HOLD_LOG2;
		g.gain_256 = RESERVE_GAIN_256;
		g.harm_256 = RESERVE_HARM_256;
		g.has_to_win = true;
		g.wakes_min = 1;
		g.late_waits = true;
		g.when_full = true;
		break;
	}
	return g;
}

/* Return true if a policy is on in @epoch, after @verdict (enum vaware_verdict). */
static inline bool governor_is_on(const struct governed *g, u64 epoch, u32 verdict)
{
	u64 dice = (epoch >> g->hold_log2) + g->seed;

	/* Mixed as by SplitMix64 (Steele, Lea, Flood 2014). */
	dice = (dice ^ dice >> 30) * 0xbf58476d1ce4e5b9ULL;
	dice = (dice ^ dice >> 27) * 0x94d049bb133111ebULL;
	dice = (dice ^ dice >> 31) >> 58; /* 0 to 63 */
	if (verdict == VAWARE_TRIAL_OPEN)
		return dice < g->open_64;
	return dice < (verdict == VAWARE_TRIAL_WINS ? g->winning_64 : g->losing_64);
}

/* Return true if a policy rests while nothing is wrong, after @verdict: there are no epochs then.
 */
static inline bool governor_rests(u32 verdict)
{
	return verdict == VAWARE_TRIAL_LOSES;
}

/* Return the logarithm of @value, above 0, in 1/256 of an octave; it is linear within one. */
static inline u64 governor_log_256(u64 value)
{
	u64 octave = bits_highest(value);
	u64 rest = octave > 8 ? value >> (octave - 8) : value << (8 - octave);

	return octave * 256 + rest - 256;
}

/* Count @epochs, of which there are some. */
static inline void governor_count(struct vaware_epochs *epochs)
{
	u64 sq = epochs->weight_sq;

	epochs->count = (epochs->weight * epochs->weight + sq / 2) / sq;
}

/*
 * Take down an epoch whose outcome was @log_256. Older ones fade. @weight: far above 1, so that
 * what is halved keeps its mean.
 */
static inline void governor_add(struct vaware_epochs *epochs, u64 log_256, u64 weight)
{
	epochs->weight += weight;
	epochs->weight_sq += weight * weight;
	epochs->sum += weight * log_256;
	epochs->sum_sq += weight * log_256 * log_256;
	governor_count(epochs);
	if (epochs->count < TRIAL_EPOCHS_MAX)
		return;
	epochs->weight /= 2;
	epochs->weight_sq /= 2;
	epochs->sum /= 2;
	epochs->sum_sq /= 2;
	governor_count(epochs);
}

/* Add to @sum what the vCPU of @s has had since load. */
static inline void governor_sum(struct governor_sums *sum, const struct vaware_stats *s)
{
	const u64 *counters = s->counters;

	sum->run_ns += s->run_ns[VAWARE_CLASS_LATENCY] + s->run_ns[VAWARE_CLASS_THROUGHPUT];
	sum->lost_ns += s->lost_ns;
	sum->wait_ns += s->latency_wait_ns;
	sum->wakes += s->latency_waits;
	sum->late_ns += s->latency_late_ns;
	sum->moves += counters[VAWARE_IVH_MOVED];
	sum->shootdown_ns += s->shootdown_ns;
	sum->acts[0] += counters[VAWARE_BVS_PICKED] + counters[VAWARE_BVS_QUEUED];
	sum->acts[1] += counters[VAWARE_IVH_ASKED];
	sum->acts[2] += counters[VAWARE_RESCUE_WATCHED] + counters[VAWARE_RESCUE_IN_REACH] +
			counters[VAWARE_RESCUE_YIELDED];
	sum->acts[3] += counters[VAWARE_RWC_AVOIDED] + counters[VAWARE_RWC_LEFT];
	sum->acts[4] += counters[VAWARE_CAPACITY_MOVED] + counters[VAWARE_BVS_PICKED];
	/* retain, the 5th, tries its time-outs by itself: an epoch is too short for them */
	sum->acts[6] += counters[VAWARE_GATHER_KEPT];
	sum->acts[7] += counters[VAWARE_RESERVE_TAKEN] + counters[VAWARE_RESERVE_LEFT];
	sum->acts[8] += counters[VAWARE_SHOOTDOWN_KEPT] + counters[VAWARE_SHOOTDOWN_LEFT];
}

/* Put into @now what is in it since @before, which becomes what @now was. */
static inline void governor_since(struct governor_sums *now, struct governor_sums *before)
{
	struct governor_sums sums = *now;
	u32 i;

	now->run_ns -= before->run_ns;
	now->lost_ns -= before->lost_ns;
	now->wait_ns -= before->wait_ns;
	now->wakes -= before->wakes;
	now->late_ns -= before->late_ns;
	now->moves -= before->moves;
	now->shootdown_ns -= before->shootdown_ns;
	for (i = 0; i < VAWARE_NR_POLICIES; i++)
		now->acts[i] -= before->acts[i];
	*before = sums;
}

/* Return for how long tasks wanted to run in an epoch with these @sums. */
static inline u64 governor_wanted_ns(const struct governor_sums *sums)
{
	return sums->run_ns + sums->lost_ns;
}

/*
 * Return the progress of an epoch in which tasks wanted to run for @wanted_ns, and got @gained_ns.
 * Below a floor it is all the same: of a task that woke beside a stopped vCPU, and had little to
 * do, as good as nothing may be left.
 */
static inline u64 governor_progress_256(u64 gained_ns, u64 wanted_ns)
{
	u64 floor_ns = wanted_ns / PROGRESS_FLOOR_PARTS;

	if (gained_ns < floor_ns)
		gained_ns = floor_ns;
	return governor_log_256(gained_ns * 65536 / wanted_ns + 1);
}

/*
 * Take down in @trial an epoch, in which the policy was @on, with these @sums of all vCPUs. A task
 * that was moved has lost its caches, and spent on those what it ran at first. One that waits at a
 * shootdown runs, and gets nowhere. To progress, an epoch counts by the time that tasks wanted:
 * what happens while next to nothing runs says little of what does.
 */
static inline void governor_take(struct vaware_trial *trial, bool on,
				 const struct governor_sums *sums, const struct governed *g)
{
	u64 wait_ns = sums->wait_ns + (g->late_waits ? sums->late_ns : 0);
	struct vaware_epochs *arm = trial->arms[on];
	u64 wanted_ns = governor_wanted_ns(sums);
	u64 spent_ns = sums->moves * MOVE_NS + sums->shootdown_ns;
	u64 gained_ns = sums->run_ns > spent_ns ? sums->run_ns - spent_ns : 0;

	if (wanted_ns >= EPOCH_WORK_MIN_NS)
		governor_add(&arm[VAWARE_OUTCOME_PROGRESS],
			     governor_progress_256(gained_ns, wanted_ns),
			     wanted_ns / EPOCH_WEIGHT_NS);
	if (sums->wakes >= g->wakes_min)
		governor_add(&arm[VAWARE_OUTCOME_WAIT], governor_log_256(wait_ns / sums->wakes + 1),
			     TRIAL_EPOCH_NS / EPOCH_WEIGHT_NS);
}

/* Return true if work filled all of @vcpus but one in an epoch with these @sums. */
static inline bool governor_full(const struct governor_sums *sums, u32 vcpus)
{
	return vcpus && governor_wanted_ns(sums) >= (vcpus - 1) * EPOCH_FULL_NS;
}

/* Return the square of the standard error of the mean of @epochs, of which there are some. */
static inline u64 governor_error_sq(const struct vaware_epochs *epochs)
{
	u64 mean_sq = epochs->sum_sq / epochs->weight, mean = epochs->sum / epochs->weight;
	u64 variance = mean_sq > mean * mean ? mean_sq - mean * mean : 0;

	return (variance + EPOCH_NOISE_256 * EPOCH_NOISE_256) / epochs->count;
}

/* What a policy has changed in one outcome. */
struct governor_gain {
	s64 by_256; /* in 1/256 of an octave; below 0: a loss */
	u64 epochs; /* of the kind of which there are less */
	bool sure;  /* it is not chance */
};

static inline struct governor_gain governor_gain(const struct vaware_trial *trial, u32 outcome)
{
	const struct vaware_epochs *with = &trial->arms[1][outcome & 1];
	const struct vaware_epochs *without = &trial->arms[0][outcome & 1];
	struct governor_gain gain = {
		.epochs = with->count < without->count ? with->count : without->count,
	};

	if (gain.epochs < TRIAL_EPOCHS_MIN)
		return gain;
	gain.by_256 = (s64)(with->sum / with->weight) - (s64)(without->sum / without->weight);
	gain.sure = (u64)(gain.by_256 * gain.by_256) >=
		    TRIAL_SURE_SQ * (governor_error_sq(with) + governor_error_sq(without));
	if (outcome == VAWARE_OUTCOME_WAIT)
		gain.by_256 = -gain.by_256;
	return gain;
}

/* Return true if @gain is a loss of @harm_256 or more that is no chance. */
static inline bool governor_harm(const struct governor_gain *gain, u32 harm_256)
{
	return gain->sure && gain->by_256 <= -(s64)harm_256;
}

/* Return the verdict on @trial (enum vaware_verdict). */
static inline u32 governor_verdict(const struct vaware_trial *trial, const struct governed *g)
{
	struct governor_gain main = governor_gain(trial, g->outcome);
	struct governor_gain other = governor_gain(trial, !g->outcome);
	bool won = trial->verdict == VAWARE_TRIAL_WINS;

	if (main.sure && main.by_256 >= (s64)g->gain_256)
		return VAWARE_TRIAL_WINS;
	if (governor_harm(&main, HARM_256) || governor_harm(&other, g->harm_256))
		return VAWARE_TRIAL_LOSES;
	/* A verdict lasts until half of what it took is lost. */
	if (won && 2 * main.by_256 >= (s64)g->gain_256)
		return VAWARE_TRIAL_WINS;
	if (trial->verdict == VAWARE_TRIAL_LOSES &&
	    (2 * main.by_256 <= -HARM_256 || 2 * other.by_256 <= -(s64)g->harm_256))
		return VAWARE_TRIAL_LOSES;
	/* Who seems to win goes on until that is sure, or no longer seems so. */
	if (g->has_to_win)
		return main.by_256 < (s64)g->gain_256 &&
				       main.epochs >= (won ? TRIAL_EPOCHS_MIN : TRIAL_EPOCHS_ENOUGH)
			       ? VAWARE_TRIAL_LOSES
			       : trial->verdict;
	return main.epochs >= TRIAL_EPOCHS_ENOUGH ? VAWARE_TRIAL_OPEN : trial->verdict;
}

/* Begin @trial anew, with the verdict of an earlier run, if there was one. */
static inline void governor_begin(struct vaware_trial *trial)
{
	u64 prior = trial->prior;

	*trial = (struct vaware_trial){ .verdict = prior, .prior = prior };
}

/*
 * Return true if @epoch says something of the policy: it has done something not long ago, in an
 * epoch in which it was on.
 */
static inline bool governor_counts(const struct vaware_trial *trial, u64 epoch)
{
	return trial->acted_epoch && epoch - trial->acted_epoch <= TRIAL_ACTED_EPOCHS;
}

#endif
