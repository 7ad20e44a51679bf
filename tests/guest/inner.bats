#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Nodes with several GPUs: a rank for each, an inner network between them, one card for all.

bats_require_minimum_version 1.5.0
load run

setup_file() {
	load run
	need_python
	cd "$BATS_FILE_TMPDIR"
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" run --quiet --no-figures --out first \
		"$srcdir/tests/guest/inner.yaml"
}

setup() {
	cd "$BATS_FILE_TMPDIR"
}

# Runs inner.py in every rank: send OUT WHO BYTES [OPTION...]; what they say is in OUT/nodes.
send() {
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" exec --all --no-probe --out "$1" "${@:4}" \
		"$srcdir/tests/guest/inner.yaml" -- python3 "$srcdir/tests/guest/inner.py" "$2" "$3"
}

# row 61
@test "the run is valid: links, inner networks and bytes are as asked for" {
	check first <<-'END'
		assert engine["status"] == "done", engine["message"]
		assert not any(engine["unexplained"].values()), engine
		links = rows("links.csv")
		assert all(r["ok"] == "yes" for r in links), links
		inner = {r["kind"]: r for r in links if r["kind"].startswith("inner")}
		assert sorted(inner) == ["inner-rtt", "inner-throughput"], inner
		assert inner["inner-rtt"]["from_node"] == "room/0.0" and inner["inner-rtt"]["to_node"] == "room/0.1"
		assert abs(float(inner["inner-rtt"]["achieved"]) - 0.010) < 0.0005, inner
		assert abs(float(inner["inner-throughput"]["error_ratio"])) < 0.02, inner
		assert len([r for r in links if r["kind"] == "rtt"]) == 3 * 2
	END
}

@test "trainers know the machine that they share, and their number there" {
	check first <<-'END'
		ranks = load("trainer.json")["ranks"]
		assert [r["node"] for r in ranks] == ["room/0.0", "room/0.1", "room/0.2", "room/1.0", "room/1.1", "room/1.2", "far/0"]
		assert [r.get("vm") for r in ranks] == 3 * ["room/0"] + 3 * ["room/1"] + [None]
		assert [r.get("local_rank") for r in ranks] == [0, 1, 2, 0, 1, 2, None]
		starts = [e["node"] for e in events("start")]
		assert starts == [r["node"] for r in ranks], starts
	END
}

@test "what stays inside nodes is told apart, and all adds up" {
	check first <<-'END'
		step = 2 * 6 * 1000003 * 4 // 7 * 2        # of one rank to the next, two epochs
		payload = {}
		for r in rows("traffic.csv"):
		    pair = r["from"], r["to"]
		    payload[pair] = payload.get(pair, 0) + int(r["payload_bytes"])
		assert sum(payload.values()) == 2 * 6 * 1000003 * 4 * 2, payload
		expected = {("room", "(inside node)"): 4, ("room", "room"): 1, ("room", "far"): 1, ("far", "room"): 1}
		assert payload.keys() == expected.keys(), payload
		for pair, n in expected.items():
		    assert abs(payload[pair] - n * step) < 1000, (pair, payload)
		wire = {}
		for r in rows("counters.csv"):
		    wire[r["from"], r["to"]] = int(r["wire_bytes"])
		assert ("room/0", "room/0") in wire and ("far/0", "far/0") not in wire, wire
		total = rows("throughput.csv")[0]
		assert total["nodes"] == "3" and total["gpus"] == "7" and total["valid"] == "1", total
	END
}

@test "a machine is paid once, and what stays inside it is free" {
	check first <<-'END'
		cost = [r for r in rows("cost.csv") if r["scope"] == "spot"]
		vm = [r for r in cost if r["item"] == "vm"]
		assert [(r["node"], float(r["usd_per_hour"])) for r in vm] == [("room/0", 3), ("room/1", 3), ("far/0", 1)] or \
		    [r["node"] for r in vm] == ["room/0", "room/1", "far/0"] and \
		    all(abs(float(r["usd_per_hour"]) - p) < 0.02 for r, p in zip(vm, (3, 3, 1))), vm
		inside = [r for r in cost if r["class"] == "inside-node"]
		assert [r["node"] for r in inside] == ["room/0", "room/1"], inside
		assert all(r["usd_micro"] == "0" and float(r["quantity"]) > 0.015 for r in inside), inside
		assert {r["node"]: r["class"] for r in cost if r["item"] == "egress" and r["class"] != "inside-node"}.keys() == \
		    {"room/0", "room/1", "far/0"}
	END
}

@test "the same seed gives the same bytes" {
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" run --quiet --no-figures --out second \
		"$srcdir/tests/guest/inner.yaml"
	for file in {epochs,throughput,traffic,cost,links,counters}.csv {engine,network,trainer}.json; do
		cmp "first/$file" "second/$file"
	done
}

# row 61
@test "each of all ranks at once has the inner bandwidth, and one that all send to no more" {
	send round round 200000000
	for node in room-{0,1}.{0,1,2}; do
		read -r _ bps <"round/nodes/$node.stdout"
		echo "$node $bps"
		# 200 MB take 1.3 ms, and windows take some 0.1 ms to open
		awk -v bps="$bps" 'BEGIN { exit !(bps > 1.05e12 && bps < 1.2e12) }'
	done
	send one one 200000000
	for node in room-{0,1}.0; do
		read -r _ bps <"one/nodes/$node.stdout"
		echo "$node $bps"
		awk -v bps="$bps" 'BEGIN { exit !(bps > 1.05e12 && bps < 1.2e12) }'
	done
}

