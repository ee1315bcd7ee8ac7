// SPDX-License-Identifier: GPL-2.0-only
/* Costs of virtualization, as published. */
#include <string.h>

#include "plan.h"

static const struct {
	const char *name;
	VtCosts costs;
} profiles[] = {
	{ "none", { 0 } },
	{ "posted",
	  { .halt_ns = 1000,
	    .wake_ns = 5000,
	    .wake_polled_ns = 1000,
	    .host_switch_ns = 2000,
	    .ipi_ns = 200,
	    .ipi_latency_ns = 600,
	    .timer_ns = 700 } },
	{ "exits",
	  { .halt_ns = 1000,
	    .wake_ns = 6000,
	    .wake_polled_ns = 1500,
	    .host_switch_ns = 2000,
	    .ipi_ns = 1500,
	    .ipi_latency_ns = 2500,
	    .timer_ns = 1200 } },
};

const VtCosts *vt_costs_profile(const char *name, size_t length)
{
	size_t i;

	for (i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++) {
		if (strlen(profiles[i].name) == length && !memcmp(profiles[i].name, name, length))
			return &profiles[i].costs;
	}
	return NULL;
}
