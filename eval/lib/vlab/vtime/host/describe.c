// SPDX-License-Identifier: GPL-2.0-only
/*
 * The description of a machine: one thing per line, '#' begins a comment, times in ms with up to
 * six decimals, of competitors at least 1 us, LIST as in 0-3,6. An empty text: a pCPU of its own
 *for each vCPU.
 *
 *   host [hz=1000] [slice=2.8] [costs=posted] [poll=0.2] [poll_start=0.01] [poll_grow=2]
 *        [poll_shrink=2] [halt_ns=N] [wake_ns=N] [wake_polled_ns=N] [host_switch_ns=N]
 *        [ipi_ns=N] [ipi_latency_ns=N] [timer_ns=N]
 *	Of the host's kernel; holds for the whole text. hz: 100 to 10000 ticks a second. slice: of
 *	its fair class. costs: none, posted (posted interrupts) or exits, of which *_ns replace
 *	single ones (costs.c). poll: the most that KVM polls for a halted vCPU, 0: not at all;
 *	poll_start, poll_grow, poll_shrink: how that adapts.
 *   cycle MS		the sections repeat after MS
 *   at MS		begins a section, which replaces what held before; the first is at 0
 *   pcpus N [smt=RATE]	1 to 256 pCPUs; with smt=, pCPUs 2i and 2i+1 share a core, and each
 *			works at RATE (0.1 to 1) of its speed while both are busy
 *   speed RATIO on=LIST	0.01 to 1, of the fastest
 *   vcpu LIST [on=LIST] [weight=W]
 *			may run on these pCPUs (default: all); weight as cpu.weight, 1 to 10000
 *   quota ON/PERIOD vcpu=LIST [shared] [phase=MS]
 *			as cpu.max, for each of the vCPUs, or shared by them; the first new period
 *			comes after MS (default: random)
 *   hog on=LIST [weight=W] [floating=N]
 *			computes for ever: one on each pCPU, or N that may run on all of them
 *   bursty ON/OFF on=LIST [weight=W] [floating=N]
 *			computes and sleeps; both exponential, with these means
 *   recorded ON/OFF,ON/OFF,... on=LIST [weight=W] [floating=N]
 *			computes and sleeps for these times, again and again
 *   duty ON/OFF on=LIST [phase=MS]
 *			real-time: takes the pCPU at phase + k * (ON + OFF) for ON, after the
 *			section began
 *
 * ON of bursty and recorded is CPU time, of duty wall time. Defaults of the host's kernel are
 * those of Linux 6.15 with 8 or more CPUs: sysctl_sched_base_slice 0.7 ms * (1 + log2(8)); of KVM
 * on x86 (halt_poll_ns and its kin, kvm_main.c). HZ is 1000, as distributions for servers have it
 * (Fedora, RHEL, Ubuntu since 24.10), and vSched's host; Debian has 250.
 */
#include <stdlib.h>
#include <string.h>

#include "words.h"

#define MAX_COMPETITORS 4096 /* of a section */

typedef struct Reader {
	Words words; /* of the line */
	VtPlan *plan;
	VtSection *section; /* the current one */
	int nr_vcpus;
	bool described; /* the section has pCPUs */
} Reader;

static VtMask pcpus_of(Reader *r)
{
	return vt_list(&r->words, vt_value_of(&r->words, "on"), "on=", r->section->nr_pcpus);
}

static void pair(Reader *r, Word both, int64_t *on_ns, int64_t *off_ns)
{
	Word on = vt_cut(&both, '/');

	*on_ns = vt_time_ns(&r->words, on, "the first time", US);
	*off_ns = vt_time_ns(&r->words, both, "the time after '/'", US);
}

/* The line's weight, if it has one, as sched_weight_from_cgroup() makes it. */
static void read_weight(Reader *r, int64_t *weight)
{
	int64_t cgroup = 0;

	vt_optional(&r->words, &cgroup, "weight", 0, 1, 10000);
	if (cgroup)
		*weight = (cgroup * VT_WEIGHT_NORMAL + 50) / 100;
}

static void *grow(Reader *r, void *array, int count, size_t size)
{
	void *larger = realloc(array, (count + 1) * size);

	if (larger)
		memset((char *)larger + count * size, 0, size);
	else
		vt_fail(&r->words, "there is no memory for this; use a shorter description");
	return larger;
}

