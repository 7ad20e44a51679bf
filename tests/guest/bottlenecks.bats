#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Links that the nodes of a site share, and queues that the kernel manages. `row N` is one of
# "What users of such tools ran into" in docs/emulation.md.

bats_require_minimum_version 1.5.0
load run

setup() {
	need_python
	cd "$BATS_TEST_TMPDIR"
	cat >network.yaml <<-'END'
		longhaul: 1
		network: shared
		sites:
		  east: {provider: on-premise, continent: europe, uplink: {bandwidth: 10 Mbit/s, queue: 60 ms}}
		  west: {provider: on-premise, continent: europe}
		paths:
		  - {between: [east, east], rtt: 2 ms, bandwidth: 100 Mbit/s}
		  - {between: [west, west], rtt: 2 ms, bandwidth: 100 Mbit/s}
		  - {between: [east, west], rtt: 20 ms, bandwidth: 50 Mbit/s}
	END
	cat >shared.yaml <<-'END'
		longhaul: 1
		name: shared
		network: network.yaml
		nodes:
		  - {site: east, count: 4, machine: generic}
		  - {site: west, count: 4, machine: generic}
		workload: {command: ["true"]}
	END
	# east/N sends to west/N by TCP; goodput after 3 s, and every 0.1 s the sender's own RTT
	cat >flows <<-'END'
		#!/usr/bin/env python3
		import json, os, socket, statistics, struct, threading, time
		site, i = os.environ["LONGHAUL_NODE"].split("/")
		duration_s, settle_s = float(os.environ.get("duration_s", 4)), 3
		end = time.monotonic() + 1 + settle_s + duration_s
		if site == "west":
		    server = socket.create_server(("", 5000))
		    server.settimeout(60)
		    s, _ = server.accept()
		    begin, n, got, last = None, 0, -1, None
		    while got:
		        got = len(s.recv(14480, socket.MSG_WAITALL))
		        now = time.monotonic()
		        if now >= end - duration_s and now < end:
		            n, begin, last = n + (got if begin else 0), begin or now, now
		    print(json.dumps({"goodput": n * 8 / (last - begin) / 1e6}))
		else:
		    time.sleep(1)
		    s = socket.create_connection((f"west-{i}", 5000))
		    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 5, 0))
		    info = lambda: struct.unpack_from("24I", s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 8)
		    rtts, done = [], threading.Event()
		    def look():
		        while not done.wait(0.1):
		            if time.monotonic() > end - duration_s:
		                rtts.append(info()[15] / 1e3)
		    watcher = threading.Thread(target=look)
		    watcher.start()
		    while time.monotonic() < end:
		        s.send(bytes(65536))
		    done.set()
		    watcher.join()
		    print(json.dumps({"rtt": statistics.mean(rtts), "retransmits": info()[23]}))
		    s.close()
	END
	chmod +x flows
}

# flows OUT [OPTION...]: every node of east sends to its partner.
flows() {
	local out=$1
	shift
	timeout 100 "$LONGHAUL" exec --all --no-probe --out "$out" "$@" shared.yaml -- "$PWD/flows" >/dev/null
}

# Python with what the flows said: goodput[i] in Mbit/s, retransmits[i], rtt[i] in ms.
said() {
	python3 -c '
import json, sys
goodput, retransmits, rtt = [], [], []
for i in range(4):
    east, west = (json.load(open(f"{sys.argv[1]}/nodes/{site}-{i}.stdout")) for site in ("east", "west"))
    goodput.append(west["goodput"])
    retransmits.append(east["retransmits"])
    rtt.append(east["rtt"])
engine = json.load(open(sys.argv[1] + "/engine.json"))
assert engine["status"] == "done", engine
wire = 1448 / 1514
print(goodput, retransmits, rtt, engine["explained"], engine["site_links"])
exec(sys.stdin.read())' "$1"
}

# rows 31, 42
@test "the links of a site have their rates and queues, and pairs keep theirs" {
	timeout "$run_limit_s" "$LONGHAUL" verify --quiet --out proof \
		--set 'network.sites.west.downlink={bandwidth: 6 Mbit/s, queue: 40 ms}' network.yaml
	python3 - <<-'END'
		import csv, json
		rows = {}
		for r in csv.DictReader(open("proof/verify.csv")):
		    assert r["ok"] == "yes", r
		    rows.setdefault(r["property"], []).append(r)
		one = lambda name: [(float(r["target"]), float(r["achieved"])) for r in rows[name]][0]
		# nodes of west send without a limit to east: its uplink is the other way
		assert one("downlink-rate")[0] == 6 and one("downlink-queue")[0] == 40
		links = json.load(open("proof/network.json"))["site_links"]
		assert [l["site"] for l in links] == ["east", "west"], links
		assert links[0]["up"]["bandwidth_bps"] == 10000000 and "down" not in links[0]
		assert links[1]["down"]["limit_bytes"] == 6000000 / 8 * 0.040, links
		rate = {(r["from_node"], r["to_node"]): float(r["target"]) for r in rows["rate"]}
		assert rate["east/0", "west/0"] == 6 and rate["west/0", "east/0"] == 50
		assert rate["east/0", "east/1"] == rate["west/0", "west/1"] == 100
	END
	timeout "$run_limit_s" "$LONGHAUL" verify --quiet --out up network.yaml
	grep -q '^uplink-rate,.*,yes$' up/verify.csv
	grep -q '^uplink-queue,.*,yes$' up/verify.csv
}

