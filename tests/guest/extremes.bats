#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Networks at the edges of what people ask for: fat and long paths, slow and fast ones, delays of
# minutes, jitter of microseconds, queues that fill and drain, packets of just the MTU. `row N`
# is a row of "What users of such tools ran into" in docs/emulation.md.

bats_require_minimum_version 1.5.0
load run

setup() {
	need_python
	cd "$BATS_TEST_TMPDIR"
	cat >two.yaml <<-'END'
		longhaul: 1
		network: two
		sites:
		  a: {provider: on-premise, continent: europe}
		  b: {provider: on-premise, continent: europe}
		paths:
		  - {between: [a, b], rtt: 40 ms, bandwidth: 10 Mbit/s}
	END
}

# Runs a program of python from standard input in both nodes: in_both OUT OPTION...
in_both() {
	local out=$1
	shift
	cat >program.py
	timeout --kill-after=5 100 "$LONGHAUL" exec --all --no-probe --out "$out" "$@" two.yaml -- python3 program.py
}

# prove OUT OPTION...: all rows have to hold.
prove() {
	local out=$1
	shift
	timeout --kill-after=5 100 "$LONGHAUL" verify --quiet --no-figures --out "$out" "$@" >"$out.txt" || {
		grep -v ' ok$' "$out.txt"
		return 1
	}
}

# rows 1, 2, 3, 38, 55
@test "nothing is lost at nine tenths of 5 Gbit/s with 300 ms on the way" {
	in_both fat --set network.paths.0.rtt='600 ms' --set network.paths.0.bandwidth='5 Gbit/s' \
		--set network.paths.0.queue='1000 packets' <<-'END'
		import os, socket, time
		if os.environ["LONGHAUL_NODE"] == "a/0":
		    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		    s.setsockopt(socket.SOL_UDP, 103, 1472) # UDP_SEGMENT: 44 full packets a call
		    s.setsockopt(socket.SOL_SOCKET, 32, 1 << 28) # SO_SNDBUFFORCE
		    batch, begin = bytes(44 * 1472), time.monotonic()
		    for i in range(4000):
		        time.sleep(max(0, begin + i * 44 * 1514 * 8 / 4.5e9 - time.monotonic()))
		        s.sendto(batch, ("b-0", 9))
		    print("sent in %.3f s" % (time.monotonic() - begin))
		else:
		    time.sleep(3)
	END
	check fat <<-'END'
		p = plan["paths"][0]
		# 123,844 full packets are in flight before the queue begins
		assert p["limit_pkts"] > 123844 and p["splits_segments"], p
		last = [r for r in rows("counters.csv") if r["from"] == "a/0"][-1]
		assert int(last["dropped_packets"]) == 0 and int(last["wire_packets"]) >= 4000 * 44, last
		assert engine["status"] == "done" and not any(engine["unexplained"].values()), engine
	END
}

# rows 22, 30, 10, 40
@test "rates from 1 Mbit/s to 45 Gbit/s are carried, around the 32-bit borders too" {
	python3 - >rates.yaml <<-'END'
		rates = "1 Mbit/s,10 Mbit/s,200 kbit/s,100 Mbit/s,1 Gbit/s,2.5 Gbit/s,10 Gbit/s,17.2 Gbit/s,34.3 Gbit/s,34.4 Gbit/s,40 Gbit/s,45 Gbit/s".split(",")
		print("longhaul: 1\nnetwork: rates\nsites:")
		for s in "abcd":
		    print(f"  {s}: {{provider: on-premise, continent: europe}}")
		print("paths:")
		pairs = [(a, b) for a in "abcd" for b in "abcd" if a != b]
		for (a, b), rate in zip(pairs, rates):
		    print(f"  - {{from: {a}, to: {b}, delay: 10 ms, bandwidth: {rate}}}")
	END
	prove rates rates.yaml
	[ "$(grep -c '^rate,.*,yes$' rates/verify.csv)" -eq 12 ]
}

# rows 27, 28
@test "300 s are stored to the nanosecond and measured" {
	sed -i 's/{between: \[a, b\], rtt: 40 ms,/{from: a, to: b, delay: 300000000001 ns, bandwidth: 10 Mbit\/s}\n  - {from: b, to: a, delay: 1 us,/' two.yaml
	prove long two.yaml
	python3 - <<-'END'
		import csv, json
		delays = {p["from"]: p["delay_ns"] for p in json.load(open("long/network.json"))["paths"]}
		assert delays == {"a/0": 300000000001, "b/0": 1000}, delays
		found = {r["from"]: float(r["achieved"]) for r in csv.DictReader(open("long/verify.csv")) if r["property"] == "delay"}
		# 106 bytes at 10 Mbit/s
		assert abs(found["a"] - 300000.0848) < 0.01 and abs(found["b"] - 0.0858) < 0.01, found
	END
}

