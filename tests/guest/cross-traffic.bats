#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What others send through a path's and a site's bottleneck: as much as was asked for, through the
# same queue as everything else, in no node and in no count of ours.

bats_require_minimum_version 1.5.0
load run

setup() {
	need_python
	cd "$BATS_TEST_TMPDIR"
	cat >crossed.yaml <<-'END'
		longhaul: 1
		name: crossed
		network:
		  network: crossed
		  sites:
		    east: {provider: on-premise, continent: europe}
		    west:
		      provider: on-premise
		      continent: europe
		      uplink: {bandwidth: 40 Mbit/s, cross_traffic: {mean: 4 Mbit/s, flow: 50 kB}}
		      downlink: {bandwidth: 40 Mbit/s, cross_traffic: {mean: 8 Mbit/s, flow: 50 kB}}
		  paths:
		    - between: [east, west]
		      rtt: 20 ms
		      bandwidth: 20 Mbit/s
		      cross_traffic: {mean: 6 Mbit/s, flow: 60 kB, peak: 12 Mbit/s}
		      measured: [{from: east, to: west, throughput: 10 Mbit/s, sd: 9 Mbit/s}]
		nodes:
		  - {site: east, machine: generic}
		  - {site: west, machine: generic}
		workload: {command: ["true"]}
	END
}

crossed() {
	local out=$1
	shift
	timeout "$run_limit_s" "$LONGHAUL" exec --out "$out" "$@"
}

@test "cross traffic has its mean, passes the bottleneck, and is counted apart" {
	crossed out --no-probe crossed.yaml -- sleep 60
	check out <<-'END'
		asked = {("east/0", "west/0"): 6, ("west/0", "east/0"): 6, ("west", "up"): 4, ("west", "down"): 8}
		found = engine["cross_traffic"]
		assert len(found) == 4, found
		for c in found:
		    mean = asked[c.get("from") or c["site"], c.get("to") or c["direction"]]
		    assert c["mean_bps"] == mean * 1e6
		    # flows of exponential size: sqrt(16 m F / T)
		    sd = math.sqrt(16 * mean * (0.06 if "from" in c else 0.05) / 60)
		    assert abs(c["sent_bytes"] * 8 / 60e6 - mean) < 4 * sd, c
		    assert 0.97 * c["sent_bytes"] < c["passed_bytes"] <= c["sent_bytes"], c
		assert engine["status"] == "done" and not any(engine["unexplained"].values()), engine
		# nothing of it is traffic of the nodes, all of it passes the site's links
		assert all(int(r["wire_bytes"]) < 3000 for r in rows("counters.csv")), rows("counters.csv")
		down = engine["site_links"][0]["down"]["wire_bytes"]
		assert abs(down / next(c["passed_bytes"] for c in found if c.get("direction") == "down") - 1) < 0.01
	END
}

@test "a stream gets what cross traffic leaves, and less where it stands in the queue" {
	crossed with --set run.probe=full crossed.yaml -- true
	crossed without --set run.probe=full --set 'network.paths.0.cross_traffic.mean=8 bit/s' crossed.yaml -- true
	python3 - <<-'END'
		import csv
		def achieved(out):
		    return [float(r["achieved"]) for r in csv.DictReader(open(out + "/links.csv")) if r["kind"] == "throughput"][0]
		left, all = achieved("with"), achieved("without")
		print(left, all)
		assert all > 0.9 * 20 * 1448 / 1514
		assert 0.6 * 14 < left < 1.15 * 14, left
	END
}

@test "the seed decides when flows begin" {
	for run in a b; do
		crossed $run --no-probe --seed 5 crossed.yaml -- sleep 10
	done
	crossed c --no-probe --seed 6 crossed.yaml -- sleep 10
	cmp a/engine.json b/engine.json
	cmp a/counters.csv b/counters.csv
	! cmp -s a/engine.json c/engine.json
}

@test "a proof is of the network without it" {
	timeout "$run_limit_s" "$LONGHAUL" verify --quiet --out proof --set 'network.paths.0.cross_traffic={mean: 6 Mbit/s}' \
		"$srcdir/tests/guest/small.yaml"
	! grep -v ',yes$' proof/verify.csv | grep -v ^property
}
