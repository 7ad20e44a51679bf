#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# longhaul exec: what a program in a node sees, what comes of what it says and of its status.

bats_require_minimum_version 1.5.0
load run

setup() {
	cd "$BATS_TEST_TMPDIR"
	small=$srcdir/tests/guest/small.yaml
	export TMPDIR=$BATS_TEST_TMPDIR
}

# longhaul exec in the small scenario, whose network is not measured: fast OPTION... -- COMMAND...
fast() {
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" exec --no-probe "$small" "$@"
}

@test "one node's output is passed through exactly, both streams and without a line's end" {
	fast -- sh -c 'printf "a\0b\n\nc"; printf "d\n e" >&2' >out 2>err
	printf 'a\0b\n\nc' | cmp - out
	printf 'd\n e' | cmp - err
	[ -z "$(ls -d longhaul-exec-* results 2>/dev/null)" ] # nothing is left without --out
}

@test "much output arrives whole" {
	fast -- seq 1 300000 >out
	seq 1 300000 | cmp - out
}

@test "the status is the program's own" {
	run -7 fast -- sh -c 'exit 7'
	[ -z "$output" ]
	run -139 fast -- sh -c 'kill -SEGV $$'
	[[ $output == *"east/0 was killed by signal 11"* ]]
	run -127 fast -- /none/program --option
	[[ $output == *"run /none/program: No such file"* ]]
	touch file
	run -126 fast -- ./file
	[[ $output == *"run ./file: Permission denied"* ]]
}

@test "of many programs the first that failed, in time, gives the status; the others are stopped" {
	run -9 fast --all --out out -- sh -c 'case $RANK in
		0) sleep 1000;; 1) sleep 2; exit 9;; 2) sleep 4; exit 5;; esac'
	[[ $output == *"east/1 ended with status 9"* ]]
	need_python
	python3 - <<-'END'
		import json
		doc = json.load(open("out/exec.json"))
		assert doc["format"] == "longhaul-exec/1" and doc["first_failed"] == "east/1"
		assert [(n["node"], n["ending"], n["status"]) for n in doc["nodes"]] == [
		    ("east/0", "stopped", 137), ("east/1", "ended", 9), ("west/0", "ended", 5)], doc
	END
	run -9 fast --all --keep-going --out kept -- sh -c 'case $RANK in
		0) sleep 100; echo late;; 1) exit 9;; esac'
	[[ $output == *"east/0: late"* ]]
}

@test "every node is a host: name, names of the others, links, processes, shared memory" {
	fast --all --out out -- sh -c 'hostname; getent hosts west-0 east-0
		ls /sys/class/net; [ $(ls -d /proc/[0-9]* | wc -l) -lt 8 ] && echo alone; : >/dev/shm/mine; ls /dev/shm
		echo $LONGHAUL_NODE $LONGHAUL_SITE $LONGHAUL_HOSTS $NCCL_HOSTID
		echo $RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR:$MASTER_PORT
		echo $NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME $LONGHAUL_CLOCK'
	cat >expected <<-'END'
		west-0
		10.64.0.3       west-0
		10.64.0.1       east-0
		eth0
		lo
		alone
		mine
		west/0 west east-0 east-1 west-0 west-0
		2/3 0 10.64.0.1:29500
		=eth0 eth0 virtual
	END
	diff expected out/nodes/west-0.stdout
	[ ! -s out/nodes/west-0.stderr ]
	[ -e out/run.json ] && [ -e out/links.csv ] && [ -e out/counters.csv ]
	[ ! -e out/.guest ]
}

@test "folder and environment are the user's, and the environment is in no file of the results" {
	mkdir 'a folder'
	cd 'a folder'
	export MY_SECRET=$'sesame \xff\n two' RANK=mine
	fast --node west/0 --out ../out -- sh -c 'pwd; printf %s "$MY_SECRET"; echo $RANK $WORLD_SIZE' >said
	printf '%s\nsesame \xff\n two0 1\n' "$PWD" | cmp - said
	[ -z "$(grep -rl --exclude-dir=nodes sesame ../out)" ]
}

@test "standard input is empty" {
	[ "$(echo text | fast -- cat)" = '' ]
}

@test "a network file gets a node at each site" {
	two_sites 'rtt: 80 ms, bandwidth: 1 Gbit/s'
	run -0 timeout "$run_limit_s" "$LONGHAUL" exec --all net.yaml -- sh -c 'echo $LONGHAUL_NODE of $LONGHAUL_HOSTS'
	[[ $output == *"a/0: a/0 of a-0 b-0"* && $output == *"b/0: b/0 of a-0 b-0"* ]]
	run -0 timeout "$run_limit_s" "$LONGHAUL" exec --set 'network.paths.0.rtt=10 s' --node b/0 --out out net.yaml -- true
	grep -q '10000' out/links.csv
	run -0 timeout "$run_limit_s" "$LONGHAUL" exec google-cloud-2023 -- hostname
	[ "$output" = gc-us-0 ]
}

@test "a scenario's own command runs where none is given" {
	sed '/^workload:/,/^run:/c\workload: {command: [echo, "two words"]}\nrun: {probe: none}' "$small" >c.yaml
	run -0 timeout "$run_limit_s" "$LONGHAUL" exec c.yaml
	[ "$output" = 'two words' ]
}

@test "waiting takes no time: a day of sleep is over in seconds" {
	fast -- sleep 86400
	run -124 fast --time-limit '10 min' -- sleep 86400
	[[ $output == *"ran into the time limit"* ]]
}

@test "two runs say the same, to the nanosecond" {
	need_python
	for out in one two; do
		fast --all --out $out -- python3 -c 'import os, random, time
print(time.monotonic_ns(), time.time_ns(), os.urandom(4), random.random())' >$out.said
	done
	diff -r -x wall.json one two
	diff <(sort one.said) <(sort two.said)
}

@test "a program that spins ends with what to do about it" {
	run -1 fast --stuck-after '2 s' -- sh -c 'while :; do :; done'
	[[ $output == *"virtual clock stands still"*"--clock real"*"--stuck-after"* ]]
}


@test "SIGINT ends it with status 130, SIGKILL takes everything along" {
	own_kernel
	for signal in INT KILL; do
		env --default-signal=INT "$LONGHAUL" exec --no-probe --clock real "$small" -- \
			sh -c 'echo up; sleep 1000' >said 2>err &
		pid=$!
		wait_for 30 grep -q up said
		kill -$signal "$pid"
		status=0
		wait "$pid" || status=$?
		echo "$signal: $status: $(cat err)"
		[ "$signal" = KILL ] || { [ "$status" -eq 130 ] && [ -z "$(ls -d longhaul-exec-* 2>/dev/null)" ]; }
		wait_for 10 no_guest_left
		rm said
	done
	fast -- true
	[ -z "$(ls -d longhaul-exec-* 2>/dev/null)" ] # the next one clears up
}

@test "it ends when nobody reads what it says, and says when it cannot be written" {
	{ fast -- sh -c 'seq 1 100000; sleep 1000000; seq 1 100000' 2>err || echo $? >status; } | head -n 1 >said
	[ "$(cat said)" = 1 ]
	[ "$(cat status)" -eq 141 ]
	[ -z "$(ls -d longhaul-exec-* 2>/dev/null)" ]
	status=0
	fast -- echo text >/dev/full 2>err || status=$?
	[ "$status" -eq 1 ]
	[[ $(cat err) == *"standard output"* ]]
}
