#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A workload with a command under longhaul run: what programs report becomes the tables of trainers.

bats_require_minimum_version 1.5.0
load run

setup() {
	cd "$BATS_TEST_TMPDIR"
	need_python
	python=$(python3 -c 'import sys; print(sys.executable)') # where that is a script, it would be slow
	cat >base.yaml <<-'END'
		longhaul: 1
		name: base
		network:
		  network: two-sites
		  sites:
		    east: {provider: google, continent: europe}
		    west: {provider: google, continent: north-america}
		  paths:
		    - {between: [east, west], rtt: 40 ms, bandwidth: 200 Mbit/s}
		    - {between: [east, east], rtt: 0.6 ms, bandwidth: 1 Gbit/s}
		nodes:
		  - {site: east, count: 2, machine: generic}
		  - {site: west, machine: generic}
		run: {probe: none}
		pricing:
		  catalog:
		    prices: today
		    date: 2023-04
		    vm: [{machine: generic, spot: 0.36 USD/h, on_demand: 3.6 USD/h}]
		    egress: {google: {same_zone: 0 USD/GB, inter_continent: 0.08 USD/GB}}
		    storage: {b2: {egress: 0.01 USD/GB, storage: 0.005 USD/GB}}
	END
}

# Runs base.yaml with the workload of standard input: with_workload OUT [OPTION...]
with_workload() {
	local to=$1
	shift
	{ cat base.yaml; sed 's/^/  /' | sed '1i workload:'; } >"$to.yaml"
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" run --quiet --out "$to" "$@" "$to.yaml"
}

@test "lines that match count when they come, by rank and epoch" {
	with_workload out <<-'END'
		command: [sh, -c, 'for i in 1 2 3; do sleep $((RANK + 1)); echo "epoch $i of 3: $((10 * (RANK + 1))) samples, loss 0.$i"; echo other; done']
		progress: {pattern: 'epoch (?<epoch>\d+) .*: (?<samples>\d+) samples, loss (?<loss>[\d.]+)'}
	END
	check out <<-'END'
		epochs = rows("epochs.csv")
		assert [e["epoch"] for e in epochs] == ["1", "2", "3"]
		assert [e["samples"] for e in epochs] == ["60"] * 3
		# the slowest rank takes three seconds
		assert all(abs(float(e["wall_s"]) - 3) < 1e-3 for e in epochs), epochs
		assert [float(e["loss"]) for e in epochs] == [0.1, 0.2, 0.3]
		for unknown in "calculation_s communication_s wait_s transfer_s local_sps granularity".split():
		    assert [e[unknown] for e in epochs] == [""] * 3
		[t] = rows("throughput.csv")
		assert t["samples"] == "180" and abs(float(t["throughput_sps"]) - 20) < 0.01 and t["valid"] == "1"
		assert t["granularity"] == t["speedup"] == t["baseline_sps"] == ""
		vm = [r for r in rows("cost.csv") if r["item"] == "vm"]
		# 9 s at 0.36 and 3.6 USD/h
		assert [r["usd_micro"] for r in vm] == ["900"] * 3 + ["9000"] * 3, vm
		said = [e for e in events("progress") if e["rank"] == 2]
		assert [round((e["t_ns"] - said[0]["t_ns"]) / 1e9, 3) for e in said] == [0, 3, 6]
		assert not [r for r in rows("cost.csv") if r["item"] == "data"]
	END
	grep -q 'nothing is learnt' out/report.html && return 1
	grep -q 'the programs, which ran here' out/report.html
	[ -e out/nodes/east-1.stdout ]
}

@test "two runs and a rerun from another folder leave the same bytes" {
	cat >program.py <<-'END'
		import random, time
		for i in range(3):
		    time.sleep(random.random())
		    print("n", random.randrange(100))
	END
	with_workload one --no-figures <<-END
		command: [$python, program.py]
		progress: {pattern: 'n (?<samples>\\d+)'}
	END
	mv one.yaml two.yaml
	timeout "$run_limit_s" "$LONGHAUL" run --quiet --no-figures --out two two.yaml
	(cd / && timeout "$run_limit_s" "$LONGHAUL" rerun --quiet --no-figures --out "$BATS_TEST_TMPDIR/three" "$BATS_TEST_TMPDIR/one")
	diff -r -x wall.json one two
	diff -r -x wall.json one three
}

