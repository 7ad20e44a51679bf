#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Paths that change in time: what is asked for, when, and that nothing is lost or reordered by it.
# `row N` is one of "What users of such tools ran into" in docs/emulation.md.

bats_require_minimum_version 1.5.0
load run

setup() {
	need_python
	cd "$BATS_TEST_TMPDIR"
	cat >stream.py <<-'END'
		# Numbered packets from rank 1 to rank 0: stream.py SECONDS GAP_MS BYTES. Rank 0 writes
		# "number sent arrived" of each, in seconds from the start, in the order of arrival.
		import os, socket, struct, sys, time
		seconds, gap, size = float(sys.argv[1]), float(sys.argv[2]) / 1000, int(sys.argv[3])
		first = os.environ["LONGHAUL_HOSTS"].split()[0]
		s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		if os.environ["RANK"] == "1":
		    t = time.monotonic()
		    for i in range(round(seconds / gap)):
		        time.sleep(max(0, t + i * gap - time.monotonic()))
		        s.sendto(struct.pack(">Qd", i, time.monotonic()) + bytes(size - 16), (first, 5000))
		elif os.environ["RANK"] == "0":
		    s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
		    s.setsockopt(socket.SOL_SOCKET, 35, 1)
		    s.bind(("", 5000))
		    s.settimeout(3)
		    offset = time.clock_gettime(time.CLOCK_REALTIME) - time.monotonic()
		    try:
		        while True:
		            data, control, _, _ = s.recvmsg(2000, 64)
		            number, sent = struct.unpack(">Qd", data[:16])
		            arrived = struct.unpack("qq", control[0][2])
		            print(number, "%.9f" % sent, "%.9f" % (arrived[0] - offset + arrived[1] / 1e9))
		    except TimeoutError:
		        pass
	END
	cat >two.yaml <<-'END'
		longhaul: 1
		name: two
		network:
		  network: two
		  sites:
		    east: {provider: on-premise, continent: europe}
		    west: {provider: on-premise, continent: north-america}
		  paths:
		    - {between: [east, west], rtt: 200 ms, bandwidth: 20 Mbit/s, queue: 100 ms}
		nodes:
		  - {site: east, machine: generic}
		  - {site: west, machine: generic}
		workload: {command: ["true"]}
		run: {probe: none, guest_memory: 1 GiB}
	END
}

# Runs a program in all nodes of two.yaml with a timeline: play OUT TIMELINE COMMAND...
play() {
	local out=$1 timeline=$2
	shift 2
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" exec --out "$out" --all \
		--set timeline="$timeline" two.yaml -- "$@" >"$out.txt"
}

# What came, for python on standard input: packets() is a list of (number, sent, arrived), in
# seconds from the begin, and changes() the rows of timeline.csv with all numbers as such.
came() {
	python3 -c '
import csv, json, os, sys
out = sys.argv[1]
engine = json.load(open(os.path.join(out, "engine.json")))
begin = engine["begin_ns"] / 1e9
def packets():
    for line in open(os.path.join(out, "nodes", "east-0.stdout")):
        number, sent, arrived = line.split()
        yield int(number), float(sent) - begin, float(arrived) - begin
def changes():
    for r in csv.DictReader(open(os.path.join(out, "timeline.csv"))):
        yield {k: v if k in ("from", "to") else float(v) for k, v in r.items()}
# Mbit/s of 1472 bytes of payload, which fill a packet, that arrived from one time to another
def rate(came, begin, end):
    return sum(begin <= t < end for _, _, t in came) * 1514 * 8 / (end - begin) / 1e6
assert engine["status"] == "done" and not any(engine["unexplained"].values()), engine
exec(sys.stdin.read())' "$1"
}

# row 18
@test "a delay of 100 ms becomes 20 and 100 again: nothing is lost, nothing reordered" {
	play delay '[{at: 1 s, path: [east, west], rtt: 40 ms, for: 1 s}]' python3 "$PWD/stream.py" 2.5 1 100
	came delay <<-'END'
		came = list(packets())
		assert [number for number, _, _ in came] == list(range(2500))
		for number, sent, arrived in came:
		    if sent < 0.999 or sent > 2.001:
		        assert abs(arrived - sent - 0.1) < 0.0002, (sent, arrived)
		    elif 1.08 < sent < 1.999:
		        assert abs(arrived - sent - 0.02) < 0.0002, (sent, arrived)
		    else:
		        # behind those that were under way
		        assert 0.0199 < arrived - sent < 0.1002, (sent, arrived)
		rows = list(changes())
		assert len(rows) == 4
		for r in rows:
		    assert 0 <= r["applied_ns"] - r["planned_ns"] < 20000 and r["skew_ns"] < 20000, r
		assert [r["delay_ns"] for r in rows] == [20e6, 20e6, 100e6, 100e6]
		assert rows[0]["planned_ns"] == engine["begin_ns"] + 1e9
	END
}

