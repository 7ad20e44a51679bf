#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# longhaul profile: measured speeds, and a scenario that replays them.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR"
}

profile() {
	"$LONGHAUL" profile --quiet --threads 1 --seconds 0.2 "$@"
}

@test "a profile is one that a scenario replays" {
	run -0 --separate-stderr profile lenet5 --batch 4,16 -o profiles/my-cpu.yaml
	echo "$output"
	[[ ${lines[0]} == *micro-batch*samples/s*load\ ms*forward\ ms*backward\ ms*update\ ms*memory\ MB* ]]
	[[ $output == *"Profile: profiles/my-cpu.yaml"* ]]
	cat profiles/my-cpu.yaml
	grep -q '^profile: "my-cpu"$' profiles/my-cpu.yaml
	sed -e '/^profiles:/,$d' -e 's/model: tiny/model: lenet5/' -e 's/gpu: gpu/gpu: my-cpu/' \
		"$srcdir/tests/guest/small.yaml" >scenario.yaml
	run -0 "$LONGHAUL" run --dry-run --json scenario.yaml
	python3 - <<-EOF
		import json, re
		text = open("profiles/my-cpu.yaml").read()
		speed = float(re.search(r"lenet5: {micro_batch: (?:4|16), samples_per_s: ([0-9.e+]+),", text)[1])
		ranks = json.loads('''$output''')["trainer"]["ranks"]
		assert len(ranks) == 3 and all(r["samples_per_s"] == speed for r in ranks), (speed, ranks)
	EOF
}

@test "a profile goes to standard output where no file is named, and never over a file" {
	run -0 --separate-stderr profile lenet5 --batch 4 --name here
	[[ $output == *'profile: "here"'* ]]
	echo mine >there.yaml
	run -2 profile lenet5 --batch 4 --out there.yaml
	[[ $output == *"there.yaml exists; profiles are never overwritten"* ]]
	[ "$(cat there.yaml)" = mine ]
}

@test "measurements as JSON have every part of a step with its spread, and the memory" {
	run -0 --separate-stderr profile lenet5 --batch 4 --json
	python3 - <<-EOF
		import json
		m, = json.loads('''$output''')["measurements"]
		t = m["times"]
		assert set(t) == {"load", "forward", "backward", "update", "micro_batch"}, t
		assert all(0 < p["p10_s"] <= p["median_s"] <= p["p90_s"] for p in t.values()), t
		assert m["micro_batch"] == 4 and m["steps"] >= 10
		# the mean of sums is the sum of means
		assert abs(t["micro_batch"]["mean_s"] - sum(t[p]["mean_s"] for p in ("load", "forward", "backward"))) < 1e-9
		assert abs(m["samples_per_s"] - 4 / t["micro_batch"]["mean_s"]) < 1e-6 * m["samples_per_s"]
		assert m["peak_bytes"] > m["memory"]["sum_bytes"] > 0 and m["device"]["name"] == "cpu"
	EOF
}

@test "wrong usage, wrong models and missing devices are told" {
	run -2 "$LONGHAUL" profile
	run -2 "$LONGHAUL" profile lenet5 lenet5
	run -2 "$LONGHAUL" profile lenet5 --batch 0
	run -2 "$LONGHAUL" profile lenet5 --batch 4,
	run -2 "$LONGHAUL" profile lenet5 --seconds 0
	run -2 "$LONGHAUL" profile lenet5 -x
	run -2 "$LONGHAUL" profile lenet5 -o
	run -3 "$LONGHAUL" profile lenett
	[[ $output == *"did you mean lenet5?"* ]]
	run -3 "$LONGHAUL" profile lenet5 --data text:/etc/passwd
	run -4 profile resnet152 --batch 1000000 -o big.yaml
	[ ! -e big.yaml ]
	"$LONGHAUL_LEARNER" --about | grep -q '"name":"cuda","processor"' && skip "this machine has a GPU"
	run -4 profile lenet5 --device cuda -o gpu.yaml
	[ ! -e gpu.yaml ]
}
