#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The networks that ship: they can be planned over all their sites, and DT-FM's say what is in its table.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR"
}

# Plans a node at each site of a network; the plan goes to plan.json.
plan() {
	local sites

	sites=$(sed -n '/^sites:/,/^paths:/s/^  \([a-z0-9-]*\): *{.*/\1/p' "$LONGHAUL_DATADIR/networks/$1.yaml")
	cat >scenario.yaml <<-END
		longhaul: 1
		name: $1
		network: networks/$1.yaml
		nodes: [$(printf '{site: %s, machine: lambda-a10}, ' $sites)]
		workload: {model: resnet18, target_batch: 1024, strategy: {kind: butterfly}, epochs: 1}
	END
	"$LONGHAUL" run --dry-run --json scenario.yaml >plan.json
}

# Whether the plan has that delay in ms and that rate in Mbit/s between two sites, both ways.
path_is() {
	python3 - "$@" <<-'END'
		import json, sys
		a, b, ms, mbps = sys.argv[1:]
		paths = {(p["from"], p["to"]): p for p in json.load(open("plan.json"))["network"]["paths"]}
		for ends in ((a + "/0", b + "/0"), (b + "/0", a + "/0")):
		    p = paths[ends]
		    assert p["delay_ns"] == float(ms) * 1e6 and p["bandwidth_bps"] == float(mbps) * 1e6, p
	END
}

@test "every network with paths between all its sites can be planned over them" {
	for name in google-cloud-2023 lambda-2023 regional-dtfm-2022 universities-dtfm-2022 world-dtfm-2022 \
		world-dtfm-2022-rtt; do
		echo "$name"
		plan "$name"
	done
}

@test "DT-FM's table: its delays are one way, or half a round trip in the second file" {
	plan world-dtfm-2022
	path_is oregon virginia 67 790
	path_is london ireland 12 1090
	path_is sydney frankfurt 265 328
	path_is seoul tokyo 34 1100
	python3 -c 'import json
assert len(json.load(open("plan.json"))["network"]["paths"]) == 90'
	plan world-dtfm-2022-rtt
	path_is oregon virginia 33.5 790
	plan regional-dtfm-2022
	path_is ohio california 52 1020
	plan universities-dtfm-2022
	path_is ohio virginia 11 1120
}

@test "a torus without dimensions keeps the GPUs of a node together" {
	"$LONGHAUL" run --dry-run 16x8-torus-fp16 --set workload.strategy='{kind: torus, balance: fixed}' >torus.txt
	grep -q 'dimensions \[16, 8\]' torus.txt
}
