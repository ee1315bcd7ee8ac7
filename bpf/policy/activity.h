/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a vCPU does: the judgement of its beats, the distributions of its active and inactive
 * periods, and what follows from them (vSched 3.1, vact; its means become distributions).
 */
#ifndef VAWARE_POLICY_ACTIVITY_H
#define VAWARE_POLICY_ACTIVITY_H

#include "../intf.h"
#include "account.h"
#include "bits.h"
#include "tunables.h"

#define SPAN_FIRST_BIT 15 /* bucket 1 starts at 2^15 ns = 33 us */
#define SPAN_LAST_BIT 32  /* the last bucket starts at 2^32 ns = 4.3 s */

/*
 * For @i from 0 to below @n. In BPF the verifier has to know that it is a loop, or it follows each
 * path through all rounds.
 */
#ifdef __bpf__
#define span_for(i, n) bpf_for (i, 0, n)
#else
#define span_for(i, n) for (i = 0; i < (n); i++)
#endif

/* Return the bucket of struct vaware_spans that a period of @ns falls into. */
static inline u32 span_bucket(u64 ns)
{
	u32 bit;

	if (ns >> SPAN_LAST_BIT)
		return VAWARE_SPAN_BUCKETS - 1;
	if (!(ns >> SPAN_FIRST_BIT))
		return 0;
	bit = bits_highest(ns);
	return 1 + 2 * (bit - SPAN_FIRST_BIT) + ((ns >> (bit - 1)) & 1);
}

/* Return where @bucket starts, in ns; for VAWARE_SPAN_BUCKETS, where the last is taken to end. */
static inline u64 span_start_ns(u32 bucket)
{
	u32 halves = bucket - 1; /* of octaves, after the first bit */

	return bucket ? (2ULL + (halves & 1)) << (SPAN_FIRST_BIT - 1 + halves / 2 % 32) : 0;
}

/* Add a period of @ns to @s. */
static inline void span_add(struct vaware_spans *s, u64 ns)
{
	u32 bucket = span_bucket(ns);

	if (bucket < VAWARE_SPAN_BUCKETS && s->weights[bucket] <= ~0U - VAWARE_SPAN_UNIT)
		s->weights[bucket] += VAWARE_SPAN_UNIT;
}

/* Return how often the weights are to be halved that were last at @decayed_ns. */
static inline u32 span_halvings(u64 decayed_ns, u64 now)
{
	u64 halvings = now > decayed_ns ? (now - decayed_ns) / SPAN_HALF_LIFE_NS : 0;

	return halvings < 31 ? halvings : 31;
}

static inline void span_decay(struct vaware_spans *s, u32 halvings)
{
	u32 i;

	for (i = 0; i < VAWARE_SPAN_BUCKETS; i++)
		s->weights[i] >>= halvings & 31;
}

/*
 * Return the probability, in 1/1024, that an active period which has lasted @age_ns is ended by a
 * stop within the next @within_ns. The actuarial estimator: periods in @stopped ended so, those in
 * @idled did not, and count as at risk for as long as they lasted. 0 if none lasted longer.
 */
static inline u32 activity_hazard_1024(const struct vaware_spans *stopped,
				       const struct vaware_spans *idled, u64 age_ns, u64 within_ns)
{
	u64 until_ns = age_ns + within_ns, longer = 0, survival = 1 << 20;
	u32 round;

	span_for(round, VAWARE_SPAN_BUCKETS)
	{
		u32 i = VAWARE_SPAN_BUCKETS - 1 - round;
		u64 start_ns = span_start_ns(i), end_ns = span_start_ns(i + 1);
		u64 stops = stopped->weights[i], idles = idled->weights[i];
		u64 from_1024, part_1024, at_risk, ends;

		longer += stops + idles;
		if (start_ns >= until_ns || end_ns <= age_ns)
			continue;
		/* The part of the bucket that lies between age and age + within. */
		from_1024 =
			age_ns > start_ns ? (age_ns - start_ns) * 1024 / (end_ns - start_ns) : 0;
		part_1024 = until_ns < end_ns ? (until_ns - start_ns) * 1024 / (end_ns - start_ns)
					      : 1024;
		part_1024 -= from_1024;
		at_risk = longer * 1024 - (stops + idles) * from_1024 - idles * part_1024 / 2;
		ends = stops * part_1024;
		if (!ends)
			continue;
		survival =
			ends < at_risk ? survival * (((at_risk - ends) << 20) / at_risk) >> 20 : 0;
	}
	return 1024 - (survival >> 10);
}

