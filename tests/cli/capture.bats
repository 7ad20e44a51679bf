#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# longhaul capture: captures of any tool, damaged ones, and the same numbers as tshark. And what
# may stand in run.capture and behind --capture.

bats_require_minimum_version 1.5.0

setup() {
	command -v python3 >/dev/null || skip "python3 is not installed (Debian package: python3)"
	cd "$BATS_TEST_TMPDIR"
	small=$srcdir/tests/guest/small.yaml
}

make_pcap() {
	python3 "$srcdir/tests/cli/make-pcap" "$@"
}

# flows.csv without what depends on the file's name and on its precision
same_flows() {
	python3 - "$1" <<-'END'
		import csv, sys
		for r in csv.DictReader(open(sys.argv[1])):
		    print(*(r[k] for k in ("connection", "from", "from_port", "to", "to_port", "packets", "segments", "payload_bytes",
		        "new_bytes", "retransmitted_packets", "retransmitted_bytes", "out_of_order_packets", "duplicate_acks",
		        "missing_bytes", "in_flight_max_bytes", "segment_bytes", "rtt_samples", "opened", "closed")),
		        *(round(int(r[k]) / 1e5) for k in ("handshake_rtt_ns", "rtt_min_ns", "rtt_median_ns") if r[k]))
	END
}

@test "captures of every kind give the same flows" {
	for kind in nano micro swapped nano-swapped raw cooked vlan; do
		make_pcap "$kind" "$kind.pcap"
		"$LONGHAUL" capture --no-figures --out "$kind" "$kind.pcap" >"$kind.txt"
		same_flows "$kind/flows.csv" >"$kind.flows"
		diff nano.flows "$kind.flows"
	done
	[ "$(wc -l <nano.flows)" -eq 5 ]
	grep -q '^0 10.0.0.1 40000 10.0.0.2 80 51 51 68156 66708 1 1448 0 5 0 14480 1448 22 syn fin 401 400 401$' nano.flows
	grep -q '86 packets of 3 TCP connections; 1 not TCP' nano.txt
	if command -v editcap >/dev/null; then
		editcap -F pcapng nano.pcap ng.pcapng
		"$LONGHAUL" capture --no-figures --out ng ng.pcapng
		same_flows ng/flows.csv | diff nano.flows -
	fi
}

@test "the numbers are tshark's" {
	command -v tshark >/dev/null || skip "tshark is not installed (Debian package: tshark)"
	for kind in nano vlan; do
		make_pcap "$kind" "$kind.pcap"
		"$LONGHAUL" capture --no-figures --out "$kind" "$kind.pcap"
		python3 "$srcdir/tests/cli/capture-compare" "$kind/flows.csv" "$kind.pcap"
	done
}

@test "intervals add up to the flows" {
	make_pcap nano nano.pcap
	"$LONGHAUL" capture --no-figures --interval '50 ms' --out out nano.pcap
	python3 - <<-'END'
		import collections, csv
		sums = collections.defaultdict(collections.Counter)
		keys = "packets", "segments", "wire_bytes", "payload_bytes", "new_bytes", "retransmitted_packets", "duplicate_acks", "rtt_samples"
		begins = []
		for r in csv.DictReader(open("out/flow-intervals.csv")):
		    begins.append(int(r["begin_ns"]))
		    assert begins[-1] % 50_000_000 == 0
		    assert int(r["throughput_bps"]) == int(r["payload_bytes"]) * 8 * 20
		    for k in keys:
		        sums[r["connection"], r["from_port"]][k] += int(r[k])
		assert begins == sorted(begins) and len(begins) > 8
		for r in csv.DictReader(open("out/flows.csv")):
		    assert all(sums[r["connection"], r["from_port"]][k] == int(r[k]) for k in keys), r
	END
}

@test "a figure is drawn, with its data and its script" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (Debian package: gnuplot-nox)"
	make_pcap nano nano.pcap
	"$LONGHAUL" capture --interval '20 ms' nano.pcap
	cd results/capture-nano/figures
	[[ $(head -c 5 flows.svg) == '<?xml' ]]
	[ -s flows.png ]
	mv flows.svg before.svg
	gnuplot --default-settings flows.gp
	cmp before.svg flows.svg
}

