#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The guest kernel by itself: that it boots on the host's files, and what the patches promise.

# Boots it with a script as init, with more kernel arguments; the script gets the folder "$out".
boot() {
	local script=$1
	shift

	out=$BATS_TEST_TMPDIR
	printf '#!/bin/sh\nout=%s\nmount -t proc proc /proc\n%s\n' "$out" "$script" >"$out/init"
	chmod +x "$out/init"
	ulimit -c 0
	# It ends with a panic, as its init ends. Its wall clock starts at a fixed time: the
	# kernel mixes that into its random numbers.
	(timeout 120 "$LONGHAUL_GUEST_KERNEL" mem=128M rootfstype=hostfs rootflags=/ rw \
		init="$out/init" con=null con0=null,fd:2 panic=-1 time-travel=inf-cpu \
		time-travel-start=0 "$@" </dev/null >"$out/console" 2>&1 || true) 2>/dev/null
}

uptime_script='read a rest </proc/uptime; sleep 1000; read b rest </proc/uptime; echo "$a $b" >"$out/uptime"'

@test "it boots on the host's files, and a thousand virtual seconds pass in no time" {
	boot "$uptime_script"
	read -r before after <"$out/uptime"
	echo "uptime $before to $after"
	[ "${before%.*}" -lt 5 ]
	[ "${after%.*}" -ge 1000 ]
	[ "${after%.*}" -lt 1010 ]
}

@test "the same seed gives the same random numbers, another seed others" {
	local script='head -c 64 /dev/urandom | od -An -tx1 >"$out/random"'

	boot "$script" random_seed=7
	first=$(cat "$out/random")
	[ -n "$first" ]
	boot "$script" random_seed=7
	[ "$(cat "$out/random")" = "$first" ]
	boot "$script" random_seed=8
	[ -s "$out/random" ]
	[ "$(cat "$out/random")" != "$first" ]
}

# scenarios with several ranks in a node ask for the latter
@test "ten thousand readings move the clock by 2560 us, or by 0.04 us" {
	local script='bash -c '"'"'from=$EPOCHREALTIME
		for ((i = 0; i < 9999; i++)); do to=$EPOCHREALTIME; done
		echo "$from $to"'"'"' | tr -d . >"$out/times"'

	for reads in "" clock_reads=256; do
		boot "$script" $reads
		read -r from to <"$out/times"
		echo "$reads: $((10#$to - 10#$from)) us"
		if [ -n "$reads" ]; then
			[ $((10#$to - 10#$from)) -le 1 ]
		else
			[ $((10#$to - 10#$from)) -ge 2559 ]
			[ $((10#$to - 10#$from)) -le 2600 ]
		fi
	done
}

@test "cubic, bbr and dctcp are there" {
	boot 'cat /proc/sys/net/ipv4/tcp_available_congestion_control >"$out/algorithms"'
	for algorithm in cubic bbr dctcp; do
		grep -qw "$algorithm" "$out/algorithms"
	done
}
