#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Gradients that are sent in part, in virtual time: bytes by their formulas, the same ones again.

bats_require_minimum_version 1.5.0
load run

setup_file() {
	load run
	need_python
	[ -n "$LONGHAUL_GUEST_KERNEL" ] || skip "no guest kernel"
}

setup() {
	cd "$BATS_FILE_TMPDIR"
}

# The small scenario with a compressor: sparse OUT COMPRESS [OPTION...]
sparse() {
	local to=$1 compress=$2
	shift 2
	small "$to" --set 'workload.strategy={kind: sparse-allgather}' \
		--set "workload.compress=$compress" "$@"
}

@test "every rank sends every other a message of as many elements as the density says" {
	for kind in topk mstopk random-k; do
		sparse "$kind" "{kind: $kind, density: 1 %}"
		check "$kind" <<-'END'
			for e in (0, 1):
			    sent = [a["payload_sent_bytes"] for a in events("average") if a["epoch"] == e]
			    assert sent == [2 * (4 + 8 * 10000)] * 3, sent
			assert all(a["checked_elements"] == 4096 for a in events("average"))
			assert engine["status"] == "done", engine
		END
	done
}

@test "a warm-up of density sends less and less" {
	sparse dgc '{kind: dgc, warm_up: 1, clip_norm: 1}' --set workload.epochs=6
	check dgc <<-'END'
		for e, k in enumerate([250001, 62500, 15625, 3906, 1000, 1000]):
		    sent = sum(a["payload_sent_bytes"] for a in events("average") if a["epoch"] == e)
		    assert sent == 3 * 2 * (4 + 8 * k), (e, sent)
	END
}

