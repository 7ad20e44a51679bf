#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Packets captured in a run: all of them, at the right times, the same ones again, and in
# agreement with the kernel's counters, with the program's own figures and with tshark.

bats_require_minimum_version 1.5.0
load run

setup() {
	need_python
	cd "$BATS_TEST_TMPDIR"
	small=$srcdir/tests/guest/small.yaml
	cp "$srcdir/tests/guest/transfer.py" .
}

# 4 MB from west/0 to east/0, then 20 pings of one byte: transfer OUT [OPTION...]
transfer() {
	local out=$1
	shift
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" exec --no-probe --all --out "$out" "$@" "$small" -- \
		python3 transfer.py 4000000 20
}

# Tables of a run's captures, and python over them: flows OUT <<'END' ... END
flows() {
	"$LONGHAUL" capture --no-figures "$1" >"$1.txt"
	check "$1" # with rows("capture/flows.csv")
}

@test "bytes, retransmissions, round trip and throughput are the kernel's, the network's and the program's" {
	transfer out --capture all --set 'network.paths.0.loss=0.3 %'
	flows out <<-'END'
		files = {f["node"]: f for f in engine["capture"]["files"]}
		assert set(files) == {"east/0", "east/1", "west/0"}, files
		for f in files.values():
		    assert f["kernel_dropped_packets"] == f["lost_packets"] == f["past_bound_packets"] == 0, f
		    assert os.path.getsize(os.path.join(out, f["file"])) == f["file_bytes"]
		table = rows("capture/flows.csv")
		sent = [r for r in table if r["side"] == "sender"]
		again = sum(int(r["retransmitted_segments"]) for r in sent)
		assert again == engine["explained"]["retransmits"] > 0, (again, engine["explained"])
		assert all(r["missing_bytes"] == "0" for r in sent), sent
		# what left a node and was not lost is what its links have counted
		last = {}
		for r in rows("counters.csv"):
		    last[r["from"], r["to"]] = r
		for node, peer in ("west/0", "east/0"), ("east/0", "west/0"):
		    wire = sum(int(r["wire_bytes"]) for r in sent if r["from_node"] == node)
		    c = last[node, peer]
		    lost = wire - int(c["wire_bytes"])
		    assert int(c["dropped_packets"]) * 66 <= lost <= int(c["dropped_packets"]) * 1514, (node, wire, c)
		big = max(sent, key=lambda r: int(r["payload_bytes"]))
		assert (big["from_node"], big["to_node"]) == ("west/0", "east/0"), big
		assert abs(int(big["handshake_rtt_ns"]) - 40e6) < 50e3, big
		assert abs(int(big["rtt_min_ns"]) - 40e6) < 100e3, big
		assert big["segment_bytes"] == "1448"
		said = json.load(open(os.path.join(out, "nodes/west-0.stdout")))
		assert int(big["new_bytes"]) == said["sent_bytes"], (big, said)
		seen = [r for r in table if r["side"] == "receiver" and r["from_port"] == big["from_port"] and r["from_node"] == "west/0"][0]
		assert int(seen["new_bytes"]) == said["sent_bytes"], seen
		# the pings go over a connection of their own: their median is the network's round trip
		ping = [r for r in sent if r["from_node"] == "west/0" and r["to_port"] == "7001"][0]
		assert int(ping["rtt_samples"]) >= 20 and abs(int(ping["rtt_median_ns"]) - 40e6) < 50e3, ping
		assert abs(int(big["goodput_bps"]) / said["bps"] - 1) < 0.05, (big["goodput_bps"], said)
	END
	command -v tshark >/dev/null || return 0
	for node in west-0 east-0; do
		python3 "$srcdir/tests/cli/capture-compare" out/capture/flows.csv "out/capture/$node.pcap" super
	done
}

@test "two captures of the same run are the same bytes, and the run is as without" {
	transfer a --capture all --set 'network.paths.0.loss=0.3 %'
	transfer b --capture all --set 'network.paths.0.loss=0.3 %'
	transfer c --capture all
	transfer d
	for file in capture/east-0.pcap capture/east-1.pcap capture/west-0.pcap counters.csv engine.json exec.json; do
		cmp "a/$file" "b/$file"
	done
	python3 - <<-'END'
		import csv, json
		runs = [json.load(open(d + "/nodes/west-0.stdout")) for d in "cd"]
		assert runs[0]["sent_bytes"] == runs[1]["sent_bytes"]
		assert abs(runs[0]["duration_ns"] - runs[1]["duration_ns"]) <= 5000, runs
		engines = [json.load(open(d + "/engine.json")) for d in "cd"]
		assert engines[0]["begin_ns"] == engines[1]["begin_ns"]
		assert engines[0]["explained"] == engines[1]["explained"]
		assert "capture" not in engines[1]
	END
}

