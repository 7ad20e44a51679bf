#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Four sites learn the handwritten digits as well as one machine does, to within a point: the mean test
# accuracy of three seeds, a strategy and compressor a test. bench/learning has five seeds and more of them.

bats_require_minimum_version 1.5.0

seeds=(1 2 3)

# The test accuracies of one machine, with as many samples a step and the same model.
alone() {
	for seed in "${seeds[@]}"; do
		"$LONGHAUL" train resnet20 --data mnist:digits --set image=8 --set channels=1 --set width=16 \
			--set stage1=1 --set stage2=1 --set stage3=0 --epochs 30 --batch 32 --lr 0.05 \
			--weight-decay 0.002 --evaluate 1000 --seed "$seed" --threads 1 --quiet --json --no-figures \
			--out "alone-$seed" | python3 -c 'import json, sys; print(json.load(sys.stdin)["test"]["accuracy"])'
	done
}

# reaches STRATEGY COMPRESSOR: its mean is at most a point below one machine's
reaches() {
	for seed in "${seeds[@]}"; do
		timeout --kill-after=5 200 "$LONGHAUL" run --quiet --no-figures --seed "$seed" --out "run-$seed" \
			--set "workload.strategy=$1" --set "workload.compress=$2" \
			--set "workload.train.data.path=$PWD/digits" "$srcdir/tests/learn/strategies.yaml" >"run-$seed.out"
	done
	python3 - "$BATS_FILE_TMPDIR/alone" "${seeds[@]}" <<-'END'
		import csv, sys
		alone = [float(line) for line in open(sys.argv[1])]
		ours = [float(list(csv.DictReader(open("run-%s/epochs.csv" % s, newline="")))[-1]["test_accuracy"])
		        for s in sys.argv[2:]]
		print("alone", alone, "four sites", ours)
		assert len(alone) == len(ours) == 3
		assert min(alone) > 0.95, alone
		assert sum(ours) / 3 >= sum(alone) / 3 - 0.01, (ours, alone)
	END
}

setup_file() {
	command -v python3 >/dev/null || skip "python3 is not installed (Debian package: python3)"
	[ -n "$LONGHAUL_GUEST_KERNEL" ] || skip "no guest kernel"
	cd "$BATS_FILE_TMPDIR"
	run --separate-stderr "$srcdir/tools/make-digits" digits
	[ "$status" -ne 4 ] || skip "$stderr"
	[ "$status" -eq 0 ]
	alone >alone
}

setup() {
	cd "$BATS_TEST_TMPDIR"
	ln -s "$BATS_FILE_TMPDIR/digits" digits
}

@test "local SGD, eight steps apart" {
	reaches '{kind: local-sgd, period: 8}' none
}

@test "DiLoCo, twenty steps apart, in 8 bits" {
	reaches '{kind: diloco, period: 20}' uniform8
}
