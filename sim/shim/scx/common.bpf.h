/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The simulator's stand-in for the framework's header of this name: the same macros for a native
 * compiler, and the kernel's functions as src/bpf/ implements them. A function that is missing
 * there is a link error under its own name.
 */
#ifndef __SCX_COMMON_BPF_H
#define __SCX_COMMON_BPF_H

#include "../vmlinux.h"
#include "../kfuncs.h"
#include "../cpumask.h"

extern struct rq runqueues;

#define __weak __attribute__((weak))
#define __hidden __attribute__((visibility("hidden")))
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __maybe_unused __attribute__((unused))
#define SEC(name) __attribute__((used))
#define __ksym
#define __kconfig
#define __kptr
#define __arg_trusted
#define __arg_nullable
#define private(name) static __attribute__((aligned(8)))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define READ_ONCE(x) (*(volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, val) ((*(volatile typeof(x) *)&(x)) = (val))
#define barrier() __asm__ volatile("" ::: "memory")
#define barrier_var(var) barrier()
#define smp_mb() __sync_synchronize()
#define __sink(expr) ((void)(expr))
#define MAX_ERRNO 4095
#define ARRAY_SIZE(x) (sizeof(x) / sizeof((x)[0]))
#define ARRAY_ELEM_PTR(arr, i, n) ((u64)(i) < (u64)(n) ? &(arr)[i] : NULL)
#define MEMBER_VPTR(base, member) (&((base)member))
#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

/* Maps are declared the libbpf way: __uint is the length of an array, __type that of a pointer. */
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
#define __array(name, val) typeof(val) *name[]
#define sim_uint(field) (sizeof(*(field)) / sizeof(int))

#define bpf_core_field_exists(field) 1
#define bpf_core_type_exists(type) 1
#define bpf_core_enum_value_exists(type, value) 1
#define bpf_core_enum_value(type, value) (value)
#define bpf_ksym_exists(symbol) (!!&(symbol))
#define BPF_CORE_READ(src, a) ((src)->a)
#define bpf_probe_read_kernel(dst, size, src) (__builtin_memcpy(dst, src, size), 0)

/* The framework would find out at load whether the prolog does; the simulator has no prolog. */
#define __scx_prolog_disables_migration 0

/*
 * A BPF program NAME(args) takes an array of u64 and hands each, cast to a pointer, to its typed
 * parameter.
 */
#define SIM_NR(...) SIM_NR_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define SIM_NR_(d, a, b, c, e, f, g, h, i, n, ...) n
#define SIM_CTX0() ctx
#define SIM_CTX1(a) SIM_CTX0(), (void *)ctx[0]
#define SIM_CTX2(a, ...) SIM_CTX1(a), (void *)ctx[1]
#define SIM_CTX3(a, ...) SIM_CTX2(a, ), (void *)ctx[2]
#define SIM_CTX4(a, ...) SIM_CTX3(a, ), (void *)ctx[3]
#define SIM_CTX5(a, ...) SIM_CTX4(a, ), (void *)ctx[4]
#define SIM_CAT(a, b) SIM_CAT_(a, b)
#define SIM_CAT_(a, b) a##b
#define SIM_CTX(args...) SIM_CAT(SIM_CTX, SIM_NR(x, ##args))(args)

#define BPF_PROG(name, args...)                                                                    \
	name(unsigned long long *ctx);                                                             \
	static __always_inline typeof(name(0)) ____##name(unsigned long long *ctx, ##args);        \
	typeof(name(0)) name(unsigned long long *ctx)                                              \
	{                                                                                          \
		return ____##name(SIM_CTX(args));                                                  \
	}                                                                                          \
	static __always_inline typeof(name(0)) ____##name(unsigned long long *ctx, ##args)

#define BPF_STRUCT_OPS(name, args...) BPF_PROG(name, ##args)
#define BPF_STRUCT_OPS_SLEEPABLE(name, args...) BPF_PROG(name, ##args)
#define SCX_OPS_DEFINE(name, ...) struct sched_ext_ops name = { __VA_ARGS__ }

struct user_exit_info {
	int kind;
	s64 exit_code;
	char reason[128];
	char msg[1024];
};
#define UEI_DEFINE(uei) struct user_exit_info uei
#define UEI_RECORD(uei, ei) ((uei).kind = (ei)->kind, (uei).exit_code = (ei)->exit_code)

/* Loops are counted: their number per decision must not grow with the number of vCPUs. */
#define bpf_for(i, start, end)                                                                     \
	for (typeof(end) sim_end_ = ((i) = (start), (end)); (i) < sim_end_ && sim_iteration();     \
	     (i)++)
