#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# longhaul verify: what it measures of networks, and that it says where one misses.

bats_require_minimum_version 1.5.0
load run

setup() {
	need_python
	cd "$BATS_TEST_TMPDIR"
	small_scenario=$srcdir/tests/guest/small.yaml
}

verify() {
	timeout "$run_limit_s" "$LONGHAUL" verify --quiet "$@"
}

# achieved OUT PROPERTY FROM TO
achieved() {
	awk -F, -v p="$2" -v a="$3" -v b="$4" '$1 == p && $4 == a && $5 == b { print $8 }' "$1/verify.csv"
}

@test "a scenario's network is proved path by path" {
	verify --out out "$small_scenario" >out.txt
	for file in verify.csv verify.json run.json network.json engine.json wall.json guest.log; do
		[ -e "out/$file" ]
	done
	[ -z "$(ls -d out.* | grep -v txt)" ]
	python3 - <<-'END'
		import csv, json
		rows = list(csv.DictReader(open("out/verify.csv")))
		assert all(r["ok"] == "yes" for r in rows), rows
		count = {}
		for r in rows:
		    count[r["property"]] = count.get(r["property"], 0) + 1
		assert count == {"timer-lateness": 1, "delay": 6, "overtaken": 6, "loss": 6, "rate": 6,
		                 "serialisation": 6, "queue": 4, "unexplained-losses": 1}, count
		doc = json.load(open("out/verify.json"))
		assert doc["ok"] and doc["paths"] == doc["all_paths"] == 6 and len(doc["rows"]) == len(rows)
		for r in rows:
		    target, got = float(r["target"]), float(r["achieved"])
		    if r["property"] == "rate":
		        assert abs(got / target - 1) < 0.01, r
		    if r["property"] == "serialisation":
		        # 1408 bytes more, at 200 Mbit/s or 1 Gbit/s
		        assert abs(target - (0.05632 if "west" in r["from"] + r["to"] else 0.011264)) < 1e-9, r
		        assert abs(got - target) < 0.002, r
	END
	grep -q "all as asked for" out.txt
}

@test "the same proof twice is the same, byte for byte" {
	verify --out one --sample 2 --set network.paths.0.jitter='1 ms' "$small_scenario"
	verify --out two --sample 2 --set network.paths.0.jitter='1 ms' "$small_scenario"
	cmp one/verify.csv two/verify.csv
	[ "$(grep -c '^delay\|^delay-mean' one/verify.csv)" -eq 2 ]
}

# rows 32, 54
@test "each direction is measured by itself" {
	cat >net.yaml <<-END
		longhaul: 1
		network: asymmetric
		sites:
		  a: {provider: on-premise, continent: europe}
		  b: {provider: on-premise, continent: europe}
		paths:
		  - {from: a, to: b, delay: 5 ms, bandwidth: 50 Mbit/s, loss: 2 %, queue: 30 ms}
		  - {from: b, to: a, delay: 30 ms, bandwidth: 1 Mbit/s, jitter: 3 ms, queue: 400 ms}
	END
	verify --out out net.yaml
	python3 - <<-'END'
		import csv
		v = {(r["property"], r["from"]): float(r["achieved"]) for r in csv.DictReader(open("out/verify.csv"))}
		assert abs(v["delay", "a"] - 5) < 0.1 and abs(v["delay-mean", "b"] - 30.85) < 0.5, v
		assert abs(v["rate", "a"] - 50) < 0.5 and abs(v["rate", "b"] - 1) < 0.01, v
		assert abs(v["loss", "a"] - 0.02) < 0.006 and v["loss", "b"] == 0, v
		assert ("jitter", "a") not in v and abs(v["jitter", "b"] - 3) < 0.3, v
		assert abs(v["queue", "a"] - 30) < 1, v
	END
}

# row 40
@test "a packet takes its length over the rate: 1514 bytes at 1 Mbit/s" {
	verify --out out --sample 3 --set network.paths.0.bandwidth='1 Mbit/s' "$small_scenario"
	awk -F, '$1 == "serialisation" && $2 != $3 { n++; if ($8 < 11.26 || $8 > 11.27) exit 1 } END { exit !n }' out/verify.csv
}