# rows 31, 34
@test "flows through a shared link add up to it, and share it" {
	duration_s=60 flows four
	said four <<-'END'
		assert 0.97 < sum(goodput) / (10 * wire) <= 1.01, sum(goodput)
		jain = sum(goodput) ** 2 / 4 / sum(g * g for g in goodput)
		assert jain > 0.95, jain
		# base and a queue that is mostly full
		assert all(40 < r < 90 for r in rtt), rtt
		assert engine["site_links"][0]["up"]["dropped_packets"] == engine["explained"]["path_drops"] > 0
		assert engine["explained"]["retransmits"] >= engine["explained"]["path_drops"]
	END
}

@test "a pair's own limit and the shared one hold at once" {
	# the pairs together have 4 x 2 Mbit/s, less than the link
	flows capped --set network.paths.2.bandwidth='2 Mbit/s' --set network.paths.2.queue='60 ms'
	said capped <<-'END'
		assert all(0.95 < g / (2 * wire) <= 1.01 for g in goodput), goodput
	END
}

# rows 6, 7
@test "a managed queue keeps the delay short where a drop-tail queue is full" {
	for discipline in codel fq_codel; do
		flows $discipline --set network.sites.east.uplink.queue_discipline=$discipline \
			--set network.sites.east.uplink.queue='500 ms'
		said $discipline <<-'END'
			assert 0.9 < sum(goodput) / (10 * wire) <= 1.01, sum(goodput)
			assert all(20 < r < 45 for r in rtt), rtt
		END
	done
	flows tail --set network.sites.east.uplink.queue='500 ms'
	said tail <<-'END'
		assert all(200 < r for r in rtt), rtt
	END
}

# rows 7, 42
@test "a managed queue on a path, and marks in place of losses" {
	flows path --set network.sites.east.uplink.bandwidth='100 Mbit/s' --set network.paths.2.bandwidth='4 Mbit/s' \
		--set network.paths.2.queue='500 ms' --set network.paths.2.queue_discipline=codel
	said path <<-'END'
		assert all(0.85 < g / (4 * wire) <= 1.01 for g in goodput), goodput
		assert all(20 < r < 50 for r in rtt), rtt
		assert engine["explained"]["retransmits"] > 0
	END
	flows marked --set network.sites.east.uplink.bandwidth='100 Mbit/s' --set network.paths.2.bandwidth='4 Mbit/s' \
		--set network.paths.2.queue='500 ms' --set network.paths.2.queue_discipline=codel --set network.paths.2.ecn=true
	said marked <<-'END'
		assert all(0.85 < g / (4 * wire) <= 1.01 for g in goodput), goodput
		assert engine["explained"]["retransmits"] == engine["explained"]["path_drops"] == 0, engine
	END
}

@test "a queue in bytes is one for packets of any size" {
	cat >short <<-'END'
		#!/usr/bin/env python3
		import os, socket, struct, time
		s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		if os.environ["LONGHAUL_NODE"] == "west/0":
		    s.bind(("", 5000))
		    s.settimeout(5)
		    longest = 0
		    try:
		        while True:
		            sent, = struct.unpack_from("q", s.recv(2000))
		            longest = max(longest, time.clock_gettime_ns(time.CLOCK_MONOTONIC) - sent)
		    except TimeoutError:
		        pass
		    print(longest / 1e6)
		elif os.environ["LONGHAUL_NODE"] == "east/0":
		    time.sleep(1)
		    # 200 bytes on the wire, twice as fast as the path carries
		    for i in range(1000):
		        s.sendto(struct.pack("q", time.clock_gettime_ns(time.CLOCK_MONOTONIC)) + bytes(150), ("west-0", 5000))
		        time.sleep(0.0004)
	END
	chmod +x short
	timeout "$run_limit_s" "$LONGHAUL" exec --all --no-probe --out bytes \
		--set network.sites.east.uplink.bandwidth='100 Mbit/s' --set network.paths.2.bandwidth='2 Mbit/s' \
		--set network.paths.2.queue='20 kB' shared.yaml -- "$PWD/short" >/dev/null
	# 20 kB at 2 Mbit/s, the way, and the packet itself
	python3 - <<-'END'
		longest = float(open("bytes/nodes/west-0.stdout").read())
		print(longest)
		assert abs(longest - (80 + 10 + 0.8)) < 2, longest
	END
}

# row 36
@test "an idle pair does not feel what another pair does" {
	command -v ping >/dev/null || skip "ping is not installed (Debian package: iputils-ping)"
	cat >beside <<-'END'
		#!/bin/bash
		case $LONGHAUL_NODE in
		*/0) duration_s=2 exec ./flows ;;
		west/2) sleep 4; exec ping -n -q -c 50 -i 0.02 west-3 ;;
		esac
	END
	chmod +x beside
	timeout "$run_limit_s" "$LONGHAUL" exec --all --no-probe --out beside.out shared.yaml -- "$PWD/beside" | tee said.txt
	# 2 ms both ways inside the site
	python3 -c 'import re; low, mean, high = map(float, re.search(r"= ([0-9.]+)/([0-9.]+)/([0-9.]+)/", open("said.txt").read()).groups()); print(low, high); assert 2 <= low and high < 3'
}
