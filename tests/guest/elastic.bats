#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Strategies whose ranks come and go, in virtual time: what each does under each fault, that samples
# add up, and that the same seed gives the same bytes.

bats_require_minimum_version 1.5.0
load run

setup() {
	need_python
	[ -n "$LONGHAUL_GUEST_KERNEL" ] || skip "no guest kernel"
	cd "$BATS_TEST_TMPDIR"
}

elastic() {
	echo "{kind: $1, matchmaking: 500 ms, timeout: 20 s, heartbeat: 500 ms}"
}

# play OUT KIND TIMELINE [OPTION...]: the small scenario, with two sites and three nodes
play() {
	local to=$1 kind=$2 timeline=$3
	shift 3
	small "$to" --set "workload.strategy=$(elastic "$kind")" --set workload.epochs=8 \
		--set "timeline=$timeline" "$@" >"$to.txt" 2>&1 || { cat "$to.txt"; return 1; }
}

# What must hold of every run: the samples of all epochs and incarnations.
whole='
samples = rows("samples.csv")
for r in samples:
    assert int(r["computed_samples"]) == sum(int(r[k + "_samples"]) for k in ("committed", "given_up", "killed")), r
epochs = rows("epochs.csv")
assert sum(int(r["committed_samples"]) for r in samples) == sum(int(r["samples"]) for r in epochs)
assert len(epochs) == 8 and all(int(r["samples"]) >= 960 for r in epochs), epochs
assert engine["status"] == "done" and not any(engine["unexplained"].values()), engine
lost = {(r["node"], int(r["incarnation"])): (int(r["given_up_samples"]), int(r["killed_samples"])) for r in samples}
wall = [float(r["wall_s"]) for r in epochs]
'

# holds OUT: `whole`, and what standard input has
holds() {
	{ echo "$whole"; cat; } | check "$1"
}

@test "without faults an epoch is what a butterfly of fixed members makes of it" {
	play out hivemind '[]'
	small fixed --set workload.epochs=8 --set 'workload.strategy={kind: butterfly, matchmaking: 500 ms}' >fixed.txt
	holds out <<-'END'
		assert all(int(r["samples"]) == 960 for r in epochs), epochs
		assert all(l == (0, 0) for l in lost.values()), lost
		sent = sum(a["payload_sent_bytes"] for a in events("average"))
		assert sent == 8 * 2 * (3 - 1) * 1000003 * 2, sent
		fixed = [float(r["wall_s"]) for r in csv.DictReader(open("fixed/epochs.csv", newline=""))]
		# a round trip to the coordinator and back for each of READY and RESULT, and the target reached
		# in whole micro-batches
		assert all(abs(a - b) < 0.2 for a, b in zip(wall, fixed)), (wall, fixed)
	END
}

@test "a preempted rank is missed for five heartbeats, and loads the state when it is back" {
	play out hivemind '[{at: 8 s, preempt: west/0, return_after: 10 s}]'
	holds out <<-'END'
		assert len(samples) == 4 and lost[("west/0", 0)][1] > 0, lost
		assert all(l == (0, 0) for k, l in lost.items() if k != ("west/0", 0)), lost
		leave = list(events("leave"))[0]
		since = leave["at_ns"] / 1e9 - engine["begin_ns"] / 1e9 - 8
		assert leave["reason"] == "it was silent" and 2 <= since <= 2.6, (leave, since)
		load = [e for e in events("load") if e["rank"] == 2]
		# weights and two moments, in single precision, and a frame before them
		assert len(load) == 1 and load[0]["bytes"] == 3 * 4 * 1000003 + 64, load
		assert load[0]["donor"] in (0, 1)
		assert max(wall) < 6, wall
	END
}

@test "a preemption in the midst of an averaging voids it, and survivors try again" {
	# the first group averages from 3.2 s on, for 0.35 s
	play out hivemind '[{at: 3.45 s, preempt: west/0}]'
	holds out <<-'END'
		aborts = list(events("abort"))
		assert len(aborts) == 1 and aborts[0]["epoch"] == 0, aborts
		commits = list(events("commit"))
		assert commits[0]["attempt"] == 1 and [m["rank"] for m in commits[0]["members"]] == [0, 1], commits[0]
	END
}