#define bpf_repeat(n) for (u32 sim_i_ = 0; sim_i_ < (n) && sim_iteration(); sim_i_++)
#define can_loop sim_iteration()
#define bpf_for_each(type, cur, args...)                                                           \
	for (struct bpf_iter_##type ___it                                                          \
	     __attribute__((cleanup(bpf_iter_##type##_destroy), aligned(8))),                      \
	     *sim_new_ = (bpf_iter_##type##_new(&___it, ##args), &___it);                          \
	     sim_new_ && ((cur) = bpf_iter_##type##_next(&___it)) && sim_iteration();)
#define BPF_FOR_EACH_ITER (&___it)

#define bpf_map_lookup_elem(m, key_ptr)                                                            \
	((typeof((m)->value))sim_map_lookup((m), sim_uint((m)->type), sim_uint((m)->max_entries),  \
					    sizeof(*(m)->key), sizeof(*(m)->value), (key_ptr)))
#define bpf_map_lookup_percpu_elem(m, key_ptr, cpu)                                                \
	((typeof((m)->value))sim_map_lookup_percpu((m), sim_uint((m)->max_entries),                \
						   sizeof(*(m)->value), (key_ptr), (cpu)))
#define bpf_map_update_elem(m, key_ptr, value_ptr, flags)                                          \
	sim_map_update((m), sim_uint((m)->type), sim_uint((m)->max_entries), sizeof(*(m)->key),    \
		       sizeof(*(m)->value), (key_ptr), (value_ptr), (flags))
#define bpf_map_delete_elem(m, key_ptr) sim_map_delete((m), sizeof(*(m)->key), (key_ptr))
#define bpf_task_storage_get(m, p, init, flags)                                                    \
	((typeof((m)->value))sim_task_storage_get((m), sizeof(*(m)->value), (p), (flags)))
#define bpf_cgrp_storage_get(m, cgrp, init, flags) ((typeof((m)->value))NULL)
#define bpf_task_storage_delete(m, p) sim_task_storage_delete((m), (p))
#define bpf_ringbuf_reserve(m, size, flags) sim_ringbuf_reserve((m), (size))
#define bpf_ringbuf_submit(data, flags) sim_ringbuf_submit(data)
#define bpf_ringbuf_discard(data, flags) sim_ringbuf_discard(data)
#define bpf_ringbuf_output(m, data, size, flags) sim_ringbuf_output((m), (data), (size))
#define bpf_kptr_xchg(slot, value) ((typeof(value))sim_kptr_xchg((void **)(slot), (value)))
#define bpf_per_cpu_ptr(symbol, cpu)                                                               \
	((typeof(symbol))sim_per_cpu_ptr((symbol), sizeof(*(symbol)), (cpu)))
#define bpf_this_cpu_ptr(symbol) bpf_per_cpu_ptr(symbol, bpf_get_smp_processor_id())
#define bpf_timer_init(timer, m, clock) sim_timer_init((timer), (m))
#define bpf_timer_set_callback(timer, callback) sim_timer_set_callback((timer), (callback))

/* The simulated kernel asks for no reports. */
#define scx_bpf_dump(format, args...) ((void)0)

/* The simulated kernel asks ops.select_cpu at each wake-up. */
#define __COMPAT_is_enq_cpu_selected(enq_flags) (!!((enq_flags) & SCX_ENQ_CPU_SELECTED))
#define __COMPAT_scx_bpf_dsq_peek(dsq_id) scx_bpf_dsq_peek(dsq_id)
#define scx_bpf_dsq_move_to_local(dsq_id, enq_flags) sim_dsq_move_to_local(dsq_id, enq_flags)
#define scx_bpf_error(fmt, args...) sim_error(fmt)
#define bpf_printk(fmt, args...) ((void)0)
#define __COMPAT_scx_bpf_cpu_curr(cpu) scx_bpf_cpu_curr(cpu)

static inline s64 time_delta(u64 after, u64 before)
{
	return (s64)(after - before) > 0 ? (s64)(after - before) : 0;
}

static inline bool time_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

static inline bool time_after(u64 a, u64 b)
{
	return (s64)(b - a) < 0;
}

static inline struct task_struct *bpf_task_acquire(struct task_struct *p)
{
	return p;
}

static inline void bpf_task_release(struct task_struct *p)
{
}

static inline struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level)
{
	return NULL;
}

static inline void bpf_cgroup_release(struct cgroup *cgrp)
{
}

static inline void bpf_rcu_read_lock(void)
{
}

static inline void bpf_rcu_read_unlock(void)
{
}

/* What is defined from here on is the scheduler's: found by the sections' names, saved and reset.
 */
#pragma clang section data = "sim_bpf_data" bss = "sim_bpf_bss" rodata = "sim_bpf_rodata"

#endif
