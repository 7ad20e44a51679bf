#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Handwritten digits are learnt by parameter servers at four sites as by one machine with the same batches.

bats_require_minimum_version 1.5.0

# longhaul run of seed $2 to $1-$2: learn NAME SEED [OPTION...]
learn() {
	local name=$1 seed=$2
	shift 2
	timeout --kill-after=5 300 "$LONGHAUL" run --quiet --no-figures --out "$name-$seed" \
		--set run.seed="$seed" "$@" servers.yaml >"$name-$seed.out"
}

# Momentum is for those who step with what all have at once: gradients that come late act like it.
@test "five seeds: asgd-ga and averaging are within a point of one machine's mean accuracy" {
	[ -n "$LONGHAUL_GUEST_KERNEL" ] || skip "no guest kernel"
	cd "$BATS_TEST_TMPDIR"
	run --separate-stderr "$srcdir/tools/make-digits" digits
	[ "$status" -ne 4 ] || skip "$stderr"
	[ "$status" -eq 0 ]
	cp "$srcdir/tests/learn/servers.yaml" .
	for seed in 1 2 3 4 5; do
		learn alone "$seed" --set 'nodes=[{site: a, machine: box}]' --set 'workload.strategy={kind: ring}' \
			--set workload.train.optimizer.momentum=0.9
		learn asgd-ga "$seed"
		learn averaging "$seed" --set workload.strategy.exchange=averaging \
			--set workload.train.optimizer.momentum=0.9
	done
	python3 - <<-'EOF'
		import csv, json
		def last(run):
		    rows = list(csv.DictReader(open(run + "/epochs.csv", newline="")))
		    return float(rows[-1]["test_accuracy"])
		means = {}
		for name in ("alone", "asgd-ga", "averaging"):
		    accuracy = [last("%s-%d" % (name, seed)) for seed in range(1, 6)]
		    means[name] = sum(accuracy) / 5
		    print(name, means[name], accuracy)
		assert means["alone"] >= 0.95, means
		assert min(means.values()) >= means["alone"] - 0.01, means
		# all ranks end with the same weights, however far apart the servers were before
		hashes = [json.loads(l)["hash"] for r in range(4) for l in open("asgd-ga-1/events/rank-%d.jsonl" % r) if '"weights"' in l]
		assert len(hashes) == 4 and len(set(hashes)) == 1, hashes
	EOF
}
