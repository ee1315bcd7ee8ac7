#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Mixed load until the file OVER is there: soak.sh OVER. Ends with 0 if all of its parts did. Prints what
# cgroup_churn.py tells. Each part rests for most of the time, so that little has to be emulated.
set -euo pipefail

over=$1
here=$(dirname "$0")
parts=()

# repeat REST_S COMMAND...: again and again, in the background, with a rest of up to twice that between.
repeat() {
	local rest_s=$1
	shift
	{ until [ -e "$over" ]; do
		"$@" || exit
		sleep "$((RANDOM * 2 * rest_s / 32768)).$((RANDOM % 10))"
	done; } &
	parts+=($!)
}

spin() {
	timeout 2 sh -c 'while :; do :; done' || (($? == 124))
}

repeat 60 spin
repeat 1 sleep 0.1
repeat 60 python3 -S "$here/cgroup_churn.py" 1 # tasks that compute and sleep, in cgroups with limits
repeat 60 python3 -S "$here/fork_chain.py" 0 1 >/dev/null
repeat 30 hackbench --pipe --groups 1 --loops 20 >/dev/null

for pid in "${parts[@]}"; do
	wait "$pid"
done