# rows 15, 16, 20
@test "jitter of a fifth of a millisecond has its size, and no spikes" {
	prove fine --set network.paths.0.rtt='4 ms' --set network.paths.0.jitter='200 us' two.yaml
	python3 - <<-'END'
		import csv
		rows = [r for r in csv.DictReader(open("fine/verify.csv")) if r["property"] == "jitter"]
		assert len(rows) == 2 and all(abs(float(r["achieved"]) - 0.2) < 0.02 for r in rows), rows
		tail = [r for r in csv.DictReader(open("fine/jitter.csv")) if r["share"] == "0.999"]
		assert len(tail) == 2 and all(2 + 0.4 < float(r["achieved_ms"]) < 2 + 1 for r in tail), tail
	END
}

# rows 6, 8
@test "a backlog is no longer than its queue, and gone as soon as it is sent" {
	in_both drain --set network.paths.0.queue='500 ms' <<-'END'
		import os, socket, struct, time
		s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		s.setsockopt(socket.SOL_SOCKET, 32, 1 << 26) # SO_SNDBUFFORCE
		clock = time.monotonic
		begin, end = 12, 15 # 20 Mbit/s into 10
		if os.environ["LONGHAUL_NODE"] == "a/0":
		    s.settimeout(3)
		    time.sleep(begin - clock())
		    while clock() < end:
		        s.sendto(struct.pack("d", clock()) + bytes(1464), ("b-0", 5000))
		        time.sleep(1514 * 8 / 20e6)
		    # 500 ms and the last packet itself
		    time.sleep(end + 0.51 - clock())
		    asked = clock()
		    s.sendto(struct.pack("d", asked), ("b-0", 5000))
		    s.recv(100)
		    print("echo %.3f" % (1000 * (clock() - asked)))
		else:
		    s.bind(("", 5000))
		    longest = 0
		    while True:
		        data, peer = s.recvfrom(2000)
		        now, (sent,) = clock(), struct.unpack_from("d", data)
		        if len(data) == 8:
		            s.sendto(data, peer)
		            break
		        longest, last = max(longest, now - sent), now
		    print("longest %.3f\nlast %.4f" % (1000 * longest, last - end))
	END
	check drain <<-'END'
		said = dict(line.split() for node in "ab" for line in open(f"{out}/nodes/{node}-0.stdout"))
		print(said, engine["explained"])
		assert 515 < float(said["longest"]) < 525, said
		assert 0.51 < float(said["last"]) < 0.53, said
		assert 40 < float(said["echo"]) < 40.3, said
		assert engine["explained"]["path_drops"] > 1000
	END
}

# row 13
@test "a fetch takes two round trips: one to connect, one to ask" {
	command -v curl >/dev/null || skip "curl is not installed (Debian package: curl)"
	echo x >file
	cat >fetch <<-'END'
		#!/bin/sh
		case $LONGHAUL_NODE in
		a/0) timeout 8 python3 -m http.server 8000 ;;
		b/0) sleep 5; curl -sS -o /dev/null -w '%{time_connect} %{time_starttransfer}\n' http://a-0:8000/file ;;
		esac
		true
	END
	chmod +x fetch
	timeout --kill-after=5 60 "$LONGHAUL" exec --all --no-probe --out fetched two.yaml -- ./fetch
	awk '{ print; if ($1 < 0.040 || $1 > 0.041 || $2 < 0.080 || $2 > 0.083) exit 1 } END { exit !NR }' fetched/nodes/b-0.stdout
}

@test "a packet of just the MTU passes whole, one byte more is refused" {
	in_both mtu --set network.mtu='1460 B' <<-'END'
		import errno, os, socket
		s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		if os.environ["LONGHAUL_NODE"] == "a/0":
		    s.setsockopt(socket.IPPROTO_IP, 10, 2) # IP_MTU_DISCOVER: do not fragment
		    s.connect(("b-0", 5000))
		    try:
		        s.send(bytes(1460 - 28 + 1))
		        print("passed")
		    except OSError as e:
		        print(errno.errorcode[e.errno], s.getsockopt(socket.IPPROTO_IP, 14)) # IP_MTU
		    s.send(bytes(1460 - 28))
		else:
		    s.bind(("", 5000))
		    print(len(s.recv(2000)))
	END
	[ "$(cat mtu/nodes/a-0.stdout)" = "EMSGSIZE 1460" ]
	[ "$(cat mtu/nodes/b-0.stdout)" = 1432 ]
}