@test "a cut file is read until there, with the packet's number and status 3" {
	make_pcap nano whole.pcap
	head -c 3000 whole.pcap >cut.pcap
	run -3 "$LONGHAUL" capture --no-figures --out cut cut.pcap
	[[ $output == *"cut.pcap: packet 37: truncated dump file"*"the tables have the 36 packets before it"* ]]
	[[ $output == *"36 packets of 1 TCP connections"* ]]
	[ "$(wc -l <cut/flows.csv)" -eq 3 ]
	# a length that cannot be
	python3 -c '
d = bytearray(open("whole.pcap", "rb").read())
d[24 + 8:24 + 12] = b"\xff\xff\xff\x7f"
open("damaged.pcap", "wb").write(d)'
	run -3 "$LONGHAUL" capture --no-figures --out damaged damaged.pcap
	[[ $output == *"damaged.pcap: packet 1: "* ]]
}

@test "what is no capture is refused with status 3" {
	: >empty.pcap
	echo 'no capture' >text.pcap
	mkdir folder
	for file in empty.pcap text.pcap folder none.pcap "$small"; do
		run -3 "$LONGHAUL" capture --out out "$file"
		[[ $output == *"$file"* ]]
	done
	# 802.11
	make_pcap nano wifi.pcap
	printf '\x69' | dd of=wifi.pcap bs=1 seek=20 conv=notrunc status=none
	run -3 "$LONGHAUL" capture --out wifi wifi.pcap
	[[ $output == *"wifi.pcap: packets of link type 105 (IEEE802_11)"* ]]
}

@test "wrong usage of capture is status 2" {
	make_pcap nano nano.pcap
	mkdir there
	for args in '' 'a b' '--nonsense nano.pcap' '--interval 5 nano.pcap' '--interval 1us nano.pcap' '--out' \
		'--out there nano.pcap'; do
		# shellcheck disable=SC2086 # several words
		run "$LONGHAUL" capture $args
		echo "capture $args: $status: $output"
		[ "$status" -eq 2 ]
	done
	[[ $output == *"there exists"* ]]
}

@test "words of --capture and of run.capture.where are refused alike" {
	for word in nowhere east east/2 east/00 west,west west,north 'east/0,east/0' 'east,' , 'all,east' 'ALL'; do
		run -3 "$LONGHAUL" run --dry-run --capture "$word" "$small"
		[[ $output == *"run.capture.where: "* ]]
		printf 'run: {capture: {where: ["%s"]}}\n' "$word" >bad.yaml
		sed '/^run:/d' "$small" >>bad.yaml
		from_option=${output%%$'\n'*}
		run -3 "$LONGHAUL" run --dry-run bad.yaml
		[[ $output == "bad.yaml:1:25: ${from_option#*: }"* ]]
	done
	run -3 "$LONGHAUL" run --dry-run --capture east "$small"
	[[ $output == *"'east' is a site; expected a node (east/0), two sites or nodes (east,B), or all"* ]]
	run -3 "$LONGHAUL" run --dry-run --capture esat/0 "$small"
	[[ $output == *"did you mean site 'east'?"* ]]
	for word in all east/1 east,west east/0,east/1 east,east west/0,east; do
		run -0 "$LONGHAUL" run --dry-run --capture "$word" --capture all "$small"
	done
	run -3 "$LONGHAUL" run --dry-run --set run.capture.snaplen=128 "$small"
	[[ $output == *"run.capture.where: is missing"* && $output == *"a bare number"* ]]
	run -3 "$LONGHAUL" run --dry-run --capture all --set 'run.capture.snaplen=20 B' --set 'run.capture.max_bytes=1 B' "$small"
	[[ $output == *"at least 64 B"* && $output == *"at least 1 kB"* ]]
	run -2 "$LONGHAUL" exec --capture all "$small" -- true
	[[ $output == *"nothing is kept without --out"* ]]
}
