#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Strategies whose ranks step by themselves, in virtual time: bytes, times, and the same again.

bats_require_minimum_version 1.5.0
load run

# apart OUT STRATEGY [OPTION...]: the small scenario with a strategy and 12 epochs, replayed
apart() {
	local to=$1 strategy=$2
	shift 2
	small "$to" --set "workload.strategy=$strategy" --set workload.epochs=12 "$@" >"$to.out"
}

# learnt OUT STRATEGY [OPTION...]: 30 epochs of the learning scenario
learnt() {
	local to=$1 strategy=$2
	shift 2
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" run --quiet --no-figures --out "$to" \
		--set "workload.strategy=$strategy" "$@" "$srcdir/tests/guest/learn.yaml" >"$to.out"
}

same() {
	local file n=0
	for file in "$1"/*.csv "$1"/engine.json "$1"/trainer.json "$1"/events/*; do
		cmp "$file" "$2/${file#"$1"/}" || return 1
		n=$((n + 1))
	done
	[ "$n" -ge 10 ]
}

setup_file() {
	load run
	need_python
	[ -n "$LONGHAUL_GUEST_KERNEL" ] || skip "no guest kernel"
	cd "$BATS_FILE_TMPDIR"
}

setup() {
	cd "$BATS_FILE_TMPDIR"
}

@test "local SGD sends after every period and after the last epoch alone" {
	apart local '{kind: local-sgd, period: 5}'
	check local <<-'END'
		parameters, n = 1000003, 3
		for row in rows("epochs.csv"):
		    epoch = int(row["epoch"])
		    sent = sum(e["payload_sent_bytes"] for e in events("average") if e["epoch"] == epoch)
		    meets = epoch in (4, 9, 11)
		    assert sent == (2 * (n - 1) * parameters * 2 if meets else 0), (epoch, sent)
		    assert (float(row["transfer_s"]) > 0) == meets, row
		    assert int(row["samples"]) == 960, row
		averaged = {e["epoch"]: e["group_samples"] for e in events("average")}
		assert averaged == {4: 5 * 960, 9: 5 * 960, 11: 2 * 960}, averaged
		assert all(e["checked_elements"] > 0 for e in events("average"))
	END
}

@test "fragments travel beside computing, which goes on" {
	apart blocking '{kind: diloco, period: 6}'
	apart streaming '{kind: diloco, period: 6, fragments: 3, fragment_delay: 1}' --set workload.compress=blockwise8
	check streaming <<-'END'
		late = [e for e in events("average") if e.get("beside")]
		assert {e["epoch"] for e in late} == {2, 4, 6, 8, 10}, late
		assert len(late) == 3 * 5, len(late)
		last = [e for e in events("average") if not e.get("beside")]
		assert [e["epoch"] for e in last] == [11] * 9, last
		# a period's bytes are those of the whole model, in a byte a parameter and 4 for every 4,096
		def ring(elements):
		    shares = [elements // 3 + (i < elements % 3) for i in range(3)]
		    return sum(4 * (s + 4 * -(-s // 4096)) for s in shares)
		sent = sum(e["payload_sent_bytes"] for e in late if e["epoch"] in (6, 8, 10))
		assert sent == ring(333335) + 2 * ring(333334), sent
		blocked = list(csv.DictReader(open("blocking/epochs.csv", newline="")))
		assert float(blocked[5]["communication_s"]) > 0.05, blocked[5]
		for row in rows("epochs.csv")[:-1]:
		    assert float(row["communication_s"]) < 0.01, row
	END
}

@test "neighbours tell each other in every epoch, and all meet in the end" {
	apart gossip '{kind: d-psgd}'
	check gossip <<-'END'
		parameters, n = 1000003, 3
		for epoch in range(12):
		    sent = sum(e["payload_sent_bytes"] for e in events("average") if e["epoch"] == epoch)
		    end = 2 * (n - 1) * parameters * 4 if epoch == 11 else 0
		    assert sent == n * 2 * parameters * 2 + end, (epoch, sent)
		assert all(e["checked_elements"] > 0 for e in events("average"))
	END
}

@test "pairs meet at random, and a slow rank holds up the end alone" {
	apart pairs '{kind: ad-psgd}' --set 'nodes=[{site: east, count: 3, machine: box}, {site: west, machine: box}]' \
		--set 'timeline=[{at: 1 s, slow: east/1, factor: 5}]'
	check pairs <<-'END'
		pairs = [e for e in events("average") if e.get("beside")]
		assert len({e["rank"] for e in pairs}) == 4
		sent = sum(e["payload_sent_bytes"] for e in events("average"))
		received = sum(e["payload_received_bytes"] for e in events("average"))
		assert sent == received > 0, (sent, received)
		ends = {(e["rank"], e["epoch"]): e["end_ns"] for e in events("epoch")}
		for rank in (0, 2, 3):
		    assert ends[rank, 10] < ends[1, 4], (rank, ends)
	END
}

@test "what is learnt ends alike at all ranks, whatever travels, and a second run gives the same bytes" {
	local -A strategies=(
		[local]='{kind: local-sgd, period: 4}'
		[diloco]='{kind: diloco, period: 10}'
		[stream]='{kind: diloco, period: 10, fragments: 4, fragment_delay: 2}'
		[gossip]='{kind: d-psgd, graph: exponential}'
		[pairs]='{kind: ad-psgd, graph: complete}'
	)
	for name in "${!strategies[@]}"; do
		learnt "learn-$name" "${strategies[$name]}" --set workload.compress=blockwise8
		learnt "again-$name" "${strategies[$name]}" --set workload.compress=blockwise8
		same "learn-$name" "again-$name"
		check "learn-$name" <<-'END'
			weights = [e["hash"] for e in events("weights")]
			assert len(weights) == 4 and len(set(weights)) == 1, weights
			epochs = rows("epochs.csv")
			assert len(epochs) == 30
			assert float(epochs[-1]["test_loss"]) < float(epochs[0]["loss"]) - 0.3, epochs[-1]
			consensus = [e["distance_ratio"] for e in events("consensus")]
			assert len(consensus) == (4 if "psgd" in load("trainer.json")["strategy"]["kind"] else 0)
			assert all(c > 0 for c in consensus), consensus
		END
	done
	grep -q "away from their mean" learn-gossip.out
}

@test "a rank that is cut off ends the run, and the message says who" {
	run small cut --set 'workload.strategy={kind: local-sgd, period: 2, timeout: 20 s}' --set workload.epochs=200 \
		--set 'timeline=[{at: 30 s, site: west, cut_off: true}]'
	[ "$status" -ne 0 ]
	echo "$output"
	grep -q 'no averaging within 20 s: .* rank [0-2] ([ew]' cut/events/rank-0.jsonl
}
