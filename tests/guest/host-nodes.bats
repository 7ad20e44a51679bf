#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Nodes on the host, whose network is a guest: what programs see, what the network does to them,
# what is left behind. Real time: how long something takes is only tested where a busy machine
# cannot change the answer, and status 6 (unfit, or a target missed) is fine.

bats_require_minimum_version 1.5.0
load run

setup() {
	cd "$BATS_TEST_TMPDIR"
	export TMPDIR=$BATS_TEST_TMPDIR
	two_sites 'rtt: 50 ms, bandwidth: 80 Mbit/s'
	is_possible "$LONGHAUL" doctor || skip "this host allows no nodes: $("$LONGHAUL" doctor | grep 'host nodes')"
}

teardown() {
	[ -z "${open_folder:-}" ] || rm -rf "$open_folder"
}

is_possible() {
	"$@" | grep -q '^ok *host nodes'
}

# longhaul VERB with nodes on the host: at_host VERB OPTION... Every kernel lets nodes have reno.
at_host() {
	local verb=$1
	shift
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" "$verb" --nodes host --backend guest \
		--set machines.generic.tcp.congestion_control=reno "$@"
}

# The same without measurements: programs end as they end.
fast() {
	at_host exec --no-probe --set run.fitness.timer_lateness='0 s' \
		--set run.fitness.rate_headroom=0 "$@"
}

as_nobody() {
	command -v setpriv >/dev/null || skip "setpriv is not installed (Debian package: util-linux)"
	[ "$(id -u)" -eq 0 ] || skip "only root can become somebody else"
	open_folder=$(mktemp -d /tmp/longhaul-test-XXXXXX) # that of the test is root's alone
	cp "$LONGHAUL_GUEST_KERNEL" "$LONGHAUL" net.yaml "$open_folder"
	cd "$open_folder"
	export TMPDIR=$PWD
	chmod 755 linux longhaul
	chmod 777 .
	nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups env "LONGHAUL_GUEST_KERNEL=$PWD/linux")
	LONGHAUL=$PWD/longhaul
	"${nobody[@]}" test -x "$LONGHAUL" -a -r net.yaml || skip "nobody cannot read $PWD"
	is_possible "${nobody[@]}" "$LONGHAUL" doctor || skip "ordinary users may have no nodes here"
}

@test "a program on the host is in a node: names, link, processes, and the host's kernel" {
	run -0 --separate-stderr fast --out out net.yaml --all -- sh -c 'hostname; getent hosts a-0 b-0
		ls /sys/class/net; [ $(ls -d /proc/[0-9]* | wc -l) -lt 8 ] && echo alone
		uname -r; echo $RANK/$WORLD_SIZE $MASTER_ADDR $LONGHAUL_CLOCK'
	cat >expected <<-END
		b-0
		10.64.0.1       a-0
		10.64.0.2       b-0
		eth0
		lo
		alone
		$(uname -r)
		1/2 10.64.0.1 real
	END
	diff expected out/nodes/b-0.stdout
	[ ! -e out/.guest ] && [ -e out/counters.csv ] && [ -e out/guest.log ]
	grep -q '"nodes": "host"' out/run.json && grep -q '"backend": "guest"' out/run.json
}

@test "round trips take what was asked for, each direction what is its own" {
	command -v ping >/dev/null || skip "ping is not installed (Debian package: iputils-ping)"
	run -0 fast --set 'network.paths.0.rtt=120 ms' net.yaml -- ping -c 5 -i 0.2 b-0
	echo "$output"
	[[ $output =~ min/avg/max/mdev\ =\ (12[0-9])\. ]]
}

