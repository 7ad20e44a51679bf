#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the network does against what the scenario says: cards, delays, windows, extremes.

bats_require_minimum_version 1.5.0
load run

setup() {
	need_python
	cd "$BATS_TEST_TMPDIR"
}

# The small scenario with one epoch and little to send: the probes are what counts.
probe() {
	small "$@" --set workload.epochs=1 --set models.tiny.parameters=1000
}

# Prints the measured value of a link: achieved OUT KIND FROM_NODE TO_NODE.
achieved() {
	awk -F, -v kind="$2" -v from="$3" -v to="$4" \
		'$1 == kind && $4 == from && $5 == to { print $9 }' "$1/links.csv"
}

# near VALUE TARGET RATIO
near() {
	awk -v v="$1" -v t="$2" -v r="$3" 'BEGIN { d = v / t - 1; print v, "against", t, ":", d; exit !(d <= r && d >= -r) }'
}

@test "a network card limits what its node sends, whatever the paths allow" {
	probe up --set network.paths.0.bandwidth='1 Gbit/s' --set machines.box.nic.up='100 Mbit/s'
	near "$(achieved up throughput east/0 west/0)" "$(awk 'BEGIN { print 100 * 1448 / 1514 }')" 0.05
	near "$(achieved up throughput east/0 east/1)" "$(awk 'BEGIN { print 100 * 1448 / 1514 }')" 0.05
}

# row 31
@test "a network card limits what its node receives" {
	probe down --set network.paths.0.bandwidth='1 Gbit/s' --set machines.box.nic.down='50 Mbit/s'
	near "$(achieved down throughput west/0 east/0)" "$(awk 'BEGIN { print 50 * 1448 / 1514 }')" 0.05
}

@test "two receivers share their sender's card" {
	# each shard goes from east/0 to both others at once through 20 Mbit/s
	small shared --set workload.epochs=1 --set machines.box.nic.up='20 Mbit/s'
	check shared <<-'END'
		assert engine["status"] == "done", engine["message"]
		# two phases of 2/3 P two-byte numbers leave each card
		bits = 2 * 2 / 3 * 1000003 * 2 * 8 * 1514 / 1448
		for a in events("average"):
		    took = (a["end_ns"] - a["begin_ns"]) / 1e9
		    assert bits / 20e6 <= took * 1.001, (bits / 20e6, took)
		    # two streams in one queue do not end together: 1.13 to 1.52 times as long with seeds 1 to 12
		    assert took < bits / 20e6 * 1.6, (bits / 20e6, took)
	END
}

# rows 32, 54
@test "there and back may differ" {
	cat >asymmetric.yaml <<-END
		$(sed '/between: \[east, west\]/d' "$srcdir/tests/guest/small.yaml")
	END
	sed -i 's/^  paths:/&\n    - {from: east, to: west, delay: 5 ms, bandwidth: 50 Mbit\/s}\n    - {from: west, to: east, delay: 30 ms, bandwidth: 20 Mbit\/s}/' asymmetric.yaml
	timeout 60 "$LONGHAUL" run --quiet --no-figures --out asymmetric \
		--set workload.epochs=1 --set models.tiny.parameters=1000 asymmetric.yaml
	near "$(achieved asymmetric rtt east/0 west/0)" 35 0.002
	near "$(achieved asymmetric rtt west/0 east/0)" 35 0.002
	near "$(achieved asymmetric throughput east/0 west/0)" "$(awk 'BEGIN { print 50 * 1448 / 1514 }')" 0.05
	near "$(achieved asymmetric throughput west/0 east/0)" "$(awk 'BEGIN { print 20 * 1448 / 1514 }')" 0.05
}

# row 5
@test "a stream gets its window per round trip" {
	probe window --set network.paths.0.rtt='103.1 ms' --set network.paths.0.bandwidth='1 Gbit/s' \
		--set network.stream_window='2.71 MB'
	grep throughput window/links.csv
	# whole segments of 1448 bytes
	near "$(achieved window throughput east/0 west/0)" \
		"$(awk 'BEGIN { print int(2710000 / 1448) * 1448 * 8 / 103100 }')" 0.03
	# inside the site the link is the limit
	near "$(achieved window throughput east/0 east/1)" "$(awk 'BEGIN { print 1000 * 1448 / 1514 }')" 0.05
}

@test "coarse segments keep throughput and payload" {
	small coarse --coarse
	small fine
	check coarse <<-'END'
		assert plan["mtu_bytes"] == 32000
		assert all(r["ok"] == "yes" for r in rows("links.csv"))
		assert sum(a["payload_sent_bytes"] for a in events("average")) == 2 * 2 * 1000003 * 2 * 2
	END
	near "$(awk -F, 'NR == 2 { print $8 }' coarse/throughput.csv)" \
		"$(awk -F, 'NR == 2 { print $8 }' fine/throughput.csv)" 0.05
}

@test "a round trip of 100 s is measured exactly, in no time" {
	# what TCP makes of it is another matter
	probe slow --set network.paths.0.rtt='100 s' --set network.paths.0.bandwidth='10 Mbit/s' || true
	[ -d slow ] || mv slow.failed slow
	near "$(achieved slow rtt east/0 west/0)" 100000 0.000001
	near "$(achieved slow rtt west/0 east/0)" 100000 0.000001
}

# rows 22, 46
@test "a path of 45 Gbit/s carries its rate" {
	probe fast --set network.paths.0.bandwidth='45 Gbit/s' --set network.paths.0.rtt='1 ms' \
		--set machines.box.nic.up='100 Gbit/s' --set machines.box.nic.down='100 Gbit/s' \
		--set machines.box.tcp.rmem_max='256 MiB' --set machines.box.tcp.wmem_max='256 MiB' \
		--set network.mtu='9000 B'
	grep throughput fast/links.csv
	near "$(achieved fast throughput east/0 west/0)" "$(awk 'BEGIN { print 45000 * 8948 / 9014 }')" 0.05
}

# row 10
@test "a measured throughput that is missed is status 6, and the table says where" {
	status=0
	small missed --probe full --set workload.epochs=1 --set network.paths.0.measured='[{from: east, to: west, duration: 1 s, throughput: 400 Mbit/s}]' ||
		status=$?
	[ "$status" -eq 6 ]
	grep 'throughput,east,west' missed/links.csv | grep ',no,'
	[ -e missed/throughput.csv ]
	[ "$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "valid") c = i } NR == 2 { print $c }' missed/throughput.csv)" = 0 ]
}

@test "a measured throughput that is met is status 0" {
	small met --probe full --set workload.epochs=1 --set network.paths.0.measured='[{from: east, to: west, duration: 3 s, throughput: 180 Mbit/s, source: "a \"test\", ours"}]'
	grep 'throughput,east,west' met/links.csv | grep ',yes,'
}