@test "a file of JSON Lines: each node its own, with warm-up, communication and loading priced" {
	{ echo 'data: {store: b2}'; cat base.yaml; } >with-data.yaml
	mv with-data.yaml base.yaml
	with_workload out <<-'END'
		command: [sh, -c, 'for i in 10 20 30; do sleep 2; echo "{\"epoch\": $i, \"total_samples\": $((i * 10)), \"comm_s\": 0.5}" >>reports.jsonl; done']
		progress: {file: reports.jsonl, warm_up: 1}
		bytes_per_sample: 1 MB
	END
	[ ! -e reports.jsonl ] # the nodes' pipes stood over it
	[ "$(wc -l <out/nodes/west-0.jsonl)" -eq 3 ]
	check out <<-'END'
		epochs = rows("epochs.csv")
		assert [(e["epoch"], e["samples"]) for e in epochs] == [("20", "300"), ("30", "300")]
		assert all(e["communication_s"] == "0.500000" and e["calculation_s"] == "" for e in epochs)
		assert all(abs(float(e["granularity"]) - 3) < 0.01 for e in epochs)
		assert epochs[0]["begin_s"] == "0.000000000" and abs(float(epochs[1]["end_s"]) - 4) < 0.01
		data = [r for r in rows("cost.csv") if r["item"] == "data" and r["scope"] == "spot"]
		assert [(r["node"], r["usd_micro"]) for r in data] == [(n, "2000") for n in ("east/0", "east/1", "west/0")]
	END
}

@test "one rank speaks for all, and the end that was asked for is no failure" {
	with_workload out --no-figures <<-'END'
		command: [sh, -c, 'while :; do sleep 1; [ $RANK = 1 ] && echo step; done']
		progress: {pattern: step, samples: 32, of: group}
		stop_after: 3.5 s
	END
	check out <<-'END'
		assert [e["samples"] for e in rows("epochs.csv")] == ["32"] * 3
		assert [n["ending"] for n in load("exec.json")["nodes"]] == ["stop after"] * 3
	END
	run -6 with_workload silent --no-figures <<-'END'
		command: [sh, -c, 'sleep 1; [ $RANK = 1 ] || exit 0; echo step']
		progress: {pattern: step, samples: 32}
	END
	[[ $output == *"invalid: east/0 reported no progress"*"progress.of: group"* ]]
}

@test "a program that fails fails the run: node, status, its last words, where the rest is" {
	run -1 with_workload out --no-figures <<-'END'
		command: [sh, -c, 'sleep 1; [ $RANK = 1 ] || sleep 1000; echo first >&2; echo "no such data" >&2; exit 3']
		progress: {pattern: '(?<samples>\d+)'}
	END
	[[ $output == *"the program in east/1 ended with status 3: no such data; what it said is in nodes/east-1.stderr (its files are kept in out.failed)"* ]]
	grep -qx first out.failed/nodes/east-1.stderr
	run -1 with_workload late --no-figures --set 'workload.time_limit=2.5 s' <<-'END'
		command: [sh, -c, 'while :; do sleep 1; echo 5; done']
		progress: {pattern: '(?<samples>\d+)'}
	END
	[[ $output == *"ran into the time limit"*"kept in late)"* ]]
	check late <<-'END'
		assert [t["valid"] for t in rows("throughput.csv")] == ["0"] and len(rows("epochs.csv")) == 2
	END
}

@test "what is said of nothing is nowhere: no reports, wrong ones, none that match" {
	with_workload whole <<-'END'
		command: [sleep, '3']
	END
	check whole <<-'END'
		[e], [t] = rows("epochs.csv"), rows("throughput.csv")
		assert abs(float(e["wall_s"]) - 3) < 1e-3 and e["samples"] == e["throughput_sps"] == ""
		assert t["valid"] == "1" and t["throughput_sps"] == t["samples"] == ""
		total = [r for r in rows("cost.csv") if r["item"] == "total"]
		assert len(total) == 2 and all(r["usd_per_million_samples"] == "" for r in total)
	END
	[ ! -e whole/figures/throughput.svg ] && [ -e whole/figures/cost.svg ]
	run -1 with_workload none --no-figures <<-'END'
		command: [echo, hello]
		progress: {pattern: 'n (?<samples>\d+)'}
	END
	[[ $output == *"no program reported progress: nothing that they said matched"* ]]
	run -6 with_workload wrong --no-figures <<-'END'
		command: [sh, -c, 'echo n 5; echo n five; sleep 1; echo n 5']
		progress: {pattern: 'n (?<samples>\w+)'}
	END
	[[ $output == *"invalid: rank 0 failed: cannot read its report 'n five'"* ]]
}

