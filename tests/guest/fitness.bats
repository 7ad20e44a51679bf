#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Whether a machine is fit for real time, by its timers and by what it carries; and longhaul on a
# host with netem of its own, which the guest's kernel stands in for.

bats_require_minimum_version 1.5.0
load run

setup() {
	cd "$BATS_TEST_TMPDIR"
	export TMPDIR=$BATS_TEST_TMPDIR
	two_sites 'rtt: 20 ms, bandwidth: 20 Mbit/s, stream_window: 20 kB'
}

real() {
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" exec --clock real --backend guest --out out "$@"
}

status_is() {
	grep -q "\"status\": \"$1\"" out/engine.json && grep -q "\"status\": \"$1\"" out/run.json
}

@test "late timers make a machine unfit: status 6, said in words, the program's output kept" {
	run -6 --separate-stderr real --set run.fitness.timer_lateness='1 ns' net.yaml -- echo done
	[ "$output" = done ]
	[[ $stderr == *"not fit for real time"*"timers are late"*"run.fitness.timer_lateness"* ]]
	status_is unfit
	grep -q '"ok": false' out/engine.json
}

@test "so does a rate that is more than a share of what it carries" {
	run -6 real --set run.fitness.timer_lateness='0 s' --set run.fitness.rate_headroom=1000000000 net.yaml -- \
		sh -c 'ping -c 4 -i 0.3 b-0 >/dev/null'
	[[ $output == *"not fit for real time"*"run.fitness.rate_headroom"* ]]
	status_is unfit
}

@test "a machine within its limits is fit, and says by how much" {
	need_python
	run real --no-probe --set run.fitness.timer_lateness='10 s' --set run.fitness.rate_headroom=0.000001 net.yaml -- true
	echo "$output"
	[ "$status" -eq 0 ]
	status_is done
	python3 - <<-'END'
		import json
		f = json.load(open("out/engine.json"))["fitness"]
		assert f["ok"] and 0 < f["timer_p99_ns"] < 10e9 and f["carried_bps"] > 1e6, f
		assert f["timer_limit_ns"] == 10e9 and f["rate_headroom"] == 1e-6, f
	END
}

@test "nothing is measured where nothing is judged, nor on the virtual clock" {
	real --no-probe --set run.fitness.timer_lateness='0 s' --set run.fitness.rate_headroom=0 net.yaml -- true
	! grep -q fitness out/engine.json
	timeout "$run_limit_s" "$LONGHAUL" exec --no-probe --out virtual net.yaml -- true
	! grep -q fitness virtual/engine.json
}

@test "a proof on an unfit machine is kept, and says that it proves nothing" {
	run -6 timeout "$run_limit_s" "$LONGHAUL" verify --quiet --clock real --backend guest --out out \
		--set run.fitness.rate_headroom=1000000 net.yaml
	echo "$output"
	[[ $output == *"NOT fit for real time"* ]]
	status_is unfit
	[ -e out/verify.csv ]
}

@test "the verdict on a loaded machine is what its figures say" {
	need_python
	[ "$(nproc)" -le 8 ] || skip "$(nproc) processors are too many to load"
	for _ in $(seq $((6 * $(nproc)))); do
		timeout 40 sh -c 'while :; do :; done' 3>&- &
	done
	loops=$(jobs -p)
	run real --no-probe net.yaml -- true
	kill $loops || true # they may have ended
	echo "$output"
	status=$status python3 - <<-'END'
		import json, os
		f = json.load(open("out/engine.json"))["fitness"]
		late = f["timer_p99_ns"] > 1e6
		slow = f["carried_bps"] < 2 * f["asked_bps"]
		print(f)
		assert f["timer_limit_ns"] == 1e6 and f["rate_headroom"] == 2
		assert f["ok"] == (not late and not slow)
		assert int(os.environ["status"]) == (0 if f["ok"] else 6)
	END
	[ "$status" -eq 0 ] || [[ $output == *"not fit for real time"* ]]
}

@test "on a host with netem exec and verify need no guest" {
	cat >init.sh <<-END
		#!/bin/sh
		mount -t proc proc /proc
		mount -t sysfs sys /sys
		mount -t cgroup2 none /sys/fs/cgroup
		mkdir -p /dev/shm
		mount -t tmpfs none /dev/shm
		export PATH=$PATH LONGHAUL_DATADIR='$LONGHAUL_DATADIR' TMPDIR='$PWD'
		cd '$PWD'
		set -- --set 'run.fitness.timer_lateness=10 s' --set run.fitness.rate_headroom=0
		{
			'$LONGHAUL' doctor | grep 'host netem'
			'$LONGHAUL' exec --backend host --clock real --out exec "\$@" net.yaml --all -- \
				sh -c 'hostname; uname -r; ls /sys/class/net; ping -c 3 -i 0.2 b-0'
			echo "exec \$?"
			'$LONGHAUL' verify --nodes host --quiet --out proof "\$@" net.yaml
			echo "verify \$?"
			ls /sys/fs/cgroup | grep longhaul
		} >said 2>&1
		sync
	END
	chmod +x init.sh
	timeout "$run_limit_s" "$LONGHAUL_GUEST_KERNEL" mem=1G rootfstype=hostfs rootflags=/ rw con=null \
		con0=null,fd:1 panic=-1 noreboot quiet uml_dir="$PWD" init="$PWD/init.sh" >guest.log 2>&1 || true
	cat said
	grep -q '^ok *host netem' said
	grep -Eq 'exec (0|6)$' said && grep -Eq 'verify (0|6)$' said
	[ -e exec/links.csv ] && [ -e proof/verify.csv ] && [ ! -e exec/guest.log ]
	grep -q '"backend": "host"' exec/run.json && grep -q '"backend": "host"' proof/run.json
	! grep -q '^longhaul' <(ls /sys/fs/cgroup)
	grep -q '^b-0' exec/nodes/b-0.stdout && grep -q '^eth0' exec/nodes/b-0.stdout
	awk -F, '$1 == "loss" || $1 == "overtaken" { n += $8 == 0 }
		$1 == "delay" { n += $8 >= 10 } END { exit n != 6 }' proof/verify.csv
}
