#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a path can be asked to do to packets, measured: jitter, loss, duplicates, damage,
# reordering, queues. `row N` is one of "What users of such tools ran into" in docs/emulation.md.

bats_require_minimum_version 1.5.0
load run

setup() {
	need_python
	cd "$BATS_TEST_TMPDIR"
}

# Proves the small scenario with two nodes, one at each site: prove OUT KEY=VALUE... of the path.
prove() {
	local out=$1 options=()
	shift
	for change; do
		options+=(--set "network.paths.0.$change")
	done
	timeout "$run_limit_s" "$LONGHAUL" verify --quiet --out "$out" --sample "${sample:-2}" "${options[@]}" \
		--set nodes='[{site: east, machine: box}, {site: west, machine: box}]' \
		"$srcdir/tests/guest/small.yaml" >"$out.txt"
}

# The rows of a proof for python on standard input, as rows(PROPERTY).
proof() {
	python3 -c '
import csv, json, math, os, sys
table = list(csv.DictReader(open(os.path.join(sys.argv[1], "verify.csv"))))
def rows(name):
    found = [dict(r, target=float(r["target"]), achieved=float(r["achieved"])) for r in table if r["property"] == name]
    assert found, name
    return found
assert all(r["ok"] == "yes" for r in table), table
exec(sys.stdin.read())' "$1"
}

# rows 16, 17, 18
@test "jitter has the asked mean, deviation and shape, and keeps the order" {
	for distribution in normal uniform pareto paretonormal; do
		sample=1 prove $distribution jitter='2 ms' jitter_distribution=$distribution
		proof $distribution <<-'END'
			assert len(rows("jitter")) == len(rows("jitter-shape")) == len(rows("delay-mean")) == 1
			for r in rows("jitter"):
			    assert r["target"] == 2 or abs(r["target"] - 2) < 0.001, r
			# far apart and back to back
			assert len(rows("overtaken")) == 2 and not any(r["achieved"] for r in rows("overtaken"))
		END
	done
}

@test "jitter follows samples from a file" {
	# two humps, 3 and 9 ms above nothing
	python3 -c '
print("delay_ms")
for i in range(600): print(3 + i % 100 / 100)
for i in range(300): print(9 + i % 50 / 50)' >humps.csv
	cp "$srcdir/tests/guest/small.yaml" sampled.yaml
	sed -i 's/rtt: 40 ms,/rtt: 40 ms, jitter_samples: humps.csv,/' sampled.yaml
	timeout "$run_limit_s" "$LONGHAUL" verify --quiet --out humps --sample 2 sampled.yaml
	proof humps <<-'END'
		samples = [3 + i % 100 / 100 for i in range(600)] + [9 + i % 50 / 50 for i in range(300)]
		mean = sum(samples) / 900
		sd = math.sqrt(sum((x - mean) ** 2 for x in samples) / 900)
		for r in rows("jitter"):
		    assert abs(r["target"] / sd - 1) < 0.01, (r, sd)
		rows("jitter-shape")
	END
	# what was read stands in the run, so that a rerun needs no file
	python3 -c '
import json
paths = json.load(open("humps/run.json"))["scenario"]["network"]["paths"]
assert len(paths[0]["jitter_samples"]) == 900, paths'
}

# row 39
@test "independent losses are as many as asked, and independent" {
	sample=1 prove iid loss='0.5 %'
	proof iid <<-'END'
		for r in rows("loss"):
		    assert r["target"] == 0.005 or abs(r["target"] - 0.005) < 1e-9
		    assert int(r["packets"]) >= 50000, r
		for r in rows("loss-burst"):
		    assert 1 <= r["achieved"] < 1.05, r
	END
}

# row 29
@test "losses in bursts have the asked share and length" {
	sample=1 prove bursts loss='2 %' loss_burst=4
	proof bursts <<-'END'
		for r in rows("loss"):
		    assert abs(r["target"] - 0.02) < 1e-8 and abs(r["achieved"] / 0.02 - 1) < 0.25, r
		for r in rows("loss-burst"):
		    assert abs(r["target"] - 4) < 1e-6 and abs(r["achieved"] / 4 - 1) < 0.2, r
	END
}

# rows 9, 19, 25, 43
@test "duplicates, damage, reordering, loss, jitter and rate go together" {
	sample=1 prove all duplicate='1 %' corrupt='2 %' reorder='1 %' loss='1 %' jitter='1 ms'
	proof all <<-'END'
		for name in "duplicate", "corrupt", "reorder", "loss":
		    assert len(rows(name)) == 1
		    assert all(r["achieved"] > 0.005 for r in rows(name)), rows(name)
		rows("jitter-shape")
		rows("rate")
	END
}

# rows 4, 6, 45
@test "a full queue holds what is written, in any measure" {
	prove time queue='50 ms'
	prove packets queue='100 packets'
	prove bytes queue='500 kB'
	prove bdp queue='0.5 BDP'
	for queue in time:50 packets:6.056 bytes:20 bdp:20; do
		proof ${queue%:*} <<-END
			for r in rows("queue"):
			    assert abs(r["target"] - ${queue#*:}) < 0.001, r
			    assert abs(r["achieved"] - r["target"]) < 0.5, r
		END
	done
}

# row 39
@test "TCP's super-packets are lost packet by packet" {
	small lossy --set network.paths.0.loss='1 %' --set network.stream_window='500 kB' --set workload.epochs=1
	check lossy <<-'END'
		# without losses this path's packets come in eights
		assert all(p["splits_segments"] == ("west" in p["from"] + p["to"]) for p in plan["paths"])
		last = {}
		for r in rows("counters.csv"):
		    last[r["from"], r["to"]] = r
		far = [r for pair, r in last.items() if ("west" in pair[0]) != ("west" in pair[1])]
		lost = sum(int(r["dropped_packets"]) for r in far)
		n = lost + sum(int(r["wire_packets"]) for r in far)
		assert n > 5000, n
		assert abs(lost - 0.01 * n) < 3.3 * math.sqrt(0.01 * 0.99 * n), (lost, n)
	END
}

@test "what a path was asked to lose explains retransmissions, and nothing else does" {
	small lossy --set network.paths.0.loss='1 %' --set workload.epochs=1
	check lossy <<-'END'
		assert engine["status"] == "done", engine
		assert engine["explained"]["path_losses"] > 20 and engine["explained"]["retransmits"] > 20, engine
		assert not any(engine["unexplained"].values()), engine
	END
}

# row 57
@test "loss and jitter repeat with the seed" {
	local options=(--set network.paths.0.loss='0.5 %' --set network.paths.0.jitter='2 ms' --set workload.epochs=1)
	small one "${options[@]}"
	small two "${options[@]}"
	small other "${options[@]}" --seed 2
	for file in counters epochs links traffic; do
		cmp one/$file.csv two/$file.csv
	done
	run ! cmp one/counters.csv other/counters.csv
	check one <<-'END'
		seeds = [p["seed"] for p in plan["paths"] if "seed" in p]
		assert len(seeds) == len(set(seeds)) == 4, seeds
	END
}
