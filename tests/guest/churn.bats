#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Nodes that are preempted, come back, join late and are slow: what their peers see, what is killed
# and started, what is counted and paid.

bats_require_minimum_version 1.5.0
load run

setup() {
	cd "$BATS_TEST_TMPDIR"
	need_python
	python=$(python3 -c 'import sys; print(sys.executable)')
	cat >base.yaml <<-'END'
		longhaul: 1
		name: base
		network:
		  network: two-sites
		  sites:
		    east: {provider: google, continent: europe}
		    west: {provider: google, continent: north-america}
		  paths:
		    - {between: [east, west], rtt: 40 ms, bandwidth: 20 Mbit/s}
		    - {between: [east, east], rtt: 0.6 ms, bandwidth: 1 Gbit/s}
		nodes:
		  - {site: east, count: 2, machine: generic}
		  - {site: west, machine: generic}
		run: {probe: none, guest_memory: 1 GiB}
	END
}

# Runs base.yaml with what standard input has behind it: play OUT [OPTION...]
play() {
	local to=$1
	shift
	cat base.yaml - >"$to.yaml"
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" run --quiet --no-figures --out "$to" "$@" \
		"$to.yaml" >"$to.txt" 2>&1 || { cat "$to.txt"; return 1; }
}

# Seconds from the begin, in what programs say: python's `say(...)` and the shell's `now`.
say='
import os, time, json
def say(*words): print("%.3f" % time.monotonic(), os.environ["LONGHAUL_INCARNATION"], *words, flush=True)
'

@test "a preempted node falls silent at once: its peers see neither end nor reset, until it is back" {
	cat >talk.py <<-END
		$say
		import socket
		first = os.environ["LONGHAUL_HOSTS"].split()[0]
		if os.environ["RANK"] == "2" and os.environ["LONGHAUL_INCARNATION"] == "0":
		    s = socket.create_connection((first, 5000))
		    while True:
		        s.send(bytes(50000))
		        time.sleep(0.1)
		elif os.environ["RANK"] == "0":
		    listener = socket.create_server(("", 5000))
		    s, _ = listener.accept()
		    s.settimeout(1)
		    n = 0
		    while True:
		        try:
		            n = len(s.recv(1 << 20))
		            if not n: say("end")
		        except TimeoutError:
		            say("silence")
		            # what is sent is answered by nobody; by the new node with a reset
		            s.send(b"x")
		        except OSError as e:
		            say("error", e.errno)
		            break
		        if not n: break
		else:
		    time.sleep(30)
	END
	play out <<-END
		workload: {command: [$python, talk.py], stop_after: 30 s}
		timeline:
		  - {at: 5 s, preempt: west/0, return_after: 10 s}
	END
	check out <<-'END'
		begin = engine["begin_ns"] / 1e9
		said = [line.split() for line in open(os.path.join(out, "nodes", "east-0.stdout"))]
		at = [float(s[0]) - begin for s in said]
		assert [s[2] for s in said[:-1]] == ["silence"] * (len(said) - 1), said
		assert said[-1][2:] == ["error", "104"], said
		# the last data came up to 100 ms before the cut; silence is told a second later
		assert 5.9 <= at[0] <= 6.1, at
		# what was sent into the silence is sent again, ever more seldom: answered once it is there
		assert 15 <= at[-1] <= 26, at
		assert engine["status"] == "done" and not any(engine["unexplained"].values()), engine
		counts = {}
		for r in rows("counters.csv"):
		    if (r["from"], r["to"]) == ("west/0", "east/0"):
		        counts[round(int(r["t_ns"]) / 1e9 - begin)] = int(r["wire_packets"])
		# the second sample after the cut is the last with anything new, for ten seconds
		assert not [t for t in counts if 6 < t < 15] , counts
		f = rows("faults.csv")
		assert [(r["node"], r["event"], r["cause"]) for r in f] == [
		    ("west/0", "preempt", "timeline"), ("west/0", "return", "timeline")], f
		assert all(0 <= float(r["t_s"]) - float(r["planned_s"]) < 0.001 for r in f), f
	END
}

