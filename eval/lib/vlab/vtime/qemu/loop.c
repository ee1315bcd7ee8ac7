/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The vCPU thread under virtual time.
 *
 * Each pCPU of the simulated host has a clock of its own. The one that is furthest behind runs its
 * vCPU for at most a quantum, so all vCPUs advance in parallel though one thread runs them in turn.
 * QEMU's instruction counter is set to the pCPU's clock for the turn, and back to the frontier, the
 * time that all have reached, after it. Timers and interrupts are due by the frontier.
 *
 * What other threads of QEMU do at wall time must not show: a turn that they interrupt is resumed,
 * and the clock stands still while the guest waits for another process (files.c, control.c).
 */
#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/seqlock.h"
#include "qemu/timer.h"
#include "system/cpu-timers.h"
#include "system/cpu-timers-internal.h"
#include "system/cpus.h"
#include "system/runstate.h"
#include "system/replay.h"
#include "exec/cpu-common.h"
#include "tcg/startup.h"
#include "hw/core/cpu.h"
#include "accel/tcg/tcg-accel-ops.h"
#include "accel/tcg/tcg-accel-ops-icount.h"
#include "loop.h"

/*
 * At most this much of a turn, ns: vCPUs see each other's writes that late. A cache line between
 * sockets takes a tenth of it, a wake-up by interrupt more than it.
 */
#define QUANTUM_NS 2000
#define CONTROL_EVERY_TURNS 4096
#define STUCK_TURNS 1000

VtHost *vt_host;

typedef struct Ipi {
	int64_t due_ns;
	void *apic;
	int vector, trigger_mode;
	void (*deliver)(void *apic, int vector, int trigger_mode);
} Ipi;

static struct {
	const char *control;
	CPUState **cpus; /* by index */
	bool *awake;	 /* as the host knows it */
	int *touched;	 /* indexes of vCPUs to look at */
	bool *is_touched;
	int nr_cpus, nr_touched;
	int quantum_ns;
	int64_t frontier_ns, tsc_ns, cost_ns;
	bool turn_ends; /* the guest waits for others: no instruction more */
	bool kicked;	/* atomic */
	GArray *ipis;	/* in flight, by due_ns */
} vt;

bool vt_enabled(void)
{
	static int enabled = -1;

	if (enabled < 0) {
		vt.control = getenv("VT_CONTROL");
		enabled = vt.control && *vt.control;
	}
	return enabled;
}

int64_t vt_now_ns(void)
{
	return vt.frontier_ns;
}

/* ---------------------------------------------------------------- QEMU's clock */

static int shift(void)
{
	return qatomic_read(&timers_state.icount_time_shift);
}

static int64_t executed(void)
{
	return qatomic_read_i64(&timers_state.qemu_icount);
}

static void set_clock(int64_t ns)
{
	int64_t bias = qatomic_read_i64(&timers_state.qemu_icount_bias);

	seqlock_write_lock(&timers_state.vm_clock_seqlock, &timers_state.vm_clock_lock);
	qatomic_set_i64(&timers_state.qemu_icount, (ns - bias) >> shift());
	seqlock_write_unlock(&timers_state.vm_clock_seqlock, &timers_state.vm_clock_lock);
}

static void set_frontier(int64_t ns)
{
	if (ns > vt.frontier_ns) {
		vt.frontier_ns = ns;
	}
	set_clock(vt.frontier_ns);
}

void vt_pause(int64_t ns)
{
	vt_host_pause(vt_host, ns);
	set_frontier(MAX(vt_host_frontier_ns(vt_host), vt.frontier_ns + ns));
}

int64_t vt_tsc(int64_t ns)
{
	/* Reads by vCPUs whose turn comes later must not be earlier than what was read already. */
	vt.tsc_ns = MAX(vt.tsc_ns, ns);
	return vt.tsc_ns;
}

/* ---------------------------------------------------------------- what the guest causes */

void vt_touch(CPUState *cpu)
{
	int i = cpu->cpu_index;

	if (vt.is_touched && i < vt.nr_cpus && !vt.is_touched[i]) {
		vt.is_touched[i] = true;
		vt.touched[vt.nr_touched++] = i;
	}
}

void vt_kick(void)
{
	qatomic_set(&vt.kicked, true);
}

void vt_end_turn(void)
{
	vt.turn_ends = true;
	if (current_cpu) {
		cpu_exit(current_cpu);
	}
}

void vt_charge(int64_t ns)
{
	vt.cost_ns += ns;
}

void vt_charge_timer(void)
{
	vt_charge(vt_host_costs(vt_host)->timer_ns);
}