@test "a saturated path changes its rate at once, and its queue is what is written" {
	play rate '[{at: 1 s, path: [east, west], bandwidth: 5 Mbit/s, for: 1 s}]' python3 "$PWD/stream.py" 2.6 0.5 1472
	came rate <<-'END'
		came = list(packets())
		assert [n for n, _, _ in came] == sorted(n for n, _, _ in came)
		# after the delay of 100 ms
		assert abs(rate(came, 0.3, 1.1) / 20 - 1) < 0.01, rate(came, 0.3, 1.1)
		assert abs(rate(came, 1.11, 2.09) / 5 - 1) < 0.01, rate(came, 1.11, 2.09)
		assert abs(rate(came, 2.11, 2.6) / 20 - 1) < 0.01, rate(came, 2.11, 2.6)
		# what waits waits 100 ms at the present rate; what waited before goes on at the new one
		def longest(begin, end):
		    return max(t - sent for _, sent, t in came if begin <= sent < end)
		assert abs(longest(0.5, 0.8) - 0.2) < 0.002, longest(0.5, 0.8)
		assert abs(longest(1.6, 1.89) - 0.2) < 0.004, longest(1.6, 1.89)
		assert 0.45 < longest(0.9, 1) < 0.51, longest(0.9, 1)
	END
}

@test "one direction changes, the other does not" {
	play one '[{at: 1 s, from: west, to: east, delay: 300 ms, for: 10 s}]' sh -c '
		[ "$RANK" -eq 1 ] || { sleep 3; exit; }
		sleep 1.5
		ping -c 1 east-0; exec ping -c 1 -W 1 east-0'
	run -0 grep 'time=400 ms' one/nodes/west-0.stdout
	came one <<-'END'
		assert {(r["from"], r["to"]) for r in changes()} == {("west", "east")}
	END
}

# row 36
@test "a site is cut off, and returns; what was under way arrives" {
	play cut '[{at: 1 s, site: west, cut_off: true, for: 500 ms}]' python3 "$PWD/stream.py" 2 1 100
	came cut <<-'END'
		came = list(packets())
		lost = sorted(set(range(2000)) - {n for n, _, _ in came})
		# sent while it was cut off, and no other
		assert abs(len(lost) - 500) <= 1 and lost[-1] - lost[0] == len(lost) - 1, lost
		assert all(abs(t - sent - 0.1) < 0.0002 for _, sent, t in came)
		assert engine["explained"]["path_losses"] == len(lost), engine["explained"]
	END
}

@test "training survives a site that is cut off for 30 s, and its run is valid" {
	small cut --set workload.epochs=3 --set 'timeline=[{at: 7.3 s, site: west, cut_off: true, for: 30 s}]'
	check cut <<-'END'
		assert engine["status"] == "done", engine
		assert engine["explained"]["path_losses"] > 0 and engine["explained"]["timeouts"] > 0
		assert not any(engine["unexplained"].values()), engine
		epochs = rows("epochs.csv")
		assert len(epochs) == 3
		walls = [float(r["wall_s"]) for r in epochs]
		# TCP waits, tries, and waits for twice as long
		assert max(walls) > 28 and sum(walls) < 3 * 4 + 65, walls
		assert rows("throughput.csv")[0]["valid"] == "1"
		plain = {(r["from"], r["to"]) for r in rows("timeline.csv")}
		assert plain == {("east", "west"), ("west", "east")}, plain
	END
}

@test "a trace from a CSV file is followed, interval by interval, and a rerun needs no file" {
	printf 'time_s,rate_mbps,delay_ms\n0,8,50\n0.5,2,20\n1,0,20\n1.5,15.5,30\n' >trace.csv
	play csv '[{at: 200 ms, from: west, to: east, trace: {csv: trace.csv, repeat: true}}]' \
		python3 "$PWD/stream.py" 3 0.6 1472
	cat >follow.py <<-'END'
		came = list(packets())
		assert [n for n, _, _ in came] == sorted(n for n, _, _ in came)
		for i in range(5):
		    mbps, delay = [(8, 0.05), (2, 0.02), (0, 0.02), (15.5, 0.03)][i % 4]
		    # where the intervals before and after cannot be seen; a packet more or less
		    begin, end = 0.2 + i * 0.5 + 0.12, 0.2 + i * 0.5 + 0.5
		    seen = rate(came, begin, end)
		    assert abs(seen - mbps) <= 0.01 * mbps + 1514 * 8 / (end - begin) / 1e6, (i, mbps, seen)
		# over whole rounds nothing is won or lost
		assert abs(rate(came, 0.7, 2.7) / 6.375 - 1) < 0.02, rate(came, 0.7, 2.7)
	END
	came csv <follow.py
	rm trace.csv
	python3 -c '
import json
doc = json.load(open("csv/run.json"))["scenario"]
assert doc["timeline"][0]["trace"]["table"].startswith("time_s,rate_mbps,delay_ms\n0,8,50\n"), doc
json.dump(doc, open("again.yaml", "w"))'
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" exec --out again --all again.yaml >again.txt
	cmp csv/timeline.csv again/timeline.csv
	cmp csv/nodes/east-0.stdout again/nodes/east-0.stdout
}