@test "repeat gives means over seeds, plot makes figures anew" {
	{ cat base.yaml; cat <<-'END'
		workload:
		  command: [sh, -c, 'sleep 1; echo 5']
		  progress: {pattern: '(?<samples>\d+)'}
	END
	} >r.yaml
	run -0 timeout "$run_limit_s" "$LONGHAUL" run --repeat 2 --quiet --no-figures --out out r.yaml
	[[ $output == *"throughput_sps "*" 2 "* ]]
	run -0 timeout "$run_limit_s" "$LONGHAUL" plot out/seed-1
	[ -e out/seed-1/report.html ]
}

@test "CPU time takes virtual time only where it is charged, and then it is said" {
	cat >burn.py <<-'END'
		import time
		begin = time.monotonic()
		total = sum(i * i for i in range(2000000))
		print("%.6f" % (time.monotonic() - begin))
	END
	free=$(timeout "$run_limit_s" "$LONGHAUL" exec --no-probe "$srcdir/tests/guest/small.yaml" -- "$python" burn.py)
	charged=$(timeout "$run_limit_s" "$LONGHAUL" exec --no-probe --charge-cpu --out out "$srcdir/tests/guest/small.yaml" -- "$python" burn.py 2>err)
	echo "free $free, charged $charged"
	awk -v free="$free" -v charged="$charged" 'BEGIN { exit !(free < 0.001 && charged > 0.01) }'
	grep -q 'another run differs' err
	grep -q '"charges_cpu": true' out/run.json && grep -q '"charges_cpu": true' out/engine.json
	# what spins goes on
	run -124 timeout "$run_limit_s" "$LONGHAUL" exec --no-probe --charge-cpu "$srcdir/tests/guest/small.yaml" -- \
		timeout 0.2 sh -c 'while :; do :; done'
	[[ $output != *"stands still"* ]]
}

@test "the scenario that ships runs from anywhere" {
	cd /
	timeout "$run_limit_s" "$LONGHAUL" run --quiet --no-figures --out "$BATS_TEST_TMPDIR/out" ring-4
	check "$BATS_TEST_TMPDIR/out" <<-'END'
		epochs = rows("epochs.csv")
		assert [e["samples"] for e in epochs] == ["1024"] * 5
		losses = [float(e["loss"]) for e in epochs]
		assert losses == sorted(losses, reverse=True) and losses[-1] < 0.2
		# 2 x 3/4 of 8 MB from every rank to the next, and nothing else but headers and acknowledgements
		wire = sum(int(r["wire_bytes"]) for r in rows("traffic.csv"))
		assert 1 < wire / (4 * 5 * 12e6) < 1.1, wire
	END
}

@test "a run that is ended keeps the epochs that all programs had reported" {
	{ cat base.yaml; cat <<-'END'
		workload:
		  command: [sh, -c, 'while :; do sleep 1; echo 5; done']
		  progress: {pattern: '(?<samples>\d+)'}
	END
	} >endless.yaml
	env --default-signal=INT "$LONGHAUL" run --clock real --quiet --no-figures --out out endless.yaml >said 2>err &
	pid=$!
	all_reported() { [ "$(grep -ls '"epoch":1,' out.partial-*/events/rank-*.jsonl | wc -l)" -eq 3 ]; }
	wait_for 40 all_reported
	kill -INT "$pid"
	status=0
	wait "$pid" || status=$?
	cat said err
	[ "$status" -eq 130 ]
	[[ $(cat said) == *"INVALID"*"the run was cut"* ]]
	[ "$(wc -l <out/epochs.csv)" -ge 2 ]
}
