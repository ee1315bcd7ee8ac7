/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Balance: a busy vCPU takes work from a queue that is longer or stuck.
 */
#include "activity.bpf.h"
#include "balance.bpf.h"
#include "rwc.bpf.h"

/* A variable, counted down: the verifier would follow each pass of a loop from a known number. */
u32 balance_scan = BALANCE_SCAN;

/*
 * The virtual time which vCPUs have got to where tasks wait: the latest. Each has a clock of its
 * own that begins anywhere; `base` of struct look_ctx is what it read as this one began.
 */
static u64 shared_clock;

static u64 shared_clock_of(const struct vcpu_ctx *v)
{
	return v->vclock - v->balance.base;
}

/* Have the clock of @v agree with the others'. */
static void shared_clock_join(struct vcpu_ctx *v)
{
	v->balance.base = v->vclock - shared_clock;
}

/*
 * The same where nobody waits for @cpu, for there its clock says nothing of shares: it follows the
 * one task that runs. Elsewhere the others are to get as far. Who had only light tasks for a while
 * is ahead by more than others can ever make up for, and would pull whatever it sees.
 */
static void shared_clock_agree(s32 cpu, struct vcpu_ctx *v)
{
	u64 clock = shared_clock_of(v);

	if (!waiting_at(cpu, false))
		shared_clock_join(v);
	else if (vtime_before(shared_clock, clock))
		shared_clock = clock;
	else if (vtime_before(clock, shared_clock - LAG_SHARES_MAX_NS))
		v->balance.base += clock - (shared_clock - LAG_SHARES_MAX_NS);
}

/* Return what the runnable tasks of @cpu weigh. Global: the verifier checks it once. */
__noinline u64 balance_weight(s32 cpu)
{
	const struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	struct task_struct *p;
	u32 left = balance_scan;
	u64 weight = 0;

	if (v && v->run.class != VAWARE_CLASS_NONE && v->run.class != VAWARE_CLASS_BEST_EFFORT)
		weight = v->run.weight;
	bpf_for_each (scx_dsq, p, vcpu_dsq(cpu, false), 0) {
		const struct task_ctx *t = task_ctx_of(p);

		if (!left--)
			break;
		if (t)
			weight += task_weight(p, t);
	}
	return weight;
}

static struct share balance_share(s32 cpu, const struct vcpu_ctx *v)
{
	const struct vaware_hints *h = hints_of(cpu);

	return (struct share){
		.weight = balance_weight(cpu),
		.capacity = h ? h->capacity_1024 : 1024,
		.clock = shared_clock_of(v),
	};
}

/*
 * Move a task from the queue of @victim to that of @cpu, if shares get evener. It takes along what
 * it is due, and waits for its turn: a light one would otherwise get more than its share wherever
 * it goes.
 */
__noinline int balance_shares(s32 cpu, s32 victim)
{
	struct vcpu_ctx *v = vcpu_ctx_of(cpu), *o = vcpu_ctx_of(victim);
	struct share here, there;
	struct task_struct *p;
	u32 left = balance_scan, weight;

	if (!v || !o)
		return false;
	here = balance_share(cpu, v);
	there = balance_share(victim, o);
	bpf_for_each (scx_dsq, p, vcpu_dsq(victim, false), 0) {
		struct task_ctx *t = task_ctx_of(p);

		if (!left--)
			break;
		if (!t || t->vcpu != (u32)victim || is_pinned(p) || !task_allows(p, cpu) ||
		    shootdown_keeps(p, cpu, victim))
			continue;
		weight = task_weight(p, t);
		if (!cgroup_pulls(&here, &there, weight))
			continue;
		t->vtime = vtime_rebase(t->vtime, o->balance.base, v->balance.base);
		t->vcpu = cpu;
		enter_shared(t, v, weight, true);
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER,
					   vtime_deadline(t->vtime, weight, SLICE_NS));
		waiting_set(cpu, false);
		if (scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, vcpu_dsq(cpu, false), 0)) {
			count(VAWARE_DISPATCH_BALANCE);
			return true;
		}
		break; /* it runs there, or sleeps */
	}
	return false;
}

/* Return true if nobody takes what waits for @cpu: it is stopped, or a real-time task has it. */
static bool held_up(s32 cpu, u64 now)
{
	const struct vcpu_ctx *v = vcpu_ctx_of(cpu);

	return v && (v->run.class == VAWARE_CLASS_NONE || vcpu_preempted(cpu, now));
}

/* Take from the next queue where work waits, or bring from there into @cpu's own. */
static __always_inline bool balance_next(s32 cpu, struct vcpu_ctx *v, u64 now)
{
	u32 victim, waiting, own_waiting;
	struct task_struct *head;
	s32 offset;
	u64 dsq_id;

	if (waiting_nowhere(false))
		return false;
	offset = waiting_next(v->balance.cursor + 1, 0, nr_vcpus, false);
	if (offset < 0)
		return false;
	victim = (v->balance.cursor + 1 + offset) % nr_vcpus;
	v->balance.cursor = victim;
	if (victim == cpu)
		return false;
	dsq_id = vcpu_dsq(victim, false);
	waiting = scx_bpf_dsq_nr_queued(dsq_id);
	if (!waiting)
		return false;
	if (cgroups_in_use && !held_up(victim, now)) {
		balance_shares(cpu, victim);
		return false;
	}
	own_waiting = scx_bpf_dsq_nr_queued(vcpu_dsq(cpu, false));
	head = __COMPAT_scx_bpf_dsq_peek(dsq_id);
	if (!queue_pulls(own_waiting, waiting, head ? waited_ns(head) : 0) ||
	    (head && shootdown_keeps(head, cpu, victim)) || !scx_bpf_dsq_move_to_local(dsq_id, 0))
		return false;
	count(VAWARE_DISPATCH_BALANCE);
	return true;
}

__noinline int balance_look(s32 cpu, u64 now)
{
	struct vcpu_ctx *v = vcpu_ctx_of(cpu);
	bool taken;

	if (!v || rwc_banned(rwc_flags(cpu), VAWARE_CLASS_THROUGHPUT))
		return false;
	if (!cgroups_in_use) {
		v->balance.next_ns = now + BALANCE_INTERVAL_NS;
		return balance_next(cpu, v, now);
	}
	if (!time_before(now, v->balance.next_ns + BALANCE_FORGET_NS))
		shared_clock_join(v);
	v->balance.next_ns = now + BALANCE_SHARES_NS;
	taken = balance_next(cpu, v, now);
	shared_clock_agree(cpu, v);
	return taken;
}
