#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Handwritten digits by four sites that send some of their gradients, or coarser ones, against one
# machine that computes the same batches: 360 digits by other writers, five seeds.

bats_require_minimum_version 1.5.0

setup_file() {
	cd "$BATS_FILE_TMPDIR"
	run --separate-stderr "$srcdir/tools/make-digits" digits
	[ "$status" -ne 4 ] || skip "$stderr"
	[ "$status" -eq 0 ]
	[ -n "$LONGHAUL_GUEST_KERNEL" ] || skip "no guest kernel"
	cp "$srcdir/tests/learn/sparse.yaml" .
	learn alone --set 'nodes=[{site: gc-us, machine: gc-n1-standard-8-t4}]' \
		--set 'workload.strategy={kind: ring}' --set workload.compress=none
}

setup() {
	cd "$BATS_FILE_TMPDIR"
}

# Five seeds of the scenario, as NAME-SEED: learn NAME [OPTION...]
learn() {
	local name=$1 seed
	shift
	for seed in 1 2 3 4 5; do
		timeout --kill-after=5 300 "$LONGHAUL" run --quiet --no-figures --seed "$seed" \
			--out "$name-$seed" "$@" sparse.yaml >"$name-$seed.log"
	done
}

# The mean over the seeds is within a point of one machine's, and all ranks hold the same weights.
within_a_point() {
	python3 - "$1" <<-'END'
		import csv, glob, json, sys
		def accuracies(name):
		    return [float(list(csv.DictReader(open("%s-%d/epochs.csv" % (name, s), newline="")))[-1]
		                  ["test_accuracy"]) for s in range(1, 6)]
		ours, alone = accuracies(sys.argv[1]), accuracies("alone")
		print(sys.argv[1], ours, sum(ours) / 5, "alone", alone, sum(alone) / 5)
		assert sum(alone) / 5 > 0.93, alone
		assert sum(ours) / 5 >= sum(alone) / 5 - 0.01
		for s in range(1, 6):
		    events = [json.loads(line) for f in glob.glob("%s-%d/events/rank-*.jsonl" % (sys.argv[1], s))
		              for line in open(f)]
		    weights = [e["hash"] for e in events if e["event"] == "weights"]
		    assert len(weights) == 4 and len(set(weights)) == 1, weights
	END
}

@test "topk, one number in a hundred" {
	learn topk
	within_a_point topk
}

@test "mstopk, one number in a hundred" {
	learn mstopk --set 'workload.compress={kind: mstopk, density: 1 %}'
	within_a_point mstopk
}

# At the others' learning rate, which was the best of 0.02, 0.05 and 0.1 on the last 360 of the samples
# to train; those to test chose nothing.
@test "dgc, one number in a hundred after a warm-up" {
	learn dgc --set 'workload.compress={kind: dgc, density: 1 %, warm_up: 20}'
	within_a_point dgc
}

@test "powersgd of rank 2" {
	learn powersgd --set 'workload.strategy={kind: ring, balance: fixed}' --set workload.compress=powersgd
	within_a_point powersgd
}

@test "onebit" {
	learn onebit --set 'workload.strategy={kind: butterfly, balance: fixed, delayed_update: false}' \
		--set workload.compress=onebit
	within_a_point onebit
}