static void read_host(Reader *r)
{
	VtPlan *plan = r->plan;
	int64_t hz = 1000000000 / plan->tick_ns;
	Word costs = vt_value_of(&r->words, "costs");

	if (plan->nr_sections > 1 || r->described)
		vt_fail(&r->words, "'host' holds for the whole text; put it before 'pcpus'");
	if (costs.text) {
		const VtCosts *profile = vt_costs_profile(costs.text, costs.length);

		if (profile)
			plan->costs = *profile;
		else
			vt_fail(&r->words, "costs are '%.*s'; name none, posted or exits",
				(int)costs.length, costs.text);
	}
	vt_optional(&r->words, &hz, "hz", 0, 100, 10000);
	plan->tick_ns = 1000000000 / hz;
	vt_optional(&r->words, &plan->slice_ns, "slice", 6, MS / 10, 100 * MS);
	vt_optional(&r->words, &plan->poll_max_ns, "poll", 6, 0, 100 * MS);
	vt_optional(&r->words, &plan->poll_grow_start_ns, "poll_start", 6, 0, 100 * MS);
	vt_optional(&r->words, &plan->poll_grow, "poll_grow", 0, 0, 1000);
	vt_optional(&r->words, &plan->poll_shrink, "poll_shrink", 0, 0, 1000);
	vt_optional(&r->words, &plan->costs.halt_ns, "halt_ns", 0, 0, MS);
	vt_optional(&r->words, &plan->costs.wake_ns, "wake_ns", 0, 0, MS);
	vt_optional(&r->words, &plan->costs.wake_polled_ns, "wake_polled_ns", 0, 0, MS);
	vt_optional(&r->words, &plan->costs.host_switch_ns, "host_switch_ns", 0, 0, MS);
	vt_optional(&r->words, &plan->costs.ipi_ns, "ipi_ns", 0, 0, MS);
	vt_optional(&r->words, &plan->costs.ipi_latency_ns, "ipi_latency_ns", 0, 0, MS);
	vt_optional(&r->words, &plan->costs.timer_ns, "timer_ns", 0, 0, MS);
}

static void read_cycle(Reader *r)
{
	r->plan->cycle_ns = vt_time_ns(&r->words, vt_argument(&r->words), "the cycle", MS);
}

static void set_up_section(Reader *r, int nr_pcpus)
{
	VtMask all = { { 0 } };
	int i;

	r->described = true;
	r->section->nr_pcpus = nr_pcpus;
	for (i = 0; i < nr_pcpus; i++) {
		r->section->speed_ppm[i] = VT_PPM;
		vt_mask_add(&all, i);
	}
	for (i = 0; i < r->nr_vcpus; i++)
		r->section->vcpu[i] = (VtVcpuPlan){ all, VT_WEIGHT_NORMAL };
}

static void add_section(Reader *r, int64_t at_ns)
{
	VtSection *larger = grow(r, r->plan->section, r->plan->nr_sections, sizeof(*larger));

	if (!larger)
		return;
	r->plan->section = larger;
	r->section = &larger[r->plan->nr_sections++];
	r->section->at_ns = at_ns;
	r->described = false;
}

static void read_at(Reader *r)
{
	int64_t at_ns = vt_time_ns(&r->words, vt_argument(&r->words), "the time", 0);

	if (!at_ns && r->plan->nr_sections == 1 && !r->described)
		return; /* says what is so anyway */
	if (!r->described)
		vt_fail(&r->words, "the section before this has no 'pcpus'; describe what holds "
				   "from its start");
	else if (at_ns < r->section->at_ns + MS)
		vt_fail(&r->words,
			"sections come in order of time; let each hold for 1 ms or longer");
	else
		add_section(r, at_ns);
}

static void read_pcpus(Reader *r)
{
	int64_t count = vt_number(&r->words, vt_argument(&r->words), "the number of pCPUs", 0, 1,
				  VT_MAX_PCPUS);

	if (r->described)
		vt_fail(&r->words, "the section already has its pCPUs; say 'pcpus' once");
	if (!r->words.failed)
		set_up_section(r, count);
	vt_optional(&r->words, &r->section->smt_ppm, "smt", 6, VT_PPM / 10, VT_PPM);
}

static void read_speed(Reader *r)
{
	int64_t speed_ppm =
		vt_number(&r->words, vt_argument(&r->words), "the speed", 6, VT_PPM / 100, VT_PPM);
	VtMask on = pcpus_of(r);
	int i;

	for (i = vt_mask_next(&on, 0); i >= 0; i = vt_mask_next(&on, i + 1))
		r->section->speed_ppm[i] = speed_ppm;
}

