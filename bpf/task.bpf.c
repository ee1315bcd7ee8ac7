/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What kind of task it is.
 */
#include "task.bpf.h"

__noinline int task_allows(const struct task_struct *p __arg_trusted, s32 cpu)
{
	bool may;

	bpf_rcu_read_lock(); /* 6.12 takes a timer for a program that may sleep */
	may = bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
	bpf_rcu_read_unlock();
	return may;
}

__noinline s32 task_pick_idle(const struct task_struct *p __arg_trusted)
{
	s32 cpu;

	bpf_rcu_read_lock();
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	bpf_rcu_read_unlock();
	return cpu >= 0 ? cpu : -1;
}
