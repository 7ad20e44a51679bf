#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Boots of the guest in a row, some of them killed at any moment: nothing is left of them.

bats_require_minimum_version 1.5.0
load run

@test "of boots that are killed at random moments nothing is left, on the machine or in the folder" {
	run timeout 300 "$srcdir/bench/boots" 20 8
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"20 boots, "[1-9]*" killed, nothing left behind" ]]
}

@test "a run clears away what a killed run has left, and nothing of one that lives" {
	cd "$BATS_TEST_TMPDIR"
	mkdir -p results/other.partial-a results/killed.partial-abcdef results/young.partial-abcdef
	touch results/killed.partial-abcdef/run.json
	timeout 60 "$LONGHAUL" exec --out results/living "$srcdir/tests/guest/small.yaml" \
		-- sleep 1000000000 >/dev/null 2>&1 &
	living=$!
	wait_for 30 eval 'ls results/living.partial-*/run.json >/dev/null 2>&1'
	timeout 60 "$LONGHAUL" exec --no-probe --out results/next "$srcdir/tests/guest/small.yaml" -- true
	ls results
	[ ! -e results/killed.partial-abcdef ]
	[ -e results/other.partial-a ]      # not a name of ours
	[ -e results/young.partial-abcdef ] # perhaps about to be one
	ls results/living.partial-*/run.json
	kill -TERM "$living"
	wait "$living" || true
}