static void read_vcpu(Reader *r)
{
	VtMask vcpus = vt_list(&r->words, vt_argument(&r->words), "the vCPU", r->nr_vcpus);
	Word on = vt_value_of(&r->words, "on");
	int64_t weight = 0;
	VtMask pcpus = { { 0 } };
	int i;

	read_weight(r, &weight);
	if (on.text)
		pcpus = vt_list(&r->words, on, "on=", r->section->nr_pcpus);
	for (i = vt_mask_next(&vcpus, 0); i >= 0; i = vt_mask_next(&vcpus, i + 1)) {
		if (on.text)
			r->section->vcpu[i].on = pcpus;
		if (weight)
			r->section->vcpu[i].weight = weight;
	}
}

static void add_quota(Reader *r, const VtQuotaPlan *quota)
{
	VtSection *section = r->section;
	VtQuotaPlan *larger;
	int i, k;

	for (i = 0; i < section->nr_quotas; i++) {
		for (k = 0; section->quota[i].level == quota->level && k < VT_MAX_VCPUS / 64; k++) {
			if (section->quota[i].vcpus.bits[k] & quota->vcpus.bits[k]) {
				vt_fail(&r->words, "a vCPU has two quotas of this kind; leave one");
				return;
			}
		}
	}
	larger = grow(r, section->quota, section->nr_quotas, sizeof(*larger));
	if (!larger)
		return;
	section->quota = larger;
	larger[section->nr_quotas++] = *quota;
}

static void read_quota(Reader *r)
{
	VtQuotaPlan quota = { .phase_ns = -1 };
	VtMask vcpus;
	int i;

	pair(r, vt_argument(&r->words), &quota.runtime_ns, &quota.period_ns);
	vcpus = vt_list(&r->words, vt_value_of(&r->words, "vcpu"), "vcpu=", r->nr_vcpus);
	quota.level = vt_has(&r->words, "shared");
	vt_optional(&r->words, &quota.phase_ns, "phase", 6, 0, 1000000 * MS);
	/* tg_set_cfs_bandwidth(): min_cfs_quota_period, max_cfs_quota_period */
	if (quota.runtime_ns < MS || quota.period_ns < MS || quota.period_ns > 1000 * MS)
		vt_fail(&r->words,
			"the kernel takes run times from 1 ms and periods from 1 to 1000 ms; "
			"change it");
	if (quota.level) {
		quota.vcpus = vcpus;
		add_quota(r, &quota);
		return;
	}
	for (i = vt_mask_next(&vcpus, 0); i >= 0 && !r->words.failed;
	     i = vt_mask_next(&vcpus, i + 1)) {
		memset(&quota.vcpus, 0, sizeof(quota.vcpus));
		vt_mask_add(&quota.vcpus, i);
		add_quota(r, &quota);
	}
}

static void add_competitor(Reader *r, const VtCompetitorPlan *competitor)
{
	VtSection *section = r->section;
	VtCompetitorPlan *larger =
		grow(r, section->competitor, section->nr_competitors, sizeof(*larger));

	if (!larger)
		return;
	section->competitor = larger;
	larger[section->nr_competitors++] = *competitor;
}

static void read_competitor(Reader *r, VtCompetitorPlan *competitor)
{
	int64_t floats = 0;
	int i, count = 0;

	competitor->on = pcpus_of(r);
	if (competitor->kind == VT_DUTY) {
		vt_optional(&r->words, &competitor->phase_ns, "phase", 6, 0, 1000000 * MS);
	} else {
		competitor->weight = VT_WEIGHT_NORMAL;
		read_weight(r, &competitor->weight);
		vt_optional(&r->words, &floats, "floating", 0, 1, 1024);
		competitor->floats = floats;
	}
	add_competitor(r, competitor);
	for (i = 0; i < r->section->nr_competitors; i++)
		count += vt_competitor_count(&r->section->competitor[i]);
	if (count > MAX_COMPETITORS)
		vt_fail(&r->words, "the section has more than %d competitors; leave some",
			MAX_COMPETITORS);
}

static void read_hog(Reader *r)
{
	read_competitor(r, &(VtCompetitorPlan){ .kind = VT_HOG });
}

static void read_on_off(Reader *r, VtKind kind)
{
	VtCompetitorPlan competitor = { .kind = kind };

	pair(r, vt_argument(&r->words), &competitor.on_ns, &competitor.off_ns);
	read_competitor(r, &competitor);
}

static void read_bursty(Reader *r)
{
	read_on_off(r, VT_BURSTY);
}

static void read_duty(Reader *r)
{
	read_on_off(r, VT_DUTY);
}

