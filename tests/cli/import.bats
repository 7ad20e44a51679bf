#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# longhaul import: measurements into a network file that a scenario can use.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR"
	corpus=$srcdir/tests/fuzz/corpus/import
	known=(--provider acme --continent europe)
}

# The measured rows of a network file as CSV, each with its path's round trip.
export_measured() {
	python3 - "$1" <<-'END'
		import re, sys
		print("from,to,rtt_ms,throughput_mbps,sd_mbps,streams,duration_s")
		for block in open(sys.argv[1]).read().split("  - between: ")[1:]:
		    rtt = re.search(r"rtt: ([\d.]+) ms", block).group(1)
		    for row in re.findall(r"\{from: ([\w-]+), to: ([\w-]+), streams: (\d+), duration: (\d+) s, "
		                          r"throughput: ([\d.]+) Mbit/s, sd: ([\d.]+)", block):
		        print(",".join([row[0], row[1], rtt, row[4], row[5], row[2], row[3]]))
	END
}

# A scenario over net.yaml with a node at each of the sites.
scenario() {
	cat <<-END
		longhaul: 1
		name: over-an-import
		network: net.yaml
		nodes: [$(printf '{site: %s, machine: lambda-a10}, ' "$@")]
		workload: {model: resnet18, target_batch: 1024, strategy: {kind: butterfly}, epochs: 1}
	END
}

@test "published rows give the published windows within 1.5 % and the round trips exactly" {
	published=$srcdir/scenarios/networks/google-cloud-2023.yaml
	export_measured "$published" >rows.csv
	run -0 --separate-stderr "$LONGHAUL" import --mtu '1460 B' --provider google --continent gc-eu=europe \
		--continent gc-us=north-america --continent gc-asia=asia --continent gc-aus=oceania \
		--out net.yaml rows.csv
	[ -z "$output$stderr" ]
	scenario gc-us gc-eu gc-asia gc-aus >scenario.yaml
	run -0 "$LONGHAUL" run --dry-run scenario.yaml
	"$LONGHAUL" run --dry-run --json scenario.yaml >plan.json
	sed 's|net.yaml|networks/google-cloud-2023.yaml|' scenario.yaml >published.yaml
	"$LONGHAUL" run --dry-run --json published.yaml >published.json
	python3 - <<-'END'
		import json
		def paths(name):
		    return {(p["from"], p["to"]): p for p in json.load(open(name))["network"]["paths"]}
		ours, theirs = paths("plan.json"), paths("published.json")
		assert ours.keys() == theirs.keys() and len(ours) == 12, ours.keys()
		errors = []
		for key, path in theirs.items():
		    assert ours[key]["delay_ns"] == path["delay_ns"], (ours[key], path)
		    errors.append(ours[key]["clamp_segments"] / path["clamp_segments"] - 1)
		    assert abs(ours[key]["bandwidth_bps"] / path["bandwidth_bps"] - 1) < 0.02
		print("windows: %+.2f %% to %+.2f %%" % (100 * min(errors), 100 * max(errors)))
		assert max(map(abs, errors)) < 0.015, errors
	END
}

@test "ping and iperf by address, one and many streams" {
	run -0 --separate-stderr "$LONGHAUL" import "${known[@]}" --site 10.0.0.1=a --site 10.0.0.2=b \
		--bandwidth '1 Gbit/s' --from a "$corpus/ping.txt" "$corpus/iperf.txt"
	[[ $output == *"between: [a, b]"*"rtt: 103.2 ms"*"stream_window: 2.9"*"throughput: 420 Mbit/s"* ]]
	echo "$output" >net.yaml
	scenario a b >scenario.yaml
	run -0 "$LONGHAUL" run --dry-run scenario.yaml
}