void vt_ipi(CPUState *cpu, void *apic, int vector, int trigger_mode,
	    void (*deliver)(void *apic, int vector, int trigger_mode))
{
	int64_t due_ns =
		qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) + vt_host_costs(vt_host)->ipi_latency_ns;
	Ipi ipi = { due_ns, apic, vector, trigger_mode, deliver };
	guint at = vt.ipis->len;

	vt_charge(vt_host_costs(vt_host)->ipi_ns);
	while (at > 0 && g_array_index(vt.ipis, Ipi, at - 1).due_ns > due_ns) {
		at--;
	}
	g_array_insert_val(vt.ipis, at, ipi);
}

void vt_doorbell(EventNotifier *doorbell)
{
	if (vt_enabled()) {
		vt_files_settle(doorbell);
	}
}

bool vt_is_news(EventNotifier *signal)
{
	return !vt_enabled() || vt_files_served(signal);
}

void vt_poll_control(CPUState *cpu, bool enabled)
{
	vt_host_poll_control(vt_host, cpu->cpu_index, enabled);
}

/* ---------------------------------------------------------------- the host's word */

static void on_switch(void *arg, int64_t now_ns, int pcpu, int entity, VtWhy why)
{
	if (entity < vt.nr_cpus) {
		VtTruth truth;

		if (why == VT_WHY_IN) {
			vt_host_truth(vt_host, entity, &truth);
			vt_kvm_enter(vt.cpus[entity], truth.stolen_ns);
		} else if (why == VT_WHY_PREEMPTED || why == VT_WHY_THROTTLED ||
			   why == VT_WHY_HALTED) {
			vt_kvm_leave(vt.cpus[entity]);
		}
	}
	vt_control_record(now_ns, pcpu, entity, why);
}

/* ---------------------------------------------------------------- turns */

static bool can_run(CPUState *cpu)
{
	return cpu_can_run(cpu) && !(cpu->halted && !cpu_has_work(cpu));
}

/* Tell the host which vCPUs want to run as of @now_ns. */
static void look_at_touched(int64_t now_ns)
{
	int i;

	for (i = 0; i < vt.nr_touched; i++) {
		int index = vt.touched[i];
		bool awake = can_run(vt.cpus[index]);

		vt.is_touched[index] = false;
		if (awake && !vt.awake[index]) {
			vt_host_wake(vt_host, index, now_ns);
		} else if (!awake && vt.awake[index]) {
			vt_host_halt(vt_host, index, now_ns);
		}
		vt.awake[index] = awake;
	}
	vt.nr_touched = 0;
}

static void do_queued_work(void)
{
	CPUState *cpu;

	qatomic_set(&vt.kicked, false);
	CPU_FOREACH(cpu)
	{
		current_cpu = cpu;
		qemu_wait_io_event_common(cpu);
		qatomic_set(&cpu->exit_request, 0);
		vt_touch(cpu);
	}
	current_cpu = NULL;
}

/* Execute at most @insns instructions. */
static void execute(CPUState *cpu, int64_t insns)
{
	int result;

	replay_mutex_lock();
	cpu->icount_budget = insns;
	cpu->neg.icount_decr.u16.low = MIN(0xffff, insns);
	cpu->icount_extra = insns - cpu->neg.icount_decr.u16.low;
	bql_unlock();
	result = tcg_cpu_exec(cpu);
	icount_process_data(cpu);
	bql_lock();
	if (result == EXCP_DEBUG) {
		cpu_handle_guest_debug(cpu);
	} else if (result == EXCP_ATOMIC) {
		bql_unlock();
		cpu_exec_step_atomic(cpu);
		bql_lock();
	}
}

static void run_turn(const VtTurn *turn, int64_t limit_ns)
{
	CPUState *cpu = vt.cpus[turn->vcpu];
	int64_t work_ns = MIN(MIN(turn->work_ns, vt.quantum_ns), limit_ns - turn->now_ns);
	int64_t left = MAX(work_ns >> shift(), 1), began, done = 0;
	int fruitless = 0;

	set_clock(turn->now_ns);
	began = executed();
	vt.cost_ns = 0;
	vt.turn_ends = false;
	current_cpu = cpu;
	while (left > 0 && !vt.turn_ends && can_run(cpu) && fruitless < STUCK_TURNS) {
		int64_t before = executed();

		qatomic_set_mb(&cpu->exit_request, 0);
		execute(cpu, left);
		left -= executed() - before;
		fruitless = executed() == before ? fruitless + 1 : 0;
		if (cpu->stop || !cpu_work_list_empty(cpu)) {
			qemu_wait_io_event_common(cpu);
		}
	}
	current_cpu = NULL;
	done = (executed() - began) << shift();
	if (fruitless == STUCK_TURNS) {
		done += vt.quantum_ns; /* interrupts without an instruction: let the others go on */
	}
	vt_host_ran(vt_host, turn->vcpu, done, vt.cost_ns);
	vt_touch(cpu);
	look_at_touched(turn->now_ns + done);
}