@test "all that runs on a node is killed, and its program starts anew" {
	play out <<-'END'
		workload: {command: [sh, -c, 'sleep 1000 & echo $LONGHAUL_INCARNATION; ls -d /proc/[0-9]* | wc -l; sleep 8'], stop_after: 60 s}
		timeline:
		  - {at: 3 s, preempt: [east/1, west], return_after: 2 s}
		  - {at: 7 s, preempt: west/0, return_after: 500 ms}
		  - {at: 1 s, preempt: east/0}
	END
	check out <<-'END'
		said = lambda node: open(os.path.join(out, "nodes", node + ".stdout")).read().split()
		first = said("east-0")
		assert first[0] == "0" and len(first) == 2
		# each time as few processes as the first: none is left over
		assert said("east-1") == ["0", first[1], "1", first[1]]
		assert said("west-0") == ["0", first[1], "1", first[1], "2", first[1]]
		nodes = {n["node"]: n for n in load("exec.json")["nodes"]}
		assert [nodes[n]["starts"] for n in ("east/0", "east/1", "west/0")] == [1, 2, 3]
		assert [nodes[n]["ending"] for n in ("east/0", "east/1", "west/0")] == ["preempted", "ended", "ended"]
		assert [n["status"] for n in nodes.values()] == [0, 0, 0]
		# 7.5 s, and 8 of the last
		assert abs((engine["end_ns"] - engine["begin_ns"]) / 1e9 - 15.5) < 0.01
		names = sorted(os.listdir(os.path.join(out, "events")))
		assert names == ["rank-0.jsonl", "rank-1.1.jsonl", "rank-1.jsonl", "rank-2.1.jsonl", "rank-2.2.jsonl", "rank-2.jsonl"]
	END
}

@test "notice comes before: who ends then is not killed, and has not failed" {
	cat >told.py <<-END
		$say
		import signal, subprocess, sys
		def end(*_):
		    say("told")
		    sys.exit(7)
		child = subprocess.Popen(["sleep", "1000"])
		if os.environ["RANK"] == "1":
		    signal.signal(signal.SIGTERM, end)
		if os.environ["RANK"] == "2":
		    signal.signal(signal.SIGTERM, lambda *_: say("told"))
		try:
		    child.wait(20)
		    say("child", child.returncode)
		    time.sleep(20)
		except subprocess.TimeoutExpired:
		    pass
	END
	play out <<-END
		workload: {command: [$python, told.py]}
		timeline:
		  - {at: 6 s, preempt: [east/1, west/0], notice: 4 s, return_after: 1 s}
	END
	check out <<-'END'
		begin = engine["begin_ns"] / 1e9
		said = lambda node: [w.split() for w in open(os.path.join(out, "nodes", node + ".stdout"))]
		told = said("east-1")[0]
		assert told[1:] == ["0", "told"] and abs(float(told[0]) - begin - 2) < 0.01, told
		# the one that stays lives on until it is killed, but its child has had the signal, too
		stays = said("west-0")
		assert [w[1:] for w in stays] == [["0", "told"], ["0", "child", "-15"]], stays
		assert not said("east-0")
		assert [(r["node"], r["event"], r["planned_s"][:1]) for r in rows("faults.csv")] == [
		    ("east/1", "notice", "2"), ("west/0", "notice", "2"), ("east/1", "preempt", "6"),
		    ("west/0", "preempt", "6"), ("east/1", "return", "7"), ("west/0", "return", "7")]
		assert [n["starts"] for n in load("exec.json")["nodes"]] == [1, 2, 2]
		assert load("exec.json")["status"] == 0
	END
}

@test "a node that joins late is not there before, and no VM is paid that is away" {
	sed -i 's/  - {site: west, machine: generic}/  - {site: west, machine: generic, joins_at: 9 s}/' base.yaml
	play out <<-'END'
		workload: {command: [sh, -c, 'case $RANK in 0) for i in 1 2 3; do timeout 4 sh -c "ping -c1 -W3 west-0" >/dev/null 2>&1; sleep 4; done;; *) sleep 18;; esac']}
		timeline:
		  - {at: 6 s, preempt: east/1, return_after: 6 s}
		  - {at: 13 s, join: east/0}
		pricing:
		  catalog:
		    prices: today
		    date: 2023-04
		    vm: [{machine: generic, spot: 0.36 USD/h}]
		    egress: {google: {same_zone: 0 USD/GB, inter_continent: 0.08 USD/GB}}
	END
	check out <<-'END'
		wall = (engine["end_ns"] - engine["begin_ns"]) / 1e9
		vm = {r["node"]: r for r in rows("cost.csv") if r["item"] == "vm" and r["scope"] == "spot"}
		# 0.1 milli-dollar a second
		for node, away in ("east/0", 13), ("east/1", 6), ("west/0", 9):
		    assert abs(float(vm[node]["quantity"]) * 3600 - (wall - away)) < 0.01, (node, vm[node], wall)
		    assert abs(int(vm[node]["usd_micro"]) - 100 * (wall - away)) <= 1, vm[node]
		begin = engine["begin_ns"]
		starts = {n["node"]: round((n["begin_ns"] - begin) / 1e9, 3) for n in load("exec.json")["nodes"]}
		assert starts == {"east/0": 13, "east/1": 12, "west/0": 9}, starts
		assert [r["event"] for r in rows("faults.csv")] == ["absent", "absent", "preempt", "join", "return", "join"]
	END
	grep -q "a VM is not paid while it is away: together" out.txt
}

