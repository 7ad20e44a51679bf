#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Programs that people use, unchanged, in both clocks. Each is skipped where it is not installed.
# A busy machine may miss the network's targets in real time: status 6 is fine there.

bats_require_minimum_version 1.5.0
load run

setup() {
	cd "$BATS_TEST_TMPDIR"
	small=$srcdir/tests/guest/small.yaml
}

need() {
	command -v "$1" >/dev/null || skip "$1 is not installed (Debian package: $2)"
}

everywhere() {
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" exec --all --no-probe "$@"
}

# Runs it in real time: everywhere_real OPTION... -- COMMAND...; its output is in $output.
everywhere_real() {
	run everywhere --clock real "$@"
	echo "status $status: $output"
	[ "$status" -eq 0 ] || [ "$status" -eq 6 ]
}

# A file of 5 MB from east/0 to west/0, by a server that runs in the background there.
serve() {
	head -c 5000000 /dev/zero >file
	cat >script.sh <<-END
		case \$LONGHAUL_NODE in
		east/0) $1 & sleep 5 ;;
		west/0) sleep 2; curl -sS -o /dev/null -w '%{http_code} %{size_download} %{time_total}\n' http://east-0:8000/file ;;
		esac
	END
}

# 5 MB at 200 Mbit/s are 0.2 s, and slow start takes a few round trips of 40 ms.
assert_fetched() {
	[[ $output =~ west/0:\ 200\ 5000000\ 0\.([2-9]) ]]
}

@test "ping reads the round trip, in both clocks" {
	need ping iputils-ping
	run -0 everywhere "$small" -- ping -c 3 -i 0.5 west-0
	[[ $output == *"east/0: rtt min/avg/max/mdev = 40.0"* ]]
	everywhere_real "$small" -- ping -c 3 -i 0.2 west-0
	[[ $output =~ east/0:\ rtt\ min/avg/max/mdev\ =\ 4[0-9]\. ]]
}

@test "iperf3 between two nodes reads the path's bandwidth" {
	need iperf3 iperf3
	run -0 everywhere "$small" -- sh -c 'case $LONGHAUL_NODE in
		east/0) iperf3 -s -1 ;; west/0) sleep 1; iperf3 -c east-0 -t 1 -f m ;; esac'
	echo "$output"
	[[ $output =~ west/0:.*\ 1[0-9][0-9]\ Mbits/sec.*receiver ]]
}

# row 13
@test "curl fetches from nginx" {
	need curl curl
	PATH=$PATH:/usr/sbin need nginx nginx-light
	cat >nginx.conf <<-END
		daemon off; error_log stderr; pid /dev/shm/nginx.pid; user root;
		events {}
		http { access_log off; client_body_temp_path /dev/shm/b; proxy_temp_path /dev/shm/p;
		fastcgi_temp_path /dev/shm/f; uwsgi_temp_path /dev/shm/u; scgi_temp_path /dev/shm/s;
		server { listen 8000; root $PWD; } }
	END
	serve "$(PATH=$PATH:/usr/sbin command -v nginx) -c $PWD/nginx.conf"
	run -0 everywhere "$small" -- sh script.sh
	echo "$output"
	assert_fetched
	everywhere_real "$small" -- sh script.sh
	[[ $output == *"west/0: 200 5000000"* ]]
}

@test "sockets of python, and names in both directions" {
	need_python
	cat >ring.py <<-'END'
		import os, socket, time
		rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
		hosts = os.environ["LONGHAUL_HOSTS"].split()
		server = socket.create_server(("", 7000))
		time.sleep(1)
		begin = time.monotonic()
		to = socket.create_connection((hosts[(rank + 1) % n], 7000))
		peer, address = server.accept()
		assert socket.gethostbyaddr(address[0])[0] == hosts[rank - 1]
		assert socket.gethostname() == hosts[rank]
		if rank == 0:
		    to.sendall(b"x")
		    assert peer.recv(1) == b"x"
		    print("round in %.1f ms" % (1000 * (time.monotonic() - begin)))
		else:
		    to.sendall(peer.recv(1))
	END
	run -0 everywhere "$small" -- python3 ring.py
	echo "$output"
	# at least half a round trip inside east and two halves between the sites
	[[ $output =~ east/0:\ round\ in\ ([0-9]+)\. ]]
	[ "${BASH_REMATCH[1]}" -ge 40 ] && [ "${BASH_REMATCH[1]}" -le 130 ]
}