@test "a round trip inside a node is twice the inner delay" {
	send ping ping 0
	awk '{ n++; if ($2 < 10000 || $2 > 11000) bad = 1 } END { exit bad || n != 5 }' ping/nodes/room-0.0.stdout
}

# Windows of 64 MiB would let 192 MiB wait before the card, 160 ms: what waits is held back at the
# sockets, as on one host.
@test "the ranks of a node share its card, and are held back where it is full" {
	send across across 40000000 --set machines.triple.tcp.rmem_max='64 MiB' --set machines.triple.tcp.wmem_max='64 MiB'
	sum=$(awk '$1 == "bps" { s += $2 } END { print s }' across/nodes/room-1.{0,1,2}.stdout)
	echo "$sum"
	# 10 Gbit/s x 1448 / 1514, and a card lets the first 1.25 MB pass at once
	awk -v bps="$sum" 'BEGIN { exit !(bps > 9e9 && bps < 9.8e9) }'
	cat across/nodes/room-0.0.stdout
	# 3 x 4 MiB take 10 ms
	awk '$1 == "rtt_ns" { n++; if ($2 < 200000 || $2 > 11000000) bad = 1; if ($2 > 1000000) waited = 1 }
		END { exit bad || !waited || n != 5 }' across/nodes/room-0.0.stdout
	check across <<-'END'
		assert not any(engine["unexplained"].values()), engine
	END
}

@test "verify measures the inner network, too" {
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" verify --quiet --out proof "$srcdir/tests/guest/inner.yaml"
	check proof <<-'END'
		inner = {r["property"]: r for r in rows("verify.csv") if r["property"].startswith("inner")}
		assert sorted(inner) == ["inner-rate", "inner-rtt"], inner
		assert all(r["ok"] == "yes" for r in inner.values()), inner
	END
}

@test "ranks_per_node takes as many of a machine's GPUs as it says" {
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" run --quiet --no-figures --out one-each \
		--set workload.ranks_per_node=1 "$srcdir/tests/guest/inner.yaml"
	check one-each <<-'END'
		assert [r["node"] for r in load("trainer.json")["ranks"]] == ["room/0", "room/1", "far/0"]
		assert "vm" not in load("trainer.json")["ranks"][0] and "inner" not in plan["nodes"][0]
		assert not [r for r in rows("links.csv") if r["kind"].startswith("inner")]
	END
}

@test "a capture at a node's card has what its ranks send to others, under their names" {
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" run --quiet --no-figures --out taken \
		--capture room/0 "$srcdir/tests/guest/inner.yaml"
	"$LONGHAUL" capture taken >/dev/null
	check taken <<-'END'
		flows = rows("capture/flows.csv")
		ends = {f["from_node"] for f in flows} | {f["to_node"] for f in flows}
		assert {"room/0.0", "room/0.1", "room/0.2", "room/1.0", "far/0"} <= ends, ends
		for f in flows:
		    inside = [f[k].startswith("room/0.") for k in ("from_node", "to_node")]
		    assert inside.count(True) == 1, f
		    assert f["side"] == ("sender" if inside[0] else "receiver"), f
	END
}

@test "the scenario of CommLib runs with fewer nodes, as fast as its ring can be" {
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" run --quiet --no-figures --out commlib --set nodes.0.count=2 \
		--set workload.ranks_per_node=4 --set workload.target_batch=2048 "$LONGHAUL_DATADIR/commlib-16x8.yaml"
	check commlib <<-'END'
		assert engine["status"] == "done", engine["message"]
		# a card carries 2 x 7/8 of the gradients each way; 3 of 4 steps stay inside
		bound_s = 2 * 7 / 8 * 25557032 * 2 * 8 / (25e9 * 1448 / 1514)
		for e in rows("epochs.csv"):
		    assert bound_s * 0.9 < float(e["transfer_s"]) < bound_s * 1.15, (bound_s, e)
		payload = {r["to"]: int(r["payload_bytes"]) for r in rows("traffic.csv")}
		assert abs(payload["(inside node)"] / payload["zone"] - 3) < 0.01, payload
	END
}

@test "256 ranks are set up, run a program each, and are told of" {
	cat >many.yaml <<-'END'
		longhaul: 1
		name: many
		network: networks/vpc-25g.yaml
		nodes: [{site: zone, count: 32, machine: v100x8-25g}]
		workload: {command: ["true"]}
	END
	timeout --kill-after=5 240 "$LONGHAUL" run --quiet --no-figures --out many many.yaml
	check many <<-'END'
		assert engine["status"] == "done", engine["message"]
		total = rows("throughput.csv")[0]
		assert total["nodes"] == "32" and total["gpus"] == "256" and total["valid"] == "1", total
		assert len(load("exec.json")["nodes"]) == 256
		assert len(rows("links.csv")) == 32 * 31 + 2 + 1
	END
}
