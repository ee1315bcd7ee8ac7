// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prints what the scheduler that is loaded has counted as stolen, and when:
 * {"at_ns": CLOCK_MONOTONIC, "stolen_ns": [one per vCPU]}
 */
#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include "../../../../../bpf/intf.h"

#define MAP "vcpu_activity"

static int open_map(struct bpf_map_info *info)
{
	__u32 id = 0;

	while (!bpf_map_get_next_id(id, &id)) {
		__u32 size = sizeof(*info);
		int map = bpf_map_get_fd_by_id(id);

		memset(info, 0, sizeof(*info));
		if (map >= 0 && !bpf_obj_get_info_by_fd(map, info, &size) &&
		    !strcmp(info->name, MAP))
			return map;
		if (map >= 0)
			close(map);
	}
	return -1;
}

int main(void)
{
	struct bpf_map_info info;
	int map = open_map(&info);
	struct timespec now;
	char *value;

	if (map < 0 || info.value_size < sizeof(struct vaware_activity)) {
		fprintf(stderr, "there is no map " MAP "; load scx_vaware first\n");
		return 1;
	}
	value = malloc(info.value_size);
	if (!value)
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &now);
	printf("{\"at_ns\":%llu,\"stolen_ns\":[", now.tv_sec * 1000000000ull + now.tv_nsec);
	for (__u32 vcpu = 0; vcpu < info.max_entries; vcpu++) {
		if (bpf_map_lookup_elem(map, &vcpu, value))
			return 1;
		printf("%s%llu", vcpu ? "," : "", ((struct vaware_activity *)value)->stolen_ns);
	}
	printf("]}\n");
}