/* ---------------------------------------------------------------- events */

static int64_t next_timer_ns(void)
{
	int64_t wait_ns = timerlist_deadline_ns(main_loop_tlg.tl[QEMU_CLOCK_VIRTUAL]);

	return wait_ns < 0 ? INT64_MAX : vt.frontier_ns + wait_ns;
}

static int64_t next_event_ns(void)
{
	int64_t ipi_ns = vt.ipis->len ? g_array_index(vt.ipis, Ipi, 0).due_ns : INT64_MAX;

	return MIN(MIN(next_timer_ns(), ipi_ns), vt_control_until_ns());
}

static void do_events(void)
{
	guint arrived = 0;

	while (arrived < vt.ipis->len) {
		Ipi *ipi = &g_array_index(vt.ipis, Ipi, arrived);

		if (ipi->due_ns > vt.frontier_ns) {
			break;
		}
		ipi->deliver(ipi->apic, ipi->vector, ipi->trigger_mode);
		arrived++;
	}
	if (arrived) {
		g_array_remove_range(vt.ipis, 0, arrived);
	}
	if (next_timer_ns() <= vt.frontier_ns) {
		qemu_clock_run_timers(QEMU_CLOCK_VIRTUAL);
	}
	look_at_touched(vt.frontier_ns);
}

/* One step of the simulated machine. */
static void step(void)
{
	int64_t limit_ns = next_event_ns();
	VtTurn turn;

	switch (vt_host_next(vt_host, limit_ns, &turn)) {
	case VT_RUN:
		set_frontier(vt_host_frontier_ns(vt_host));
		run_turn(&turn, limit_ns);
		set_frontier(vt_host_frontier_ns(vt_host));
		break;
	case VT_LIMIT:
		set_frontier(limit_ns);
		break;
	case VT_IDLE:
		if (limit_ns != INT64_MAX) {
			vt_host_advance(vt_host, limit_ns);
			set_frontier(limit_ns);
		} else if (!qatomic_read(&vt.kicked)) {
			qemu_cond_wait_bql(first_cpu->halt_cond);
			vt_kick();
		}
		break;
	}
	do_events();
}

void vt_init(void)
{
	const char *quantum = getenv("VT_QUANTUM_NS"), *seed = getenv("VT_SEED");
	CPUState *cpu;

	if (!icount_enabled()) {
		error_report("Virtual time needs -icount; start QEMU with it.");
		exit(1);
	}
	CPU_FOREACH(cpu)
	{
		vt.nr_cpus = MAX(vt.nr_cpus, cpu->cpu_index + 1);
	}
	vt.cpus = g_new0(CPUState *, vt.nr_cpus);
	vt.awake = g_new0(bool, vt.nr_cpus);
	vt.touched = g_new0(int, vt.nr_cpus);
	vt.is_touched = g_new0(bool, vt.nr_cpus);
	CPU_FOREACH(cpu)
	{
		vt.cpus[cpu->cpu_index] = cpu;
	}
	vt.ipis = g_array_new(false, false, sizeof(Ipi));
	vt.quantum_ns = quantum ? atoi(quantum) : QUANTUM_NS;
	vt_host = vt_host_new(vt.nr_cpus, seed ? strtoull(seed, NULL, 10) : 0);
	if (!vt_host) {
		error_report("There is no simulated host for %d vCPUs; use 1 to %d.", vt.nr_cpus,
			     VT_MAX_VCPUS);
		exit(1);
	}
	vt_host_on_switch(vt_host, on_switch, NULL);
	vt_control_connect(vt.control);
	vt_kick();
}

void vt_loop(void)
{
	unsigned int turns = 0;

	set_frontier(qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL));
	while (true) {
		if (qatomic_read(&vt.kicked)) {
			do_queued_work();
			look_at_touched(vt.frontier_ns);
		}
		if (!runstate_is_running()) {
			qemu_cond_wait_bql(first_cpu->halt_cond);
			vt_kick();
			continue;
		}
		if (turns++ % CONTROL_EVERY_TURNS == 0) {
			vt_control_poll();
		}
		if (vt_control_wants_hold()) {
			vt_control_hold();
			do_events();
			continue;
		}
		step();
	}
}