@test "a training is the same with a capture, but for single readings of the clock" {
	small plain
	small kept --capture all
	python3 - <<-'END'
		import csv
		# files have microseconds; what is printed with fewer digits may fall to either side
		def digit(p): return 1.01 * 10.0 ** -len(p.partition(".")[2]) if "." in p else 0
		for name in "epochs.csv", "throughput.csv":
		    a, b = (list(csv.reader(open(f"{d}/{name}"))) for d in ("plain", "kept"))
		    for x, y in zip(a, b, strict=True):
		        for p, q in zip(x, y, strict=True):
		            try: assert abs(float(p) - float(q)) <= 3e-6 * max(1, abs(float(p))) + digit(p), (name, p, q)
		            except ValueError: assert p == q
	END
	check kept <<-'END'
		assert all(f["kernel_dropped_packets"] == f["lost_packets"] == 0 for f in engine["capture"]["files"])
		assert all(f["packets"] > 1000 for f in engine["capture"]["files"])
	END
}

@test "a path's capture has that path alone, at both ends; a node's has all of its link" {
	timeout "$run_limit_s" "$LONGHAUL" exec --no-probe --all --out out --capture east/0,west "$small" -- sh -c \
		'ping -c 2 east-0; ping -c 3 east-1; ping -c 1 west-0'
	[ "$(ls out/capture)" = $'east-0.pcap\nwest-0.pcap' ]
	python3 - "$srcdir" <<-'END'
		import struct
		def packets(name):
		    d = open(f"out/capture/{name}.pcap", "rb").read()
		    assert d[:4] == struct.pack("<I", 0xa1b23c4d) # nanoseconds
		    at, before = 24, 0
		    while at < len(d):
		        s, ns, kept, length = struct.unpack("<IIII", d[at:at + 16])
		        assert s * 10**9 + ns >= before and ns < 10**9
		        before = s * 10**9 + ns
		        p = d[at + 16:at + 16 + kept]
		        yield before, ".".join(map(str, p[26:30])), ".".join(map(str, p[30:34])), length
		        at += 16 + kept
		for name in "east-0", "west-0":
		    seen = list(packets(name))
		    assert {frozenset(x[1:3]) for x in seen} == {frozenset(("10.64.0.1", "10.64.0.3"))}, seen
		    # two pings from west/0, one from east/0, each with its answer
		    assert len(seen) == 6, seen
		import json
		engine = json.load(open("out/engine.json"))
		there = {f["node"]: f for f in engine["capture"]["files"]}
		assert there["east/0"]["other_packets"] > 0
		# stamps are of the clock of all other files
		assert all(engine["begin_ns"] <= t <= engine["end_ns"] for t, *_ in packets("east-0"))
	END
}

@test "a file stops at its bound, and what is not in it is said" {
	run -0 transfer out --capture west/0 --set 'run.capture.max_bytes=20 kB' --set 'run.capture.snaplen=64 B'
	[[ $output == *"capture/west-0.pcap lacks "*" packets, all after it reached run.capture's max_bytes"* ]]
	check out <<-'END'
		(f,) = engine["capture"]["files"]
		size = os.path.getsize(os.path.join(out, f["file"]))
		assert size == f["file_bytes"] <= 20000 and size > 20000 - 16 - 64, (size, f)
		assert f["past_bound_packets"] > 0
	END
	"$LONGHAUL" capture --no-figures out >text
	grep -q 'note: capture/west-0.pcap lacks' text
}

@test "a capture works in real time" {
	run transfer out --capture all --clock real
	[ "$status" -eq 0 ] || [ "$status" -eq 6 ]
	flows out <<-'END'
		table = rows("capture/flows.csv")
		said = json.load(open(os.path.join(out, "nodes/west-0.stdout")))
		dropped = sum(f["kernel_dropped_packets"] + f["lost_packets"] for f in engine["capture"]["files"])
		big = max((r for r in table if r["side"] == "sender"), key=lambda r: int(r["new_bytes"]))
		assert dropped or int(big["new_bytes"]) == said["sent_bytes"], (big, said)
		assert engine["begin_ns"] - 1e9 < int(big["begin_ns"]) < engine["end_ns"], (engine, big)
	END
}
