/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The governor (policy/governor.h): one timer for the VM ends each epoch, sums up what all vCPUs
 * met in it, judges each policy by that, and draws what is on in the next. Nothing is measured for
 * it in a hot path, and it does not run while nothing is wrong.
 */
#include "governor.bpf.h"
#include "reserve.bpf.h"

#include "policy/governor.h"

u64 resting;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, VAWARE_NR_POLICIES);
	__type(key, u32);
	__type(value, struct vaware_trial);
} policy_trials SEC(".maps");

struct governor {
	struct bpf_timer timer;
	u64 began_ns;		     /* the present epoch */
	u64 epoch;		     /* its number */
	u32 open;		     /* there are epochs */
	struct governor_sums before; /* sums as it began */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct governor);
} governors SEC(".maps");

static u64 wrong_ns; /* when something was wrong last, to half an epoch; 0: never */

static struct governor *governor_of(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&governors, &key);
}

/* Global functions, here and below: the verifier checks them once, and not in each pass. */
int governor_sum_vcpu(struct governor_sums *sum, s32 cpu);
int governor_end(struct governor_sums *sums, u32 index, u64 epoch);
int governor_draw(u32 index, u64 epoch, bool quiet);

__noinline int governor_sum_vcpu(struct governor_sums *sum, s32 cpu)
{
	const struct vaware_stats *s = stats_of(cpu);

	if (s && sum)
		governor_sum(sum, s);
	return 0;
}

/* Return what all vCPUs met since load. */
static void sum_up(struct governor_sums *sums)
{
	u32 cpu;

	bpf_for (cpu, 0, nr_vcpus)
		governor_sum_vcpu(sums, cpu);
}

static struct governed how_governed(u32 index)
{
	return governed_of(index, steal_source == VAWARE_STEAL_KVM);
}

/* @epoch has ended, in which @sums were met: judge the policy with bit @index. */
__noinline int governor_end(struct governor_sums *sums, u32 index, u64 epoch)
{
	struct vaware_trial *trial = bpf_map_lookup_elem(&policy_trials, &index);
	bool on = !(resting >> (index & 63) & 1);
	struct governed g;

	if (!trial || !sums || index >= VAWARE_NR_POLICIES)
		return 0;
	if (!(policies >> index & 1)) { /* who switches it on wants it judged anew */
		governor_begin(trial);
		return 0;
	}
	if (on && sums->acts[index])
		trial->acted_epoch = epoch;
	if (!governor_counts(trial, epoch))
		return 0;
	g = how_governed(index);
	if (g.when_full && !governor_full(sums, usable_vcpus))
		return 0;
	governor_take(trial, on, sums, &g);
	trial->verdict = governor_verdict(trial, &g);
	return 0;
}

/* Let the policy with bit @index rest in @epoch, or not; @quiet: for as long as nothing is wrong.
 */
__noinline int governor_draw(u32 index, u64 epoch, bool quiet)
{
	struct vaware_trial *trial = bpf_map_lookup_elem(&policy_trials, &index);
	struct governed g = how_governed(index);
	u64 bit = 1ULL << (index & 63);
	bool rests;

	if (!trial)
		return 0;
	rests = quiet ? governor_rests(trial->verdict) : !governor_is_on(&g, epoch, trial->verdict);
	if (rests)
		__sync_fetch_and_or(&resting, bit);
	else
		__sync_fetch_and_and(&resting, ~bit);
	return 0;
}

static void draw(u64 epoch, bool quiet)
{
	u32 i;

	bpf_for (i, 0, VAWARE_NR_POLICIES)
		governor_draw(i, epoch, quiet);
}

/* Begin an epoch at @now. */
static void begin_epoch(struct governor *g, u64 now)
{
	g->began_ns = now;
	g->epoch++;
	draw(g->epoch, false);
	bpf_timer_start(&g->timer, TRIAL_EPOCH_NS, 0);
}

static int epoch_ended(void *map, int *key, struct governor *g)
{
	struct governor_sums sums = {};
	u64 now = now_unlocked_ns();
	u32 i;

	sum_up(&sums);
	governor_since(&sums, &g->before);
	bpf_for (i, 0, VAWARE_NR_POLICIES)
		governor_end(&sums, i, g->epoch);
	if (time_delta(now, wrong_ns) < TRIAL_QUIET_NS) {
		begin_epoch(g, now);
		return 0;
	}
	draw(g->epoch, true);
	g->open = 0;
	return 0;
}

/* Forget what was found: what is wrong now is wrong in another way, maybe. */
static void begin_anew(void)
{
	struct vaware_trial *trial;
	u32 i, key;

	bpf_for (i, 0, VAWARE_NR_POLICIES) {
		key = i;
		trial = bpf_map_lookup_elem(&policy_trials, &key);
		if (trial)
			governor_begin(trial);
	}
}

__noinline int governor_wake(u64 now)
{
	struct governor *g = governor_of();

	if (!g)
		return 0;
	if (time_delta(now, wrong_ns) > TRIAL_EPOCH_NS / 2)
		wrong_ns = now;
	if (!__sync_val_compare_and_swap(&g->open, 0, 1)) {
		begin_anew();
		__builtin_memset(&g->before, 0, sizeof(g->before));
		sum_up(&g->before);
		begin_epoch(g, now);
	} else if (time_delta(now, g->began_ns) > TRIAL_LOST_NS) {
		g->began_ns = now; /* the vCPU of the timer is stopped, and this one is not */
		bpf_timer_start(&g->timer, 0, 0);
	}
	return 0;
}

int governor_init(void)
{
	struct governor *g = governor_of();

	if (!g || bpf_timer_init(&g->timer, &governors, 1 /* CLOCK_MONOTONIC */) ||
	    bpf_timer_set_callback(&g->timer, epoch_ended))
		return -EINVAL;
	draw(0, true);
	return 0;
}
