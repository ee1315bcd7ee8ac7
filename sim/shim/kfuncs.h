/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's functions that the scheduler may call, implemented in src/bpf/. Each takes virtual
 * time (src/costs.rs) and may be where the hypervisor stops the vCPU.
 */
#ifndef SIM_KFUNCS_H
#define SIM_KFUNCS_H

#include "vmlinux.h"

/* Queues and dispatch. */
s32 scx_bpf_create_dsq(u64 dsq_id, s32 node);
void scx_bpf_destroy_dsq(u64 dsq_id);
bool scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags);
bool scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
			      u64 enq_flags);
bool sim_dsq_move_to_local(u64 dsq_id, u64 enq_flags);
s32 scx_bpf_dsq_nr_queued(u64 dsq_id);
struct task_struct *scx_bpf_dsq_peek(u64 dsq_id);
int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags);
struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it);
void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it);
bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
		      u64 enq_flags);
bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
			    u64 enq_flags);
void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice);
void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime);
u32 scx_bpf_dispatch_nr_slots(void);
void scx_bpf_dispatch_cancel(void);

/* Tasks and vCPUs. */
/* There are no tasks of higher classes here. */
static inline void scx_bpf_reenqueue_local(void)
{
}
bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice);
bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime);
bool scx_bpf_task_running(const struct task_struct *p);
s32 scx_bpf_task_cpu(const struct task_struct *p);
struct task_struct *scx_bpf_cpu_curr(s32 cpu);
struct task_struct *bpf_get_current_task_btf(void);
struct task_struct *bpf_task_from_pid(s32 pid);
u32 bpf_get_smp_processor_id(void);
u32 scx_bpf_nr_cpu_ids(void);
void scx_bpf_kick_cpu(s32 cpu, u64 flags);

/* Idle vCPUs. */
const struct cpumask *scx_bpf_get_possible_cpumask(void);
const struct cpumask *scx_bpf_get_online_cpumask(void);
const struct cpumask *scx_bpf_get_idle_cpumask(void);
const struct cpumask *scx_bpf_get_idle_smtmask(void);
void scx_bpf_put_cpumask(const struct cpumask *mask);
void scx_bpf_put_idle_cpumask(const struct cpumask *mask);
bool scx_bpf_test_and_clear_cpu_idle(s32 cpu);
s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags);
s32 scx_bpf_pick_any_cpu(const struct cpumask *allowed, u64 flags);

/* Clocks and chance. */
u64 scx_bpf_now(void);
u64 bpf_ktime_get_ns(void);
u64 bpf_jiffies64(void);
u32 bpf_get_prandom_u32(void);

/* Maps, storage, timers: called through the macros in scx/common.bpf.h. */
void *sim_map_lookup(const void *map, u32 type, u32 max_entries, u32 key_size, u32 value_size,
		     const void *key);
void *sim_map_lookup_percpu(const void *map, u32 max_entries, u32 value_size, const void *key,
			    u32 cpu);
s64 sim_map_update(const void *map, u32 type, u32 max_entries, u32 key_size, u32 value_size,
		   const void *key, const void *value, u64 flags);
s64 sim_map_delete(const void *map, u32 key_size, const void *key);
void *sim_task_storage_get(const void *map, u32 value_size, struct task_struct *p, u64 flags);
s64 sim_task_storage_delete(const void *map, struct task_struct *p);
void *sim_ringbuf_reserve(const void *map, u64 size);
void sim_ringbuf_submit(void *data);
void sim_ringbuf_discard(void *data);
s64 sim_ringbuf_output(const void *map, void *data, u64 size);
void *sim_per_cpu_ptr(const void *symbol, u64 size, u32 cpu);
void *sim_kptr_xchg(void **slot, void *value);
s64 sim_timer_init(struct bpf_timer *timer, void *map);
s64 sim_timer_set_callback(struct bpf_timer *timer, void *callback);
s64 bpf_timer_start(struct bpf_timer *timer, u64 ns, u64 flags);
s64 bpf_timer_cancel(struct bpf_timer *timer);
void bpf_spin_lock(struct bpf_spin_lock *lock);
void bpf_spin_unlock(struct bpf_spin_lock *lock);

/* One turn of a bounded loop. Always true. */
bool sim_iteration(void);
/* scx_bpf_error(): the scheduler gives up. */
void sim_error(const char *format);

#endif