@test "a site that is cut off is left out, waits, and comes back with another's state" {
	play out hivemind '[{at: 8 s, site: west, cut_off: true, for: 10 s}]'
	holds out <<-'END'
		assert lost[("west/0", 0)][0] > 0 and len(samples) == 3, lost
		assert [e["rank"] for e in events("cut_off")] == [2]
		assert max(wall) < 6, wall
		assert len([e for e in events("epoch") if e["rank"] == 2]) >= 4
	END
}

@test "a rank that joins late takes part from the epoch on whose state it loads" {
	play out hivemind '[{at: 12 s, join: west/0}]'
	holds out <<-'END'
		assert all(l == (0, 0) for l in lost.values()), lost
		assert [e["rank"] for e in events("load")] == [2]
		first = min(e["epoch"] for e in events("epoch") if e["rank"] == 2)
		assert 2 <= first <= 3, first
	END
}

@test "a straggler computes less, and nobody waits for more than a micro-batch of it" {
	play out hivemind '[{at: 8 s, slow: east/1, factor: 10}]'
	holds out <<-'END'
		assert all(l == (0, 0) for l in lost.values()), lost
		by = {r["node"]: int(r["committed_samples"]) for r in samples}
		assert by["east/1"] < by["east/0"] / 1.5, by
		# 210 samples a second in the stead of 300, and up to 1.6 s of the straggler's micro-batch
		assert max(wall) < 960 / 210 + 1.6 + 0.7, wall
	END
}

@test "a straggler that does not end its micro-batch in time is dropped" {
	play out hivemind '[{at: 8 s, for: 30 s, slow: east/1, factor: 200}]' \
		--set 'workload.strategy={kind: hivemind, matchmaking: 500 ms, timeout: 5 s, heartbeat: 500 ms}'
	holds out <<-'END'
		assert [e["reason"] for e in events("leave")][0] == "it did not end its micro-batch in time"
		assert lost[("east/1", 0)][0] > 0, lost
		assert max(wall) < 4.8 + 5 + 1, wall
	END
}

@test "on a grid the faults cost their group alone, and all end with the same weights" {
	play out moshpit '[{at: 8 s, preempt: west/0, return_after: 10 s}]'
	holds out <<-'END'
		assert lost[("west/0", 0)][1] > 0 and len(samples) == 4, lost
		commits = list(events("commit"))
		# the last brings all together, and counts nothing
		assert len(commits) == 9 and all(m["from"] == m["to"] for m in commits[-1]["members"])
	END
}

@test "what is learnt survives a preemption" {
	learn() {
		timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" run --quiet --no-figures --out "$1" \
			--set "workload.strategy=$2" --set 'workload.train.evaluate=10' \
			--set 'timeline=[{at: 5 s, preempt: gc-asia/0, return_after: 3 s}]' \
			"$srcdir/tests/guest/learn.yaml" >"$1.txt" 2>&1 || { cat "$1.txt"; return 1; }
	}
	local with='matchmaking: 0 s, timeout: 10 s, heartbeat: 200 ms'
	learn hivemind "{kind: hivemind, delayed_update: false, $with}"
	learn moshpit "{kind: moshpit, $with}"
	for kind in hivemind moshpit; do
		check $kind <<-'END'
			epochs = rows("epochs.csv")
			assert len(epochs) == 30 and float(epochs[-1]["test_accuracy"]) > 0.7, epochs[-1]
			weights = {}
			for e in events("weights"):
			    weights.setdefault(e["hash"], []).append(e["rank"])
			assert len(weights) == 1 and sorted(*weights.values()) == [0, 1, 2, 3], weights
			loads = [e for e in events("load") if e["rank"] == 2 and not e["message"]]
			# parameters and two moments of AdamW, the steps and the loss scale
			assert loads[-1]["bytes"] == 64 + 24 + 3 * 4 * 61706, loads
		END
	done
}

@test "rank 0 has the coordinator, and must stay" {
	run ! play out hivemind '[{at: 8 s, preempt: east/0}]'
	[[ "$output" == *"rank 0, at east/0, has the coordinator of hivemind"* ]]
}