/*
 * Return how long in ns an inactive period that has lasted @age_ns is expected to go on: the mean
 * rest of those in @inactive that lasted longer. If none did, as long again.
 */
static inline u64 activity_rest_ns(const struct vaware_spans *inactive, u64 age_ns)
{
	u64 weight_sum = 0, rest_sum = 0; /* of rests in 1024 ns, lest the sum overflow */
	u32 i;

	span_for(i, VAWARE_SPAN_BUCKETS)
	{
		u64 start_ns = span_start_ns(i), end_ns = span_start_ns(i + 1);
		u64 from_ns = start_ns > age_ns ? start_ns : age_ns, weight;

		if (end_ns <= from_ns)
			continue;
		weight = inactive->weights[i] * ((end_ns - from_ns) >> 10) /
			 ((end_ns - start_ns) >> 10);
		weight_sum += weight;
		rest_sum += weight * (((from_ns + end_ns) / 2 - age_ns) >> 10);
	}
	if (weight_sum)
		return (rest_sum / weight_sum) << 10;
	return age_ns > PREEMPTED_UNKNOWN_NS ? age_ns : PREEMPTED_UNKNOWN_NS;
}

/* Return true if a beat that was due at @due_ns (0: none was) has not come by @now. */
static inline bool activity_late(u64 due_ns, u64 now)
{
	return due_ns && now > due_ns;
}

/*
 * Return true if a vCPU with @state, the next beat of which is due at @due_ns, is believed to be
 * stopped at @now: it has something to run, and gives no sign of life.
 */
static inline bool activity_preempted(u32 state, u64 due_ns, u64 now)
{
	return state == VAWARE_STATE_ACTIVE && activity_late(due_ns, now);
}

/*
 * Return when an inactive period began that is seen by a late beat: between the last beat at
 * @beat_ns and the missed one at @due_ns, on average midway.
 */
static inline u64 activity_preemption_began_ns(u64 beat_ns, u64 due_ns)
{
	return beat_ns < due_ns ? beat_ns + (due_ns - beat_ns) / 2 : beat_ns;
}

/*
 * Return when the next tick is due after @now, given that one was due at @due_ns or earlier. Their
 * times are known to a 64th of a tick: one that seems about to come may just have come.
 */
static inline u64 activity_tick_after_ns(u64 due_ns, u64 tick_ns, u64 now)
{
	now += tick_ns / 64;
	return now < due_ns ? due_ns : due_ns + ((now - due_ns) / tick_ns + 1) * tick_ns;
}

/*
 * Return when the next tick is due after one that came at @now and was due at @due_ns (0: unknown).
 * Ticks come at fixed times, or late: an early one corrects what was thought of the times. They are
 * let drift by 1/2048 of a tick, for the clock by which they are timed is a slewed one.
 */
static inline u64 activity_tick_due_ns(u64 due_ns, u64 tick_ns, u64 now)
{
	if (!due_ns || now < due_ns)
		return now + tick_ns;
	return activity_tick_after_ns(due_ns, tick_ns, now) + tick_ns / 2048;
}

/*
 * Return @apart_ns, the mean busy time between long stops of a vCPU (up to BEATS_QUIET_NS, with
 * which it begins), with one in it that ends at @now after another that ended at @last_ns (0: none
 * did) and @busy_ns of busy time. Idle time is not in it: work that visits many vCPUs meets as many
 * stops as work that stays.
 */
static inline u64 activity_apart_ns(u64 apart_ns, u64 last_ns, u64 busy_ns, u64 now)
{
	u64 between_ns = last_ns && now < last_ns + BEATS_QUIET_NS ? busy_ns : BEATS_QUIET_NS;

	return account_average_ns(apart_ns, between_ns);
}

/*
 * Return true if a timer should add beats at @now to a vCPU whose long stops are @apart_ns apart,
 * and ended last at @last_ns (0: never): they are frequent, and ticks are not as frequent anyway.
 */
static inline bool activity_wants_timer(u64 apart_ns, u64 last_ns, u64 now, u64 tick_ns)
{
	return last_ns && tick_ns > BEAT_NS && apart_ns < BEATS_APART_NS &&
	       now < last_ns + BEATS_QUIET_NS;
}

