#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Two ranks on one GPU learn through the emulated Atlantic: trainers on the host, the network in the
# guest, NCCL between them. Skipped with the reason where there is no GPU, or no CUDA.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR"
	check=$builddir/tests/gpu/cuda_layers_test
	[ -x "$check" ] || skip "not built: cmocka is missing (Debian package: libcmocka-dev)"
	"$check" --check >/dev/null || skip "$("$check" --check)"
	[ -n "$LONGHAUL_GUEST_KERNEL" ] || skip "no guest kernel"
	cat >atlantic.yaml <<-'END'
		longhaul: 1
		name: atlantic-gpu
		network: networks/google-cloud-2023.yaml
		nodes:
		  - {site: gc-us, machine: gc-n1-standard-8-t4}
		  - {site: gc-eu, machine: gc-n1-standard-8-t4}
		workload:
		  model: lenet5
		  mode: train
		  train:
		    data: {kind: synthetic-images, samples: 1024, test_samples: 250}
		    optimizer: {kind: adamw, lr: 0.002}
		    device: cuda
		  compute: {samples_per_s: 3000}
		  micro_batch: 32
		  target_batch: 64
		  compress: none
		  transport: nccl
		  epochs: 30
		  strategy: {kind: ring}
		pricing: {catalog: prices/2023-04.yaml}
		run: {nodes: host, clock: real, fitness: {timer_lateness: 0 ms, rate_headroom: 0}}
	END
}

# Runs the scenario and checks that it has learnt, and that both ranks hold the same weights.
learn() {
	timeout --kill-after=5 300 "$LONGHAUL" run --quiet --no-figures --out "$1" "${@:2}" atlantic.yaml
	python3 - "$1" <<-'END'
		import csv, glob, json, sys
		rows = list(csv.DictReader(open(sys.argv[1] + "/epochs.csv", newline="")))
		assert float(rows[-1]["test_accuracy"]) > 0.5, rows[-1]
		hashes = {json.loads(l)["hash"] for f in glob.glob(sys.argv[1] + "/events/rank-*.jsonl")
		          for l in open(f) if '"weights"' in l}
		assert len(hashes) == 1, hashes
	END
}

@test "two ranks on one GPU learn across the Atlantic through NCCL" {
	learn nccl
	grep -q 'NET/Socket' nccl/events/rank-0.log || echo "NCCL said nothing of its sockets"
}

@test "the same over the trainers' own connections" {
	learn tcp --set workload.transport=tcp
}

@test "bf16 learns, too" {
	learn bf16 --set workload.train.precision=bf16
}