@test "the same seed gives the same bytes" {
	[ -d dgc ]
	sparse again '{kind: dgc, warm_up: 1, clip_norm: 1}' --set workload.epochs=6
	for file in dgc/*.csv dgc/engine.json dgc/trainer.json dgc/events/*; do
		cmp "$file" "again/${file#dgc/}"
	done
}


@test "sites average whole gradients inside, and send a part of them across" {
	two='nodes=[{site: east, count: 2, machine: box}, {site: west, count: 2, machine: box}]'
	inside='rtt: 0.6 ms, bandwidth: 1 Gbit/s, source: made up'
	paths="network.paths=[{between: [east, west], rtt: 40 ms, bandwidth: 200 Mbit/s, source: made up},
		{between: [east, east], $inside}, {between: [west, west], $inside}]"
	small topk2 --set 'workload.strategy={kind: hierarchical-topk, levels: [site]}' \
		--set 'workload.compress={kind: mstopk, density: 1 %}' --set "$two" --set "$paths"
	check topk2 <<-'END'
		assert engine["status"] == "done", engine
		shares = (500002, 500001)
		inside = 2 * 2 * sum(shares) * 4
		across = sum(2 * (4 + 8 * round(0.01 * s)) for s in shares)
		for e in (0, 1):
		    sent = sum(a["payload_sent_bytes"] for a in events("average") if a["epoch"] == e)
		    assert sent == inside + across, (sent, inside, across)
		assert all(a["checked_elements"] == 2 * 4096 for a in events("average"))
		# the table of traffic tells what crosses
		between = [r for r in rows("traffic.csv") if r["from"] != r["to"]]
		assert sum(int(r["payload_bytes"]) for r in between) == 2 * across, between
	END
}

@test "sites with unlike numbers of ranks are refused" {
	run -3 small unlike --set 'workload.strategy={kind: hierarchical-topk, levels: [site]}' \
		--set 'workload.compress=topk'
	[[ $output == *'levels: east has 2 ranks, west 1; expected as many in every site'* ]]
}

@test "a bit for each number, and two means for every 4,096 of a share" {
	small onebit --set 'workload.strategy={kind: butterfly, balance: fixed}' --set workload.compress=onebit
	check onebit <<-'END'
		shares = (333335, 333334, 333334)
		wire = sum((s + 7) // 8 + 8 * -(-s // 4096) for s in shares)
		for e in (0, 1):
		    sent = sum(a["payload_sent_bytes"] for a in events("average") if a["epoch"] == e)
		    assert sent == 2 * 2 * wire, (sent, wire)
		assert all(a["checked_elements"] == 3 * 4096 for a in events("average"))
	END
}

# LeNet-5 has matrices of 6 x 25, 16 x 150, 120 x 400, 84 x 120 and 10 x 84, and 236 numbers more.
@test "PowerSGD sends two columns of each matrix' sides, and all hold the same weights" {
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" run --quiet --no-figures --out factors \
		--set 'workload.strategy={kind: ring, balance: fixed}' --set workload.compress=powersgd \
		"$srcdir/tests/guest/learn.yaml"
	check factors <<-'END'
		p, q = 2 * (6 + 16 + 120 + 84 + 10) + 236, 2 * (25 + 150 + 400 + 120 + 84)
		for e in range(30):
		    sent = sum(a["payload_sent_bytes"] for a in events("average") if a["epoch"] == e)
		    assert sent == 2 * 3 * 4 * (p + q), (e, sent)
		weights = [e["hash"] for e in events("weights")]
		assert len(weights) == 4 and len(set(weights)) == 1, weights
		assert float(rows("epochs.csv")[-1]["test_accuracy"]) > 0.5
	END
}

@test "PowerSGD without a model's shapes is refused" {
	run -3 small replayed --set 'workload.strategy={kind: ring, balance: fixed}' --set workload.compress=powersgd
	[[ $output == *"powersgd needs the shapes of the model's tensors, which replay does not have"* ]]
}

# Two nodes of three GPUs each: NIC bytes are those of the messages alone.
@test "nodes average whole gradients over their inner network, and send a part across" {
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" run --quiet --no-figures --out nodes \
		--set 'nodes=[{site: room, count: 2, machine: triple}]' \
		--set 'workload.strategy={kind: hierarchical-topk}' --set 'workload.compress={kind: mstopk, density: 1 %}' \
		"$srcdir/tests/guest/inner.yaml"
	check nodes <<-'END'
		assert engine["status"] == "done", engine
		inside = 2 * 2 * (3 - 1) * 1000003 * 4
		across = 3 * 2 * (4 + 8 * 3333)
		for e in (0, 1):
		    sent = sum(a["payload_sent_bytes"] for a in events("average") if a["epoch"] == e)
		    assert sent == inside + across, (sent, inside, across)
		# ranks 0 to 2 and 3 to 5 are in a node each: what they sent to the other
		far = sum(bytes for t in events("traffic")
		          for peer, bytes in zip(t.get("peers", range(6)), t["payload_bytes"])
		          if (peer < 3) != (t["rank"] < 3))
		assert far == 2 * across, (far, across)
	END
}

@test "nodes with unlike numbers of GPUs are refused" {
	run -3 "$LONGHAUL" run --dry-run --set 'workload.strategy={kind: hierarchical-topk}' \
		--set workload.compress=topk "$srcdir/tests/guest/inner.yaml"
	[[ $output == *'levels: a node of room has 3 ranks, one of far 1; expected as many in every node'* ]]
}

@test "eight bits a number, and what tells them" {
	for kind in ring butterfly; do
		small "u8-$kind" --set "workload.strategy={kind: $kind}" --set workload.compress=uniform8
		small "b8-$kind" --set "workload.strategy={kind: $kind}" --set workload.compress=blockwise8
		for out in "u8-$kind" "b8-$kind"; do
			check "$out" <<-'END'
				shares = (333335, 333334, 333334)
				wire = sum(1024 + s if "u8" in out else s + 4 * -(-s // 4096) for s in shares)
				for e in (0, 1):
				    sent = sum(a["payload_sent_bytes"] for a in events("average") if a["epoch"] == e)
				    assert sent == 2 * 2 * wire, (sent, wire)
			END
		done
	done
}