@test "a packet-delivery trace of a path of the network is followed from the start" {
	# 1 ms, then nothing, then bursts: 1 s
	python3 - >phone.trace <<-'END'
		for ms in range(1, 301): print(ms)
		for ms in range(501, 1001):
		    for _ in range(ms // 500): print(ms)
	END
	sed -i 's/queue: 100 ms/queue: 30 packets, trace: {mahimahi: phone.trace, interval: 50 ms}/' two.yaml
	play phone '[]' python3 "$PWD/stream.py" 2.2 0.4 1472
	came phone <<-'END'
		came = list(packets())
		lines = [int(line) for line in open("phone.trace")]
		total = 0
		for i in range(20):
		    # in the second round, behind 100 ms of delay; a millisecond of what was before
		    before = sum(i * 50 - 50 < (ms + 50) % 1000 - 50 <= i * 50 for ms in lines)
		    begin = 1.1 + i * 0.05
		    seen = sum(begin <= t < begin + 0.05 for _, _, t in came)
		    asked = sum(i * 50 < ms <= i * 50 + 50 for ms in lines)
		    total += seen
		    assert abs(seen - asked) <= 2 + 0.02 * max(asked, before), (i, seen, asked)
		assert abs(total / len(lines) - 1) < 0.01, (total, len(lines))
	END
}

@test "loss, jitter and duplicates come and go, and repeat with the seed" {
	local timeline='[{at: 500 ms, path: [east, west], loss: 20 %, for: 500 ms},
		{at: 1.5 s, path: [east, west], jitter: 5 ms, for: 500 ms},
		{at: 2.5 s, path: [east, west], duplicate: 20 %, for: 500 ms},
		{at: 3.5 s, path: [east, west], loss: 20 %, loss_burst: 4, for: 500 ms}]'
	play one "$timeline" python3 "$PWD/stream.py" 4.5 1 100
	play two "$timeline" python3 "$PWD/stream.py" 4.5 1 100
	for file in timeline.csv counters.csv nodes/east-0.stdout; do
		cmp one/$file two/$file
	done
	came one <<-'END'
		import statistics
		came = list(packets())
		def sent(begin):
		    return [p for p in came if begin + 0.05 <= p[1] < begin + 0.45]
		def share(begin):
		    return 1 - len(sent(begin)) / 400
		for quiet in 0, 1, 2, 3, 4:
		    assert abs(share(quiet)) < 0.003, (quiet, share(quiet))
		# four standard deviations
		assert abs(share(0.5) - 0.2) < 0.08, share(0.5)
		assert abs(share(3.5) - 0.2) < 0.2 and share(3.5) > 0, share(3.5)
		assert abs(-share(2.5) - 0.2) < 0.08, share(2.5)
		late = [t - s for _, s, t in sent(1.5)]
		assert statistics.pstdev(late) > 0.001 and 0.1 < statistics.mean(late) < 0.12, late[:9]
		# in time, too, jitter keeps the order
		assert [n for n, _, _ in sent(1.5)] == sorted(n for n, _, _ in sent(1.5))
	END
}

# row 56
@test "all paths of many sites change together" {
	python3 - >many.yaml <<-'END'
		n = 24
		print("longhaul: 1\nname: many\nnetwork:\n  network: many\n  sites:")
		for i in range(n): print("    s%d: {provider: on-premise, continent: europe}" % i)
		print("  paths:")
		for i in range(n):
		    for j in range(i):
		        print("    - {between: [s%d, s%d], rtt: 50 ms, bandwidth: 1 Gbit/s}" % (i, j))
		print("nodes:")
		for i in range(n): print("  - {site: s%d, machine: generic}" % i)
		print("run: {probe: none}\ntimeline:")
		for i in range(n):
		    for j in range(i):
		        print("  - {at: 1 s, path: [s%d, s%d], rtt: 10 ms, bandwidth: 100 Mbit/s, for: 1 s}" % (i, j))
	END
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" exec --out many --all many.yaml -- \
		sh -c 'sleep 1.5; ping -c 1 -q s$(((RANK + 7) % 24))-0 | grep rtt; sleep 1' >many.txt
	[ "$(grep -c 'rtt.*= 10\.[01]' many/nodes/*.stdout | grep -c ':1$')" -eq 24 ]
	came many <<-'END'
		rows = list(changes())
		assert len(rows) == 2 * 24 * 23
		assert max(r["skew_ns"] for r in rows) < 1e6, max(r["skew_ns"] for r in rows)
		assert max(r["applied_ns"] - r["planned_ns"] for r in rows) < 1e6
	END
}
