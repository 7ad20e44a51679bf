#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# How far a network reaches: 256 nodes, what they take of the guest's memory, and which of many
# paths are probed.

bats_require_minimum_version 1.5.0
load run

setup() {
	cd "$BATS_TEST_TMPDIR"
	. "$srcdir/bench/mesh.sh"
}

# used_kib SITES NODES_A_SITE [PATH_KEYS]: the guest's memory in use when the network stands
used_kib() {
	mesh "$@" >mesh.yaml
	timeout 300 "$LONGHAUL" exec --no-probe --node s0/0 mesh.yaml -- cat /proc/meminfo 2>err |
		awk '$1 == "MemTotal:" { t = $2 } $1 == "MemFree:" { f = $2 } END { print t - f }'
}

@test "256 nodes take at most 1 MiB of the guest's memory each" {
	few=$(used_kib 2 1)
	many=$(used_kib 16 16)
	echo "$few KiB of 2 nodes, $many KiB of 256"
	[ "$((many - few))" -gt 0 ]
	[ "$(((many - few) / 254))" -le 1024 ]
}

@test "jitter with one table for all paths does not change that" {
	few=$(used_kib 2 1)
	many=$(used_kib 64 1 ', jitter: 1 ms')
	echo "$few KiB of 2 nodes, $many KiB of 64"
	[ "$(((many - few) / 62))" -le 1024 ]
}

@test "all of 256 nodes run a program, and the first reaches the last" {
	mesh 16 16 >mesh.yaml
	timeout 500 "$LONGHAUL" exec --no-probe --all mesh.yaml -- \
		sh -c 'if [ $RANK = 0 ]; then ping -c 1 -W 10 s15-15; fi; echo "$RANK of $WORLD_SIZE"' >out
	[ "$(grep -c ' of 256$' out)" -eq 256 ]
	[ "$(sed 's/.*: //' out | sort -u | grep -c ' of 256$')" -eq 256 ]
	grep -q '1 received' out || grep -q 'not found' out
}

@test "of more than 1,024 pairs of sites so many are probed for throughput, round trips of all" {
	mesh 33 1 >mesh.yaml
	sed -i 's/stream_window: 500 kB/stream_window: 100 kB/' mesh.yaml
	timeout 300 "$LONGHAUL" exec --out out mesh.yaml -- true
	[ "$(grep -c '^rtt,' out/links.csv)" -eq $((33 * 32)) ]
	[ "$(grep -c '^throughput,' out/links.csv)" -eq 1024 ]
	[ "$(awk -F, 'NR > 1 && $14 != "yes"' out/links.csv | wc -l)" -eq 0 ]
}

@test "more trainers than can all be connected are refused, with the number" {
	run -3 "$LONGHAUL" run --out out --set nodes.0.count=128 "$srcdir/tests/guest/small.yaml"
	[[ $output == *"129 ranks with a trainer each, every two connected; expected at most 128"* ]]
	[ ! -e out ]
}

@test "ranks of a hierarchy with a fixed balance are connected only with those they average with" {
	timeout --kill-after=5 240 "$LONGHAUL" run --quiet --no-figures --out out --set nodes.0.count=8 \
		--set workload.target_batch=512 "$LONGHAUL_DATADIR/hierarchical-32x8.yaml"
	check out <<-'END'
		assert engine["status"] == "done", engine["message"]
		d, nodes, each = 102401, 8, 8
		payload = {r["to"]: int(r["payload_bytes"]) for r in rows("traffic.csv")}
		assert payload["(inside node)"] == nodes * 2 * (each - 1) * 4 * d, payload
		assert payload["zone"] == 2 * (nodes - 1) * 4 * d, payload
		averages = list(events("average"))
		assert len(averages) == 64 and all(a["group_samples"] == 512 for a in averages), averages
		peers = {}
		for e in events("connection"):
		    peers.setdefault(e["rank"], set()).add(e["peer"])
		assert len(peers) == 64 and max(map(len, peers.values())) <= (each - 1) + (nodes - 1), peers
	END
}

@test "256 ranks that are all connected are refused, with what to do" {
	for strategy in 'kind: ring' 'kind: butterfly, balance: fixed' 'kind: hierarchical, balance: dynamic'; do
		run -3 "$LONGHAUL" run --out out --set "workload.strategy={$strategy}" "$LONGHAUL_DATADIR/hierarchical-32x8.yaml"
		[[ $output == *"256 ranks with a trainer each, every two connected; expected at most 128"* ]]
		[ ! -e out ]
	done
}
