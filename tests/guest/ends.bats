#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# How a run ends when something ends it: by signals, from outside and from inside. Nothing of
# the guest outlives the program.

bats_require_minimum_version 1.5.0
load run

setup() {
	command -v prlimit >/dev/null || skip "prlimit is not installed (Debian package: util-linux)"
	own_kernel
	cd "$BATS_TEST_TMPDIR"
	mkdir home
	export HOME=$BATS_TEST_TMPDIR/home
	mounts=$(cat /proc/self/mountinfo | wc -l)
}

teardown() {
	local pid
	for pid in $running $(processes_of "$LONGHAUL_GUEST_KERNEL"); do
		kill -KILL "$pid" 2>/dev/null || true
	done
}

# Starts a run of a million epochs and waits until the first is done.
start() {
	# a shell starts what it does not wait for with SIGINT ignored
	env --default-signal=INT,TERM "$LONGHAUL" run --quiet --no-figures --out out \
		--set workload.epochs=1000000 "$srcdir/tests/guest/small.yaml" >stdout 2>stderr &
	running=$!
	wait_for 30 first_epoch_done
	[ -n "$(processes_of "$LONGHAUL_GUEST_KERNEL")" ]
}

first_epoch_done() {
	grep -qs '"event":"epoch"' out.partial-*/events/rank-0.jsonl
}

# Waits for the run's end, at most 30 s; its exit status is then $status.
finish() {
	status=0
	wait_for 30 eval '! kill -0 "$running" 2>/dev/null'
	wait "$running" || status=$?
	running=
	echo "status $status"
	cat stderr
	wait_for 10 no_guest_left
	[ -z "$(ls -A "$HOME")" ]
	[ "$(cat /proc/self/mountinfo | wc -l)" -eq "$mounts" ]
}

assert_finished_epochs_are_there() {
	[ -z "$(ls -d out.* 2>/dev/null)" ]
	grep -q '"status": "stopped"' out/run.json
	[ "$(wc -l <out/epochs.csv)" -ge 2 ]
	[ -e out/throughput.csv ] && [ -e out/links.csv ] && [ -e out/cost.csv ]
}

# rows 50, 51
@test "SIGINT ends a run with status 130 and the tables of the finished epochs" {
	start
	kill -INT "$running"
	finish
	[ "$status" -eq 130 ]
	assert_finished_epochs_are_there
}

@test "SIGTERM ends a run with status 143 and the tables of the finished epochs" {
	start
	kill -TERM "$running"
	finish
	[ "$status" -eq 143 ]
	assert_finished_epochs_are_there
}

# rows 48, 51
@test "SIGKILL takes the whole guest along" {
	start
	kill -KILL "$running"
	finish
	[ "$status" -eq 137 ]
	[ ! -e out ]
}

@test "a guest that is killed is status 1, said in words" {
	start
	# the kernel is the child of the program; its processes are children of it
	kernel=$(ps -o pid= --ppid "$running" | tr -d ' ')
	[ "$(readlink "/proc/$kernel/exe")" = "$LONGHAUL_GUEST_KERNEL" ]
	kill -KILL "$kernel"
	finish
	[ "$status" -eq 1 ]
	[[ $(cat stderr) == *"the guest was killed by signal 9"* ]]
	grep -q '"status": "failed"' out/run.json # with the epochs that were finished
}

@test "a process of the guest that is killed ends the run, said in words" {
	start
	kernel=$(ps -o pid= --ppid "$running" | tr -d ' ')
	inner=$(ps -o pid= --ppid "$kernel" | tail -n 1 | tr -d ' ')
	[ -n "$inner" ] || skip "the guest's processes are not children of its kernel"
	kill -KILL "$inner"
	finish
	[ "$status" -eq 1 ]
	[[ $(cat stderr) == *"longhaul: "* ]]
	grep -q '"status": "failed"' out/run.json
}

@test "a trainer that cannot start is status 1, and its files are kept" {
	printf '#!/bin/sh\necho "this trainer has no wish to train" >&2\nexit 7\n' >trainer
	chmod +x trainer
	LONGHAUL_TRAINER=$PWD/trainer run -1 "$LONGHAUL" run --quiet --no-figures --out out "$srcdir/tests/guest/small.yaml"
	[[ $output == *"ended with status 7"*"rank-0.log"* ]]
	[ ! -e out ]
	grep -q 'no wish to train' out.failed/events/rank-0.log
}

@test "a trainer that is killed is status 1, by its signal" {
	printf '#!/bin/sh\nkill -SEGV $$\n' >trainer
	chmod +x trainer
	LONGHAUL_TRAINER=$PWD/trainer run -1 "$LONGHAUL" run --quiet --no-figures --out out "$srcdir/tests/guest/small.yaml"
	[[ $output == *"was killed by signal 11"* ]]
}

@test "a guest with too little memory ends with an error, not with a hang" {
	run timeout 60 "$LONGHAUL" run --quiet --no-figures --out out \
		--set run.guest_memory='256 MiB' --set models.tiny.parameters=100000000 \
		--set workload.epochs=1 "$srcdir/tests/guest/small.yaml"
	echo "$output"
	[ "$status" -ne 124 ] && [ "$status" -ne 137 ]
	[ "$status" -ne 0 ] || [ -e out/throughput.csv ]
}
