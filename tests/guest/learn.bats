#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Models that really learn, in every rank of an emulated network, in virtual time.

bats_require_minimum_version 1.5.0
load run

# longhaul run with the learning scenario: learn OUT [OPTION...]
learn() {
	local to=$1
	shift
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" run --quiet --no-figures --out "$to" "$@" \
		"$srcdir/tests/guest/learn.yaml"
}

# One rank that computes each of the four's share of a batch, one after another.
alone() {
	learn "$1" --set 'nodes=[{site: gc-us, machine: gc-n1-standard-8-t4}]'
}

setup_file() {
	load run
	need_python
	[ -n "$LONGHAUL_GUEST_KERNEL" ] || skip "no guest kernel"
	cd "$BATS_FILE_TMPDIR"
	learn ring >ring.out
	alone alone >alone.out
}

setup() {
	cd "$BATS_FILE_TMPDIR"
}

@test "four continents learn together, and all hold the same weights" {
	check ring <<-'END'
		epochs = rows("epochs.csv")
		assert len(epochs) == 30
		assert all(int(r["samples"]) == 64 for r in epochs), epochs
		assert float(epochs[-1]["test_accuracy"]) > 0.8, epochs[-1]
		assert [r["epoch"] for r in epochs if r["test_loss"]] == ["14", "29"], epochs
		weights = [e["hash"] for e in events("weights")]
		assert len(weights) == 4 and len(set(weights)) == 1, weights
	END
}

@test "a second run gives the same bytes" {
	learn again >again.out
	for file in ring/*.csv ring/trainer.json ring/events/*; do
		cmp "$file" "again/${file#ring/}"
	done
}

# With one order of samples for all, the four see in an epoch what one sees in four
# micro-batches: losses and weights differ by rounding alone.
@test "four ranks learn what one rank learns from the same samples" {
	python3 - <<-'END'
		import csv
		def losses(out):
		    rows = list(csv.DictReader(open(out + "/epochs.csv", newline="")))
		    return [float(r["loss"]) for r in rows], float(rows[-1]["test_loss"])
		(ring, ring_test), (alone, alone_test) = losses("ring"), losses("alone")
		assert len(ring) == len(alone) == 30
		for a, b in zip(ring, alone):
		    assert abs(a - b) <= 2e-5 * (1 + abs(b)), (a, b)
		assert abs(ring_test - alone_test) <= 2e-5, (ring_test, alone_test)
	END
}

@test "every epoch sends what the ring's formula says" {
	check ring <<-'END'
		for epoch in range(30):
		    sent = sum(e["payload_sent_bytes"] for e in events("average") if e["epoch"] == epoch)
		    assert sent == 2 * 3 * 61706 * 4, (epoch, sent)
	END
}

@test "a late update learns more slowly from as many samples" {
	learn late --set 'workload.strategy={kind: butterfly}' --set workload.compress=fp16 >late.out
	check late <<-'END'
		weights = [e["hash"] for e in events("weights")]
		assert len(weights) == 4 and len(set(weights)) == 1, weights
		late = rows("epochs.csv")
		prompt = list(csv.DictReader(open("ring/epochs.csv", newline="")))
		assert float(late[-1]["test_loss"]) > float(prompt[-1]["test_loss"])
		assert float(late[-1]["test_loss"]) < float(late[14]["test_loss"])
	END
}

@test "sites with unlike labels" {
	learn skewed --set workload.train.data.skew=0.2 >skewed.out
	check skewed <<-'END'
		weights = [e["hash"] for e in events("weights")]
		assert len(weights) == 4 and len(set(weights)) == 1, weights
		even = list(csv.DictReader(open("ring/epochs.csv", newline="")))
		assert rows("epochs.csv")[0]["loss"] != even[0]["loss"]
		assert float(rows("epochs.csv")[-1]["test_accuracy"]) > 0.5
	END
}
