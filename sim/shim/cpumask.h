/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's cpumask functions for BPF, on masks of SIM_MAX_VCPUS bits. */
#ifndef SIM_CPUMASK_H
#define SIM_CPUMASK_H

#include "vmlinux.h"

#define SIM_MASK_WORDS (SIM_MAX_VCPUS / 64)

struct bpf_cpumask *bpf_cpumask_create(void);
void bpf_cpumask_release(struct bpf_cpumask *mask);
struct bpf_cpumask *bpf_cpumask_acquire(struct bpf_cpumask *mask);

static inline const struct cpumask *cast_mask(struct bpf_cpumask *mask)
{
	return &mask->cpumask;
}

static inline bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask)
{
	return cpu < SIM_MAX_VCPUS && mask->bits[cpu / 64] >> (cpu % 64) & 1;
}

static inline void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	if (cpu < SIM_MAX_VCPUS)
		mask->cpumask.bits[cpu / 64] |= 1ULL << (cpu % 64);
}

static inline void bpf_cpumask_clear_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	if (cpu < SIM_MAX_VCPUS)
		mask->cpumask.bits[cpu / 64] &= ~(1ULL << (cpu % 64));
}

static inline bool bpf_cpumask_test_and_set_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	bool was = bpf_cpumask_test_cpu(cpu, &mask->cpumask);

	bpf_cpumask_set_cpu(cpu, mask);
	return was;
}

static inline bool bpf_cpumask_test_and_clear_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	bool was = bpf_cpumask_test_cpu(cpu, &mask->cpumask);

	bpf_cpumask_clear_cpu(cpu, mask);
	return was;
}

static inline void bpf_cpumask_clear(struct bpf_cpumask *mask)
{
	for (u32 i = 0; i < SIM_MASK_WORDS; i++)
		mask->cpumask.bits[i] = 0;
}

static inline void bpf_cpumask_setall(struct bpf_cpumask *mask)
{
	for (u32 i = 0; i < SIM_MASK_WORDS; i++)
		mask->cpumask.bits[i] = ~0ULL;
}

static inline void bpf_cpumask_copy(struct bpf_cpumask *to, const struct cpumask *from)
{
	to->cpumask = *from;
}

static inline bool bpf_cpumask_and(struct bpf_cpumask *to, const struct cpumask *a,
				   const struct cpumask *b)
{
	u64 any = 0;

	for (u32 i = 0; i < SIM_MASK_WORDS; i++)
		any |= to->cpumask.bits[i] = a->bits[i] & b->bits[i];
	return any;
}

static inline void bpf_cpumask_or(struct bpf_cpumask *to, const struct cpumask *a,
				  const struct cpumask *b)
{
	for (u32 i = 0; i < SIM_MASK_WORDS; i++)
		to->cpumask.bits[i] = a->bits[i] | b->bits[i];
}

static inline void bpf_cpumask_xor(struct bpf_cpumask *to, const struct cpumask *a,
				   const struct cpumask *b)
{
	for (u32 i = 0; i < SIM_MASK_WORDS; i++)
		to->cpumask.bits[i] = a->bits[i] ^ b->bits[i];
}

static inline bool bpf_cpumask_empty(const struct cpumask *mask)
{
	for (u32 i = 0; i < SIM_MASK_WORDS; i++)
		if (mask->bits[i])
			return false;
	return true;
}

static inline bool bpf_cpumask_intersects(const struct cpumask *a, const struct cpumask *b)
{
	for (u32 i = 0; i < SIM_MASK_WORDS; i++)
		if (a->bits[i] & b->bits[i])
			return true;
	return false;
}

static inline bool bpf_cpumask_subset(const struct cpumask *a, const struct cpumask *b)
{
	for (u32 i = 0; i < SIM_MASK_WORDS; i++)
		if (a->bits[i] & ~b->bits[i])
			return false;
	return true;
}

static inline bool bpf_cpumask_equal(const struct cpumask *a, const struct cpumask *b)
{
	return bpf_cpumask_subset(a, b) && bpf_cpumask_subset(b, a);
}

/* Return the first set bit of @a and @b, or SIM_MAX_VCPUS, as the kernel returns nr_cpu_ids. */
static inline u32 bpf_cpumask_first_and(const struct cpumask *a, const struct cpumask *b)
{
	for (u32 i = 0; i < SIM_MASK_WORDS; i++)
		if (a->bits[i] & b->bits[i])
			return i * 64 + __builtin_ctzll(a->bits[i] & b->bits[i]);
	return SIM_MAX_VCPUS;
}

static inline u32 bpf_cpumask_first(const struct cpumask *mask)
{
	return bpf_cpumask_first_and(mask, mask);
}

static inline u32 bpf_cpumask_any_distribute(const struct cpumask *mask)
{
	return bpf_cpumask_first(mask);
}

static inline u32 bpf_cpumask_any_and_distribute(const struct cpumask *a, const struct cpumask *b)
{
	return bpf_cpumask_first_and(a, b);
}

static inline u32 bpf_cpumask_weight(const struct cpumask *mask)
{
	u32 weight = 0;

	for (u32 i = 0; i < SIM_MASK_WORDS; i++)
		weight += __builtin_popcountll(mask->bits[i]);
	return weight;
}

#endif