/*
 * Return true if the next tick after @now, of which one was due at @due_ns or earlier (0: not
 * known), comes as soon as a timer would.
 */
static inline bool activity_tick_suffices(u64 due_ns, u64 tick_ns, u64 now)
{
	return due_ns && activity_tick_after_ns(due_ns, tick_ns, now) <= now + BEAT_NS;
}

/*
 * Return true if a vCPU that stays busy for @busy_ns at a time is worth the timer. The last one of
 * each time finds it idle, and wakes it for nothing.
 */
static inline bool activity_outlasts_beats(u64 busy_ns)
{
	return busy_ns >= BEATS_MIN * BEAT_NS;
}

/*
 * Return how long a moment of stopped time lasts in all, on average, from @average_ns before (0:
 * not known) and a stop of @stop_ns. Each counts by its length: many short ones do not hide that
 * most is lost by long ones.
 */
static inline u64 activity_preemption_ns(u64 average_ns, u64 stop_ns)
{
	u64 part_ns = stop_ns < PREEMPTIONS_KNOWN_NS ? stop_ns : PREEMPTIONS_KNOWN_NS;

	if (!average_ns)
		return stop_ns;
	return (average_ns * (PREEMPTIONS_KNOWN_NS - part_ns) + stop_ns * part_ns) /
	       PREEMPTIONS_KNOWN_NS;
}

/*
 * Return true if a stop of @taken_ns ends an active period, where stops take @stop_ns: a short one
 * interrupts it, and to evade it would cost more.
 */
static inline bool activity_ends(u64 taken_ns, u64 stop_ns)
{
	return taken_ns * PREEMPTION_PARTS >= stop_ns;
}

/* What was taken since the last beat, judged by steal clock and beats together. */
struct activity_taken {
	u64 ns;
	u64 owed_ns;   /* what beats were late and the clock has yet to show */
	bool by_clock; /* the clock tells the length */
};

/*
 * Judge that the steal clock has moved by @clock_ns while a beat was late by @late_ns (0: it was
 * not); @owed_ns is what the clock owes from before. The clock is exact, and a beat may be late
 * because interrupts were off. But some clocks miss what a hypervisor further below takes: of one
 * that is known to (@misses), the longer of the two counts, and no time twice.
 */
static inline struct activity_taken activity_fuse(u64 clock_ns, u64 late_ns, u64 owed_ns,
						  bool misses)
{
	u64 paid_ns = clock_ns < owed_ns ? clock_ns : owed_ns, new_ns = clock_ns - paid_ns;
	struct activity_taken taken = {
		.ns = misses ? new_ns : clock_ns,
		.owed_ns = owed_ns - paid_ns,
		.by_clock = true,
	};

	if (late_ns <= new_ns)
		return taken;
	taken.owed_ns += late_ns - new_ns;
	if (misses) {
		taken.ns = late_ns;
		taken.by_clock = false;
	}
	return taken;
}

/*
 * Return true if most of a stop of @clock_ns, which the steal clock shows at @now, came after the
 * event that it is read for: that was at @event_ns.
 */
static inline bool activity_stop_is_later(u64 clock_ns, u64 event_ns, u64 now)
{
	return now > event_ns && now - event_ns >= clock_ns / 2;
}

/*
 * Return the evidence @missed_ns that a steal clock misses stops, with @unshown_ns in it that beats
 * were late and it never showed, after @busy_ns in which the vCPU was busy. It fades, so that only
 * what is missed of more than one part in MISSED_PARTS of the time adds up, and a single beat adds
 * little, however late.
 */
static inline u64 activity_missed_ns(u64 missed_ns, u64 unshown_ns, u64 busy_ns)
{
	u64 fades_ns = busy_ns / MISSED_PARTS;

	missed_ns = missed_ns > fades_ns ? missed_ns - fades_ns : 0;
	missed_ns += unshown_ns < MISSED_ONCE_NS ? unshown_ns : MISSED_ONCE_NS;
	return missed_ns < 2 * MISSED_NS ? missed_ns : 2 * MISSED_NS;
}

/*
 * Return true if a steal clock is known to miss stops by @missed_ns of evidence; @before: it was.
 * It is until the evidence is less than half of what it took.
 */
static inline bool activity_clock_misses(bool before, u64 missed_ns)
{
	return missed_ns >= (before ? MISSED_NS / 2 : MISSED_NS);
}

#endif