static void read_recorded(Reader *r)
{
	VtCompetitorPlan competitor = { .kind = VT_RECORDED };
	Word rest = vt_argument(&r->words);
	size_t i, pairs = 1;

	for (i = 0; i < rest.length; i++)
		pairs += rest.text[i] == ',';
	competitor.record = calloc(pairs, 2 * sizeof(int64_t));
	if (!competitor.record)
		vt_fail(&r->words, "there is no memory for the record; shorten it");
	while (!r->words.failed && competitor.nr_record < (int)(2 * pairs)) {
		int64_t *at = &competitor.record[competitor.nr_record];

		pair(r, vt_cut(&rest, ','), &at[0], &at[1]);
		competitor.nr_record += 2;
	}
	read_competitor(r, &competitor);
	if (!r->section->nr_competitors ||
	    r->section->competitor[r->section->nr_competitors - 1].record != competitor.record)
		free(competitor.record);
}

static const struct {
	const char *name;
	void (*read)(Reader *r);
	bool needs_pcpus;
} kinds[] = {
	{ "host", read_host, false },	 { "cycle", read_cycle, false },
	{ "at", read_at, false },	 { "pcpus", read_pcpus, false },
	{ "speed", read_speed, true },	 { "vcpu", read_vcpu, true },
	{ "quota", read_quota, true },	 { "hog", read_hog, true },
	{ "bursty", read_bursty, true }, { "recorded", read_recorded, true },
	{ "duty", read_duty, true },
};

static void read_line(Reader *r, Word line)
{
	size_t i;
	int w;

	vt_read_words(&r->words, line);
	if (!r->words.nr_words || r->words.failed)
		return;
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (vt_is(r->words.word[0], kinds[i].name))
			break;
	}
	if (i == sizeof(kinds) / sizeof(kinds[0])) {
		vt_fail(&r->words,
			"'%.*s' is unknown; begin with host, cycle, at, pcpus, speed, vcpu, quota, "
			"hog, bursty, recorded or duty",
			(int)r->words.word[0].length, r->words.word[0].text);
	} else if (kinds[i].needs_pcpus && !r->described) {
		vt_fail(&r->words, "'%s' comes before the section's 'pcpus'; begin with that",
			kinds[i].name);
	} else {
		kinds[i].read(r);
	}
	for (w = 1; w < r->words.nr_words; w++) {
		if (!r->words.used[w])
			vt_fail(&r->words,
				"'%.*s' does not belong to '%.*s'; see the grammar in describe.c",
				(int)r->words.word[w].length, r->words.word[w].text,
				(int)r->words.word[0].length, r->words.word[0].text);
	}
}

VtPlan *vt_plan_read(const char *text, int nr_vcpus, char *error, size_t size)
{
	Reader r = { .words = { .error = error, .size = size }, .nr_vcpus = nr_vcpus };
	Word rest = { text, strlen(text) };
	int i;

	r.plan = calloc(1, sizeof(*r.plan));
	if (!r.plan) {
		vt_fail(&r.words, "there is no memory for the description; free some");
		return NULL;
	}
	*r.plan = (VtPlan){
		.tick_ns = 1000000,
		.slice_ns = 2800000,
		.poll_max_ns = 200000,
		.poll_grow_start_ns = 10000,
		.poll_grow = 2,
		.poll_shrink = 2,
		.costs = *vt_costs_profile("posted", strlen("posted")),
	};
	add_section(&r, 0);
	while (rest.length && !r.words.failed) {
		r.words.line++;
		read_line(&r, vt_cut(&rest, '\n'));
	}
	r.words.line = 0;
	if (!r.words.failed && !r.described) {
		if (r.plan->nr_sections > 1)
			vt_fail(&r.words,
				"the last section has no 'pcpus'; describe what holds in it");
		else
			set_up_section(&r, nr_vcpus);
		for (i = 0; !r.words.failed && i < nr_vcpus; i++) {
			r.section->vcpu[i].on = (VtMask){ { 0 } };
			vt_mask_add(&r.section->vcpu[i].on, i);
		}
	}
	if (!r.words.failed && r.plan->cycle_ns && r.plan->cycle_ns < r.section->at_ns + MS)
		vt_fail(&r.words, "the cycle ends before its last section begins; make it longer");
	if (r.words.failed) {
		vt_plan_free(r.plan);
		return NULL;
	}
	return r.plan;
}

void vt_plan_free(VtPlan *plan)
{
	int i, k;

	for (i = 0; plan && i < plan->nr_sections; i++) {
		for (k = 0; k < plan->section[i].nr_competitors; k++)
			free(plan->section[i].competitor[k].record);
		free(plan->section[i].competitor);
		free(plan->section[i].quota);
	}
	if (plan)
		free(plan->section);
	free(plan);
}