@test "a real iperf3, with one stream and four, and reversed" {
	command -v iperf3 >/dev/null || skip "iperf3 is not installed"
	for option in '' '-P 4' '-R'; do
		port=$((20000 + RANDOM % 10000))
		iperf3 -s -1 -p "$port" >/dev/null 2>&1 3>&- &
		server=$!
		deadline=$((SECONDS + 20))
		while ((SECONDS < deadline)); do # until the server listens; iperf3 -J ends with 0 in any case
			iperf3 -J -c 127.0.0.1 -p "$port" -n 200M $option >test.json 2>&1
			grep -q '"error":' test.json || break
		done
		kill "$server" 2>/dev/null || true
		cat test.json >>all.json
	done
	run --separate-stderr "$LONGHAUL" import "${known[@]}" --from a --to b all.json
	echo "$stderr"
	[ "$status" -eq 0 ]
	[[ $output == *"iperf3's segment size"* ]]
	[[ $output == *"from: a, to: b, streams: 4,"* ]]
	[[ $output == *"from: b, to: a, streams: 1,"* ]]
}

@test "sites come from a CSV" {
	printf 'site,address,provider,continent,region\na,10.0.0.1,acme,asia,x\nb,10.0.0.2,other,africa,\n' >sites.csv
	run -0 --separate-stderr "$LONGHAUL" import --sites sites.csv --bandwidth '1 Gbit/s' --from a "$corpus/ping.txt"
	[[ $output == *'a: {provider: "acme", continent: asia, region: "x"'* ]]
	[[ $output == *'b: {provider: "other", continent: africa'* ]]
	printf 'site,continent\na,atlantis\nb/c,asia\n' >sites.csv
	run -3 "$LONGHAUL" import --sites sites.csv "$corpus/ping.txt"
	[[ $output == *"sites.csv:2:3: continent: 'atlantis' is no continent"*"sites.csv:3:1: 'b/c' is not a name"* ]]
}

@test "matrices, with the unit in the corner, by option, and none" {
	printf 'from/to,a,b\na,,50\nb,52,\n' >rtt.csv
	printf ',a,b\na,,900\nb,890,\n' >rate.csv
	run -0 --separate-stderr "$LONGHAUL" import "${known[@]}" --unit ms rtt.csv --unit Mbit/s --streams 8 rate.csv
	[[ $output == *"rtt: 51 ms"*"streams: 8, duration: 10 s, throughput: 900 Mbit/s"* ]]
	run -3 "$LONGHAUL" import "${known[@]}" rtt.csv
	[[ $output == *"rtt.csv:2:4: '50' is neither"*"--unit"* ]]
}

@test "everything that is wrong is told at once, with status 3 and no output" {
	printf 'from,to,rtt_ms\na,b,x\n' >one.csv
	printf 'neither\n' >two.txt
	run -3 --separate-stderr "$LONGHAUL" import --out net.yaml one.csv two.txt none.csv
	[ -z "$output" ]
	[[ $stderr == *"one.csv:2:5: rtt_ms: 'x' is not a number"* ]]
	[[ $stderr == *"two.txt:1:1: not recognised"* ]]
	[[ $stderr == *"none.csv"*"No such file"* ]]
	[ ! -e net.yaml ]
	run -3 "$LONGHAUL" import --bandwidth '1 Gbit/s' --from a --to b "$corpus/ping.txt"
	[[ $output == *"no provider is known of a, b; give --provider"*"no continent is known of a, b"* ]]
}

@test "wrong usage is status 2" {
	for arguments in '' '--from' '--nonsense x.csv' '--assume maybe x.csv' '--mtu 5 x.csv' '--streams 0 x.csv' \
		'--site here x.csv' '--site 1.2.3.4=a/b x.csv' '--continent mars x.csv' '--bandwidth fast x.csv'; do
		run -2 --separate-stderr "$LONGHAUL" import $arguments
		echo "$arguments: $stderr"
		[ -z "$output" ]
		[[ $stderr == "longhaul import: "*"--help"* ]]
	done
	echo mine >net.yaml
	run -2 "$LONGHAUL" import "${known[@]}" --out net.yaml "$corpus/rows.csv"
	[[ $output == *"net.yaml exists"* ]]
	[ "$(cat net.yaml)" = mine ]
}

@test "jitter is written when it is asked for, and a comment otherwise" {
	run -0 "$LONGHAUL" import "${known[@]}" "$corpus/rows.csv"
	[[ $output == *"# round trips: sd 0.2 ms"* ]]
	[[ $output != *"    jitter: "* ]]
	run -0 "$LONGHAUL" import "${known[@]}" --jitter "$corpus/rows.csv"
	[[ $output == *"    jitter: 141 us"* ]]
}
