#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A small run from the scenario to the tables: what must add up, and what must repeat.

bats_require_minimum_version 1.5.0
load run

setup_file() {
	load run
	need_python
	cd "$BATS_FILE_TMPDIR"
	small first >first.out
}

setup() {
	cd "$BATS_FILE_TMPDIR"
}

# The tables and raw files that must repeat, byte for byte.
same() {
	local file n=0
	for file in "$1"/*.csv "$1"/engine.json "$1"/network.json "$1"/trainer.json "$1"/events/*; do
		cmp "$file" "$2/${file#"$1"/}" || return 1
		n=$((n + 1))
	done
	[ "$n" -ge 15 ]
}

@test "every file of a results folder is there" {
	for file in run.json wall.json links.csv epochs.csv throughput.csv traffic.csv cost.csv \
		counters.csv engine.json network.json trainer.json guest.log events/rank-{0,1,2}.jsonl; do
		[ -e "first/$file" ]
	done
	[ ! -e first/.guest ]
	[ "$(ls -d first*)" = "$(printf 'first\nfirst.out')" ]
	grep -q 'valid' first.out
}

# rows 2, 37
@test "every link keeps to its target, and nothing was lost" {
	check first <<-'END'
		links = rows("links.csv")
		assert len(links) == 6 + 3, len(links)
		assert all(r["ok"] == "yes" for r in links), links
		assert engine["status"] == "done", engine["message"]
		assert engine["unexplained"] and not any(engine["unexplained"].values()), engine
		assert all(r["dropped_packets"] == "0" for r in rows("counters.csv"))
		for r in links:
		    if r["kind"] == "rtt":
		        assert abs(float(r["achieved"]) - float(r["target"])) < 0.05 + float(r["target"]) / 1000, r
	END
}

@test "samples are conserved" {
	check first <<-'END'
		epochs = rows("epochs.csv")
		assert [int(r["epoch"]) for r in epochs] == [0, 1]
		for e in epochs:
		    computed = sum(c["samples"] for c in events("compute") if c["epoch"] == int(e["epoch"]))
		    assert computed == int(e["samples"]) >= 960, (computed, e)
		    for a in events("average"):
		        assert a["epoch"] != int(e["epoch"]) or a["group_samples"] == computed, a
		total = rows("throughput.csv")[0]
		assert int(total["samples"]) == sum(int(e["samples"]) for e in epochs)
		for e in epochs:
		    assert math.isclose(float(e["throughput_sps"]), 960 / float(e["wall_s"]), rel_tol=1e-4), e
	END
}

@test "the payload is exactly 2 (N-1) P numbers of two bytes an epoch" {
	check first <<-'END'
		expected = 2 * (3 - 1) * 1000003 * 2 * 2
		sent = sum(a["payload_sent_bytes"] for a in events("average"))
		received = sum(a["payload_received_bytes"] for a in events("average"))
		assert sent == received == expected, (sent, received, expected)
		assert sum(int(r["payload_bytes"]) for r in rows("traffic.csv")) == expected
	END
}

@test "the bytes on the wire are the payload and its headers" {
	check first <<-'END'
		pairs = {}
		for r in rows("counters.csv"):
		    pairs.setdefault((r["from"], r["to"]), []).append(int(r["wire_bytes"]) - int(r["ack_bytes"]))
		data = sum(p[-1] - p[0] for p in pairs.values())
		payload = 2 * (3 - 1) * 1000003 * 2 * 2
		assert payload < data, (payload, data)
		assert abs(data / (payload * 1514 / 1448) - 1) < 0.003, (data, payload)
		# what the connections say themselves: 66 bytes before every segment
		connections = list(events("connection"))
		assert len(connections) == 3 * 2 * 2
		said = sum(c["bytes_sent"] + 66 * c["data_segs_out"] for c in connections)
		assert abs(data - said) < 150 * len(connections), (data, said)
		assert sum(c["retransmits"] + c["timeouts"] + c["bytes_retrans"] for c in connections) == 0
		# the table of traffic holds the same bytes, by sites
		wire = sum(p[-1] - p[0] for p in pairs.values())
		table = sum(int(r["wire_bytes"]) - int(r["ack_bytes"]) for r in rows("traffic.csv"))
		assert abs(table - wire) <= 3 * len(rows("traffic.csv")), (table, wire)
	END
}

# row 57
@test "the same seed gives the same bytes, from another folder too" {
	small second
	same first second
	mkdir -p 'else where/deeper'
	cd 'else where/deeper'
	small 'a folder' --backend guest
	same "$BATS_FILE_TMPDIR/first" 'a folder'
}

@test "a rerun of the results folder gives the same bytes" {
	timeout 60 "$LONGHAUL" rerun --quiet --no-figures --out again first
	same first again
}

@test "another seed gives other times and the same payload" {
	small other --seed 2
	run ! cmp first/epochs.csv other/epochs.csv
	check other <<-'END'
		assert sum(a["payload_sent_bytes"] for a in events("average")) == 2 * 2 * 1000003 * 2 * 2
		assert rows("throughput.csv")[0]["seed"] == "2"
	END
}

@test "two seeds in a row give means" {
	small twice --repeat 2
	[ -e twice/seed-1/throughput.csv ] && [ -e twice/seed-2/throughput.csv ]
	same first twice/seed-1
	same other twice/seed-2
	head -n 1 twice/repeat.csv
	[ "$(wc -l <twice/repeat.csv)" -ge 2 ]
}

@test "a node alone works and sends nothing" {
	small alone --set nodes='[{site: west, machine: box}]'
	check alone <<-'END'
		assert engine["status"] == "done", engine
		assert len(rows("epochs.csv")) == 2
		assert rows("counters.csv") == [] and rows("links.csv") == []
		assert all(a["payload_sent_bytes"] == 0 for a in events("average"))
		t = rows("throughput.csv")[0]
		assert t["nodes"] == "1" and t["valid"] == "1", t
		# the profile says 100 samples a second; every micro-batch varies by 1 %
		assert 0.97 < float(t["local_sps"]) / 100 < 1.03, t
	END
}

@test "no compression doubles the payload" {
	small plain --set workload.compress=none --set workload.epochs=1
	check plain <<-'END'
		assert sum(a["payload_sent_bytes"] for a in events("average")) == 2 * 2 * 1000003 * 4
	END
}