@test "a proof leaves figures, which plot makes anew" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (Debian package: gnuplot-nox)"
	verify --out out --set network.paths.0.jitter='1 ms' "$small_scenario"
	for name in verify jitter; do
		for ending in csv gp svg png; do
			[ -s "out/figures/$name.$ending" ]
		done
	done
	grep -q 'two-sites: 6 of 6 directed paths' out/figures/verify.svg
	cp -r out/figures before
	rm -r out/figures
	"$LONGHAUL" plot out
	cmp before/verify.svg out/figures/verify.svg
	cmp before/jitter.svg out/figures/jitter.svg
	verify --no-figures --out plain --sample 1 "$small_scenario"
	[ ! -e plain/figures ] && [ ! -e plain/jitter.csv ]
}

@test "a network of the catalog is proved by its name" {
	verify --out out --json --sample 8 google-cloud-2023 >out.json
	python3 - <<-'END'
		import json
		doc = json.load(open("out.json"))
		assert doc["network"] == "google-cloud-2023" and doc["ok"], doc
		assert doc["paths"] == 8 and doc["all_paths"] > 8
		assert all(r["ok"] for r in doc["rows"])
	END
}

# row 22
@test "1 Tbit/s is carried in super-packets, but not in packets: status 6, said where" {
	local fast=(--sample 2 --set network.paths.0.bandwidth='1 Tbit/s' --set network.stream_window='1 MB'
		--set machines.box.nic.up='1 Tbit/s' --set machines.box.nic.down='1 Tbit/s'
		--set nodes='[{site: east, machine: box}, {site: west, machine: box}]')
	verify --out fast "${fast[@]}" "$small_scenario"
	status=0
	verify --out split "${fast[@]}" --set network.paths.0.queue='1000000 packets' "$small_scenario" >out.txt 2>err.txt || status=$?
	[ "$status" -eq 6 ]
	grep -q 'rate .*MISS' out.txt
	grep -q 'NOT as asked for' out.txt
	grep -q 'verify.csv' err.txt
	grep '^rate' split/verify.csv | grep -q ',no$'
	grep -q '"status": "invalid"' split/run.json
}

@test "what is wrong with a network file is said with its place" {
	printf 'longhaul: 1\nnetwork: bad\nsites: {a: {provider: x, continent: europe}}\npaths:\n  - {between: [a, a], rtt: 5, bandwidth: 1 Gbit/s, jitter: 1 ms, jiter: 3}\n' >bad.yaml
	run -3 "$LONGHAUL" verify --out out bad.yaml
	[[ $output == *"bad.yaml:5:28: network.paths[0].rtt: '5' "* ]]
	[[ $output == *"unknown key in a path; did you mean 'jitter'?"* ]]
	[ ! -e out ]
	run -3 "$LONGHAUL" verify --out out no-such-network
	run -2 "$LONGHAUL" verify --sample 0 "$small_scenario"
	mkdir there
	run -2 "$LONGHAUL" verify --out there "$small_scenario"
}

# row 23
@test "64 sites in a full mesh lose no packet, from the first on" {
	python3 - >mesh.yaml <<-'END'
		print("longhaul: 1\nnetwork: mesh\nsites:")
		for i in range(64):
		    print(f"  s{i}: {{provider: on-premise, continent: europe}}")
		print("paths:")
		for i in range(64):
		    for j in range(i):
		        print(f"  - {{between: [s{j}, s{i}], rtt: {10 + (i * 7 + j * 13) % 200} ms, bandwidth: 100 Mbit/s, stream_window: 100 kB}}")
	END
	verify --out mesh --sample 80 mesh.yaml
	python3 - <<-'END'
		import csv, json
		rows = list(csv.DictReader(open("mesh/verify.csv")))
		assert all(r["ok"] == "yes" for r in rows), [r for r in rows if r["ok"] != "yes"]
		# a kernel brings up a hundred links (fifty nodes) a second, if it is not asked
		assert sum(int(r["from"][1:]) >= 50 for r in rows if r["property"] == "loss") > 5
		assert json.load(open("mesh/verify.json"))["all_paths"] == 64 * 63
	END
}