@test "spot interruptions happen as planned, and the same seed gives the same bytes" {
	for out in one two; do
		play $out <<-'END'
			workload: {command: [sleep, 1000], stop_after: 100 s}
			spot: {mean_time_to_preemption: 6 s, mean_return: 2 s, for: 100 s, notice: 1 s}
		END
	done
	cmp one/faults.csv two/faults.csv
	for file in one/events/*; do
		cmp "$file" "two/events/${file##*/}"
	done
	check one <<-'END'
		planned = [(a["node"], a["from_ns"], a.get("to_ns")) for a in plan["absences"]]
		happened = rows("faults.csv")
		assert len(planned) > 20
		for kind, at in ("preempt", 1), ("return", 2):
		    a = sorted((p[0], p[at] / 1e9) for p in planned if p[at] and p[at] < 100e9)
		    b = sorted((r["node"], float(r["planned_s"])) for r in happened if r["event"] == kind)
		    assert a == b, (kind, a, b)
		assert max(float(r["t_s"]) - float(r["planned_s"]) for r in happened) < 0.001
	END
}

@test "what a program had reported before it was lost counts once" {
	play out <<-'END'
		workload:
		  command: [sh, -c, 'i=0; while [ $i -lt 6 ]; do sleep 2; echo "epoch $i: 10 samples"; i=$((i + 1)); done; printf "epoch 6: 10 samp"; sleep 1; echo les; sleep 1']
		  progress: {pattern: 'epoch (?<epoch>\d+): (?<samples>\d+) samples'}
		timeline:
		  - {at: 12500 ms, preempt: west/0, return_after: 1500 ms}
	END
	check out <<-'END'
		[t] = rows("throughput.csv")
		# west/0 begins again: what it had done is lost, and nothing is counted twice
		assert t["epochs"] == "7" and t["samples"] == "210" and t["valid"] == "1", t
		assert abs(float(t["wall_s"]) - 27) < 0.01, t
	END
}

@test "trainers of a fixed group fail within the stated time, and say whom they lost" {
	start=$(timeout 20 "$LONGHAUL" run --dry-run --json "$srcdir/tests/guest/small.yaml" |
		python3 -c 'import json, sys; print(json.load(sys.stdin)["trainer"]["start_timeout_ns"])')
	run -1 small lost --set timeline='[{at: 3 s, preempt: west/0}]'
	[[ $output == *"the trainer of east/"*" ended with status 1, after west/0 (rank 2) was preempted at 3 s;"* ]]
	check lost.failed <<-END
		seconds = (engine["end_ns"] - engine["begin_ns"]) / 1e9
		# a silent peer counts as dead after at least a minute
		assert seconds <= 3 + max(60, $start / 1e9) + 5, seconds
		assert "Connection timed out" in open(os.path.join(out, "events", "rank-0.log")).read()
	END
	# one that comes back has nothing of what was connected, so that the others know at once
	run -1 small back --set timeline='[{at: 3 s, preempt: west/0, return_after: 2 s}]'
	[[ $output == *", after west/0 (rank 2) was preempted at 3 s;"* ]]
	grep -q "strategy butterfly takes no rank back that was lost: rank 2 was started 1 times before" \
		back.failed/events/rank-2.log
	check back.failed <<-'END'
		assert (engine["end_ns"] - engine["begin_ns"]) / 1e9 < 10
		assert [e["rank"] for e in events("error")].count(2) == 1
	END
	run -1 small all --set timeline='[{at: 3 s, preempt: [east, west]}]'
	[[ $output == *"all nodes were taken away before the training came to its end"* ]]
}

@test "a rank that joins within the time that others wait is one of them" {
	small out --set timeline='[{at: 6 s, join: west/0}]'
	check out <<-'END'
		assert engine["status"] == "done" and not any(engine["unexplained"].values()), engine
		[t] = rows("throughput.csv")
		assert t["epochs"] == "2" and t["valid"] == "1", t
		[start] = [e for e in events("start") if e["rank"] == 2]
		assert abs((start["t_ns"] - engine["begin_ns"]) / 1e9 - 6) < 0.01
	END
}

@test "a straggler computes as much slower as is asked, and only then" {
	small even --set workload.epochs=3
	small slow --set workload.epochs=3 --set 'timeline=[{at: 0 s, slow: west/0, factor: 4, for: 2 s}]'
	for out in even slow; do
		check $out <<-'END' >$out.samples
			for e in events("compute"):
			    if e["epoch"] == 0:
			        print(e["rank"], e["samples"], (e["end_ns"] - e["begin_ns"]) / 1e9)
		END
	done
	python3 - <<-'END'
		even, slow = ({int(r): (int(s), float(t)) for r, s, t in map(str.split, open(f + ".samples"))} for f in ("even", "slow"))
		sps = lambda x: x[0] / x[1]
		assert abs(sps(even[2]) - 100) < 3 and abs(sps(slow[0]) - 100) < 3
		# 100 samples/s, for two seconds a quarter of it; begun up to half a second later than time 0
		s, t = slow[2]
		assert 100 * (t - 2) + 50 - 20 <= s <= 100 * (t - 1.5) + 37.5 + 20, slow
	END
}