@test "bytes arrive whole, no faster than the path, and are counted" {
	need_python
	cat >copy.py <<-'END'
		import hashlib, os, socket, time
		n, port = 10_000_000, 8000
		if os.environ["RANK"] == "0":
		    s = socket.create_server(("", port))
		    c = s.accept()[0]
		    begin, data = time.monotonic(), bytearray()
		    while part := c.recv(65536):
		        data += part
		    print(len(data), hashlib.sha256(data).hexdigest(), time.monotonic() - begin)
		else:
		    for _ in range(100):
		        try:
		            c = socket.create_connection(("a-0", port))
		            break
		        except ConnectionRefusedError:
		            time.sleep(0.1)
		    data = bytes(i * i % 251 for i in range(n // 100)) * 100
		    print(hashlib.sha256(data).hexdigest())
		    c.sendall(data)
		    c.close()
	END
	run -0 fast --out out --all net.yaml -- python3 copy.py
	echo "$output"
	python3 - <<-'END'
		import csv
		n, got, seconds = open("out/nodes/a-0.stdout").read().split()
		assert int(n) == 10_000_000 and got == open("out/nodes/b-0.stdout").read().strip()
		assert float(seconds) > 0.95 * 10e6 * 8 / 80e6, seconds
		wire = {}
		for r in csv.DictReader(open("out/counters.csv")):
		    wire[r["from"]] = int(r["wire_bytes"])
		assert 10e6 < wire["b/0"] < 11e6 and wire["a/0"] < 1e6, wire
	END
	for key in qdisc_drops unclassified_packets softnet_drops link_drops; do
		grep -q "\"$key\": 0" out/engine.json || { grep '"' out/engine.json; false; }
	done
}

@test "its measurements and its proof are files like any other's" {
	run at_host exec --out out net.yaml -- true
	[ "$status" -eq 0 ] || [ "$status" -eq 6 ]
	[ "$(grep -c '^rtt\|^throughput' out/links.csv)" -eq 4 ]
	run timeout "$run_limit_s" "$LONGHAUL" verify --nodes host --backend guest --quiet --out proof \
		--set machines.unlimited.tcp.congestion_control=reno net.yaml
	echo "$output"
	[ "$status" -eq 0 ] || [ "$status" -eq 6 ]
	# what no busy machine can change: nothing is lost or overtakes, nothing comes early
	awk -F, '$1 == "loss" || $1 == "overtaken" { n += $8 == 0 }
		$1 == "delay" { n += $8 >= 25 } END { exit n != 6 }' proof/verify.csv
}

@test "trainers run on the host" {
	need_python
	sed 's/rtt: 40 ms/rtt: 4 ms/; s/target_batch: 960/target_batch: 96/' "$srcdir/tests/guest/small.yaml" >small.yaml
	run timeout "$run_limit_s" "$LONGHAUL" run --quiet --no-figures --nodes host --backend guest --out out \
		--set machines.box.tcp.congestion_control=reno --set network.stream_window='200 kB' small.yaml
	echo "$output"
	[ "$status" -eq 0 ] || [ "$status" -eq 6 ] || { [ "$status" -eq 4 ] && skip "this host has no BPF for cgroups"; }
	check out <<-'END'
		traffic = rows("traffic.csv")
		assert len(rows("epochs.csv")) == 2 and traffic
		sent = sum(e["bytes"] for e in events("sent")) if any(events("sent")) else 0
		wire = {}
		for r in rows("counters.csv"):
		    wire[r["from"], r["to"]] = int(r["wire_bytes"])
		assert len(wire) == 6 and sum(wire.values()) > max(sent, 2 * 2 * 1000003 * 2), wire
		assert plan["nodes"] and engine["unexplained"]["unclassified_packets"] == 0
	END
}

@test "an ordinary user has them, too, as root of nothing but the nodes" {
	as_nobody
	run -0 "${nobody[@]}" "$LONGHAUL" exec --no-probe --nodes host --backend guest --set run.fitness.timer_lateness='0 s' \
		--set run.fitness.rate_headroom=0 --set machines.generic.tcp.congestion_control=reno net.yaml -- \
		sh -c 'hostname; id -u; cat /proc/self/uid_map'
	[[ $output =~ ^a-0.0.[[:space:]]+0[[:space:]]+65534[[:space:]]+1$ ]]
	run -4 "${nobody[@]}" "$LONGHAUL" exec --no-probe --nodes host --backend guest --set network.stream_window='2 MB' \
		--set machines.generic.tcp.congestion_control=reno net.yaml -- true
	echo "$output"
	[[ $output == *"stream_window"*"root"* ]]
}

@test "nothing is left, also where all is killed at any moment" {
	own_kernel
	links=$(ls /sys/class/net)
	for wait_s in 0.05 0.1 0.2 0.4 up; do
		"$LONGHAUL" exec --no-probe --nodes host --backend guest net.yaml --all \
			--set machines.generic.tcp.congestion_control=reno -- \
			sh -c 'readlink /proc/self/ns/net; sleep 1000' >said 2>err 3>&- &
		pid=$!
		if [ "$wait_s" = up ]; then
			wait_for 30 eval '[ "$(grep -c net: said)" -eq 2 ]'
			[ "$(grep -o 'net:.*' said | sort -u | wc -l)" -eq 2 ]
		else
			sleep "$wait_s" # a moment like any other
		fi
		kill -KILL "$pid"
		wait "$pid" 2>/dev/null || true
		wait_for 10 no_guest_left
	done
	ns=$(grep -o '\[[0-9]*\]' said | tr -d '[]')
	no_process_in() {
		! readlink /proc/[0-9]*/ns/net 2>/dev/null | grep -qF "$1"
	}
	for n in $ns; do
		wait_for 10 no_process_in "$n"
	done
	[ "$(ls /sys/class/net)" = "$links" ]
	# the next one clears up, once what was killed has let go
	cleared() {
		fast net.yaml -- true && [ -z "$(ls -d longhaul-exec-* 2>/dev/null)" ]
	}
	wait_for 20 cleared
	[ -z "$(ls -d /sys/fs/cgroup/longhaul-* /sys/fs/cgroup/unified/longhaul-* 2>/dev/null)" ]
}

@test "the status of a program, a time limit, and SIGINT are what they are elsewhere" {
	run -7 fast net.yaml -- sh -c 'exit 7'
	run -124 fast --time-limit '1 s' net.yaml -- sleep 1000
	own_kernel
	env --default-signal=INT "$LONGHAUL" exec --no-probe --nodes host --backend guest net.yaml \
		--set machines.generic.tcp.congestion_control=reno -- sh -c 'echo up; sleep 1000' >said 2>err 3>&- &
	pid=$!
	wait_for 30 grep -q up said
	kill -INT "$pid"
	status=0
	wait "$pid" || status=$?
	[ "$status" -eq 130 ]
	wait_for 10 no_guest_left
}

@test "a shell is in a node on the host" {
	run -3 --separate-stderr at_host shell net.yaml b/0 <<-'END'
		hostname; uname -r; longhaul-node a-0 hostname; exit 3
	END
	[ "$output" = "b-0
$(uname -r)
a-0" ]
}

@test "what cannot be is refused" {
	run -3 timeout "$run_limit_s" "$LONGHAUL" exec --nodes host --clock virtual net.yaml -- true
	[[ $output == *"run.nodes"*"clock: real"* ]]
	run -3 fast --set 'network.paths.0.cross_traffic={mean: 1 Mbit/s, flow: 1 MB}' net.yaml -- true
	[[ $output == *"cross_traffic"*"--nodes guest"* ]]
	run -3 fast --capture all --out captured net.yaml -- true
	[[ $output == *"capture"*"--nodes guest"* ]]
	run -3 fast --set 'timeline=[{at: 1 s, path: [a, b], rtt: 10 ms}]' net.yaml -- true
	[[ $output == *"timeline"*"--nodes guest"* ]]
	{
		printf 'longhaul: 1\nnetwork: many\nsites:\n'
		for i in $(seq 65); do echo "  s$i: {provider: p, continent: europe}"; done
		printf 'paths:\n'
		for i in $(seq 65); do for j in $(seq $((i + 1)) 65); do
			echo "  - {between: [s$i, s$j], rtt: 1 ms, bandwidth: 1 Gbit/s}"
		done; done
	} >many.yaml
	run -3 timeout "$run_limit_s" "$LONGHAUL" exec --nodes host many.yaml -- true
	[[ $output == *"run.nodes"*"65 nodes"*"64"* ]]
}
