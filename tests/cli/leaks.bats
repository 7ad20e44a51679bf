#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Memory: no leak and no access out of bounds, on what is right and on what is wrong.

bats_require_minimum_version 1.5.0

setup() {
	command -v valgrind >/dev/null || skip "valgrind is not installed (Debian package: valgrind)"
	nm -D "$LONGHAUL" 2>/dev/null | grep -q __asan_init && skip "built with AddressSanitizer already"
	cd "$BATS_TEST_TMPDIR"
}

# Runs it under valgrind, expecting an exit status.
clean() {
	local expected=$1 status=0
	shift

	valgrind --quiet --leak-check=full --show-leak-kinds=all --errors-for-leak-kinds=definite,indirect,possible \
		--error-exitcode=99 "$LONGHAUL" "$@" >stdout 2>stderr || status=$?
	if [ "$status" -ne "$expected" ]; then
		echo "longhaul $*: status $status, not $expected"
		tail -n 40 stderr
		return 1
	fi
}

@test "planning, listing and printing the schema leak nothing" {
	clean 0 run --dry-run "$srcdir/tests/guest/small.yaml"
	clean 0 run --dry-run --json A-8-cv
	clean 0 run --dry-run --set nodes.0.count=3 --coarse --seed 5 A-2-cv
	clean 0 list
	clean 0 schema
	clean 0 import --provider x --continent asia --bandwidth '1 Gbit/s' --from a --to b "$srcdir"/tests/fuzz/corpus/import/{iperf3.json,iperf.txt,iperf-csv.txt,ping.txt,rows.csv}
	clean 3 import "$srcdir"/tests/fuzz/corpus/import/mixed-matrix.csv
	clean 0 run --help
}

@test "captured packets, whole and cut, leak nothing" {
	seeds=$srcdir/tests/fuzz/corpus/capture
	clean 0 capture --no-figures --out whole "$seeds/nano-swapped.pcap"
	clean 3 capture --no-figures --out cut "$seeds/cut.pcap"
	clean 3 capture --no-figures --out none "$srcdir/tests/guest/small.yaml"
	clean 0 run --dry-run --capture all --capture east/0,west "$srcdir/tests/guest/small.yaml"
	clean 3 run --dry-run --capture nowhere "$srcdir/tests/guest/small.yaml"
}

@test "training and measuring leak nothing, nor does what they refuse" {
	small='lenet5 --threads 1 --quiet'
	clean 0 train $small --samples 64 --batch 16 --steps 2 --no-figures --out trained
	clean 0 train $small --samples 64 --batch 16 --steps 2 --no-figures --json
	clean 2 train $small --steps 2 --out trained
	clean 3 train $small --set clases=3 --lr x --data mnist:/nowhere
	clean 3 train lenett
	clean 4 train resnet152 --batch 1000000
	clean 0 train --list
	clean 0 profile $small --batch 4,8 --seconds 0.1 --out measured.yaml
}

@test "bad scenarios and wrong usage leak nothing" {
	for name in three-mistakes unknown-machine missing-network-file negative-price duplicate-key \
		second-document not-yaml not-text alias-bomb a-list missing-keys wrong-type; do
		clean 3 run --dry-run "$srcdir/tests/cli/bad/$name.yaml"
	done
	clean 3 run --dry-run A-8-vc
	clean 2 run --set x "$srcdir/tests/guest/small.yaml"
	clean 2 reproduce clouds-1999
	clean 3 rerun nowhere
	clean 3 run --dry-run --set nodes.9.count=1 "$srcdir/tests/guest/small.yaml"
}
