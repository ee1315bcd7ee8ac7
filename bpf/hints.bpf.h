/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the daemon has found out about the vCPUs (crate hints). It counts for some seconds: a daemon
 * that hangs, or is gone, leaves the scheduler without hints.
 */
#ifndef VAWARE_HINTS_BPF_H
#define VAWARE_HINTS_BPF_H

#include "vaware.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to nr_cpu_ids before load */
	__type(key, u32);
	__type(value, struct vaware_hints);
} vcpu_hints SEC(".maps") __weak;

/*
 * The flags of all vCPUs together, and until when they count, as `valid_until_jiffies`. Set by the
 * daemon with the hints, so that a decision reads one word where there is nothing to know.
 */
extern u32 hints_flags;
extern u64 hints_until_jiffies;

/* Flags by which one vCPU is better than another for a task that is alone on its core. */
#define VAWARE_VCPUS_DIFFER (VAWARE_VCPU_STRAGGLER | VAWARE_VCPU_STACKED | VAWARE_VCPU_UNEVEN)

/* Return true if some vCPU has one of @flags (enum vaware_vcpu_flag). */
static inline bool some_flagged(u32 flags)
{
	return (hints_flags & flags) && policies && bpf_jiffies64() < hints_until_jiffies;
}

/*
 * Return what the daemon knows of vCPU @cpu, or NULL if that is nothing, or too old, or no policy
 * is on: what is left then knows nothing of vCPUs.
 */
static inline struct vaware_hints *hints_of(s32 cpu)
{
	u32 key = cpu;
	struct vaware_hints *in = bpf_map_lookup_elem(&vcpu_hints, &key);

	return in && policies && bpf_jiffies64() < in->valid_until_jiffies ? in : NULL;
}

/* Return how many vCPUs the work of one with @in looks at. */
static inline u32 nr_candidates(const struct vaware_hints *in)
{
	u32 others = nr_vcpus - 1;

	if (in)
		return in->nr_candidates;
	return others < VAWARE_CANDIDATES ? others : VAWARE_CANDIDATES;
}

/* Return the @i-th vCPU that the work of @cpu looks at, or -1 after the last one. */
static inline s32 candidate_vcpu(const struct vaware_hints *in, s32 cpu, u32 i)
{
	u32 other;

	if (!in)
		return i + 1 < nr_vcpus ? (s32)((cpu + 1 + i) % nr_vcpus) : -1;
	other = in->candidates[i % VAWARE_CANDIDATES];
	return i < in->nr_candidates && other < nr_vcpus ? (s32)other : -1;
}

#endif /* VAWARE_HINTS_BPF_H */
