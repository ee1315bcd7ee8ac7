#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# An overcommitted mix of everything that schedulers trip over: mix.sh SECONDS
# Ends by itself, with 0 if all of its parts did.
set -euo pipefail

seconds=$1
here=$(dirname "$0")
parts=()

part() {
	"$@" &
	parts+=($!)
}

stress() {
	part stress-ng --quiet --temp-path /tmp --timeout "$seconds" "$@"
}

messages() {
	local end=$((SECONDS + seconds))
	while ((SECONDS < end)); do
		hackbench --pipe --groups 2 --loops 100 >/dev/null
	done
}

pinned() {
	taskset -c "$1" timeout "$seconds" sh -c 'while :; do :; done' || (($? == 124))
}

stress --cpu 2 --switch 2 --fork 2 --yield 2 --affinity 2 --affinity-rand --membarrier 1
stress --sched batch --cpu 1 --switch 1 --fork 1
stress --sched idle --cpu 2 --yield 1 --switch 1
part messages
part pinned 0
part pinned 3
part python3 -S "$here/churn.py" "$seconds"
part python3 -S "$here/migrate_disabled.py" "$seconds"
part taskset -c 1 python3 -S "$here/migrate_disabled.py" "$seconds"

for pid in "${parts[@]}"; do
	wait "$pid"
done
