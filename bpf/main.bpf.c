/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scx_vaware, the kernel half: its state, its start and end, and the table of what is done where.
 */
#include "activity.bpf.h"
#include "cgroup.bpf.h"
#include "governor.bpf.h"
#include "queue.bpf.h"
#include "rescue.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

const volatile u32 nr_vcpus = 1;
const volatile u32 steal_source = VAWARE_STEAL_BEATS;
const volatile bool activity_on = true;
const volatile bool log_activity = false;
const volatile bool queued_wakeup = false;

u64 tick_ns = 10 * NS_PER_MS;
u64 policies = ~0ULL;
u64 wait_bound_ns = NS_PER_S;
u32 hints_flags;
u64 hints_until_jiffies;
u32 reserve_vcpu;
u32 usable_vcpus;

/* Prepare the vCPUs. Return 0, or a negative error. */
static s32 init_vcpus(const struct cpumask *online)
{
	u32 cpu;
	s32 err;

	bpf_for (cpu, 0, nr_vcpus) {
		struct vcpu_ctx *v = vcpu_ctx_of(cpu);

		if (!v)
			return -ENOENT;
		v->run.class = VAWARE_CLASS_NONE;
		v->online = bpf_cpumask_test_cpu(cpu, online);
		err = activity_init(cpu);
		if (err)
			return err;
		err = scx_bpf_create_dsq(vcpu_dsq(cpu, false), NUMA_NO_NODE);
		if (!err)
			err = scx_bpf_create_dsq(vcpu_dsq(cpu, true), NUMA_NO_NODE);
		if (err)
			return err;
	}
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(vaware_init)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	s32 err = init_vcpus(online);

	scx_bpf_put_cpumask(online);
	if (err)
		return err;
	err = governor_init();
	if (!err)
		err = cgroup_start();
	return err ?: rescue_init();
}

void BPF_STRUCT_OPS(vaware_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

u32 daemon_tgid;
u64 clock_ahead_ns;

/* Two clocks are read within less, unless the vCPU was preempted between. */
#define CLOCKS_APART_NS (10 * NS_PER_US)

/*
 * Read the clocks, by which the daemon says until when its hints count and knows what stamps of the
 * scheduler's mean. Who asks is the daemon. It is told here, as the number that it has in a PID
 * namespace is another. How the scheduler's clock differs from CLOCK_MONOTONIC is kept if both were
 * read at once.
 */
SEC("syscall")
int vaware_read_clocks(struct vaware_clock *clock)
{
	bool cached = clock_is_cached();
	u64 monotonic_ns = bpf_ktime_get_ns();

	clock->jiffies = bpf_jiffies64();
	clock->sched_ns = now_unlocked_ns();
	if (!cached && (!clock_ahead_ns || bpf_ktime_get_ns() - monotonic_ns < CLOCKS_APART_NS))
		clock_ahead_ns = monotonic_ns - clock->sched_ns;
	daemon_tgid = bpf_get_current_task_btf()->tgid;
	return 0;
}

/* place.bpf.c */
extern s32 vaware_select_cpu(unsigned long long *ctx);
extern void vaware_enqueue(unsigned long long *ctx);
/* dispatch.bpf.c */
extern void vaware_dispatch(unsigned long long *ctx);
/* run.bpf.c */
extern void vaware_running(unsigned long long *ctx);
extern void vaware_tick(unsigned long long *ctx);
extern void vaware_stopping(unsigned long long *ctx);
extern bool vaware_yield(unsigned long long *ctx);
/* lifecycle.bpf.c */
extern s32 vaware_init_task(unsigned long long *ctx);
extern void vaware_enable(unsigned long long *ctx);
extern void vaware_disable(unsigned long long *ctx);
extern void vaware_cpu_release(unsigned long long *ctx);
extern void vaware_cpu_online(unsigned long long *ctx);
extern void vaware_cpu_offline(unsigned long long *ctx);
/* cgroup.bpf.c */
extern s32 vaware_cgroup_init(unsigned long long *ctx);
extern void vaware_cgroup_exit(unsigned long long *ctx);
extern void vaware_cgroup_move(unsigned long long *ctx);
extern void vaware_cgroup_set_weight(unsigned long long *ctx);
extern void vaware_cgroup_set_bandwidth(unsigned long long *ctx);
extern void vaware_cgroup_set_idle(unsigned long long *ctx);
/* dump.bpf.c */
extern void vaware_dump_cpu(unsigned long long *ctx);
extern void vaware_dump_task(unsigned long long *ctx);

SCX_OPS_DEFINE(vaware,
	       /* Where does a task go? */
	       .select_cpu = (void *)vaware_select_cpu, .enqueue = (void *)vaware_enqueue,
	       /* What does a vCPU run next? */
	       .dispatch = (void *)vaware_dispatch,
	       /* What does the running task get, and what is it charged? */
	       .running = (void *)vaware_running, .tick = (void *)vaware_tick,
	       .stopping = (void *)vaware_stopping, .yield = (void *)vaware_yield,
	       /* Tasks and vCPUs come and go. */
	       .init_task = (void *)vaware_init_task, .enable = (void *)vaware_enable,
	       .disable = (void *)vaware_disable, .cpu_release = (void *)vaware_cpu_release,
	       .cpu_online = (void *)vaware_cpu_online, .cpu_offline = (void *)vaware_cpu_offline,
	       .dump_cpu = (void *)vaware_dump_cpu,
	       /* Cgroups come, go and change. */
	       .cgroup_init = (void *)vaware_cgroup_init, .cgroup_exit = (void *)vaware_cgroup_exit,
	       .cgroup_move = (void *)vaware_cgroup_move,
	       .cgroup_set_weight = (void *)vaware_cgroup_set_weight,
	       .cgroup_set_bandwidth = (void *)vaware_cgroup_set_bandwidth,
	       .cgroup_set_idle = (void *)vaware_cgroup_set_idle,
	       .dump_task = (void *)vaware_dump_task, .init = (void *)vaware_init,
	       .exit = (void *)vaware_exit,
	       /* A stopped vCPU is no stall: the longest that the kernel allows. */
	       .timeout_ms = 30000, .name = "scx_vaware");
