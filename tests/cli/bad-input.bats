#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Bad scenarios: tests/cli/bad/NAME.yaml with all that is to be said of it in NAME.err, where
# CATALOG stands for the catalog's folder. Every one is refused with status 3 within seconds
# and a bounded memory, by a dry run as by a run.

bats_require_minimum_version 1.5.0

setup() {
	cd "$srcdir/tests/cli/bad"
	out=$BATS_TEST_TMPDIR
}

# Refuses SCENARIO with exactly the messages of its .err file.
refuse() {
	local name=$1 status=0
	shift

	(ulimit -v 1000000 -t 20 && exec "$LONGHAUL" run "$@" "$name.yaml") \
		>"$out/stdout" 2>"$out/stderr" || status=$?
	sed "s|$LONGHAUL_DATADIR|CATALOG|g" "$out/stderr" >"$out/messages"
	if [ "$status" -ne 3 ] || [ -s "$out/stdout" ] || ! diff -u "$name.err" "$out/messages"; then
		echo "$name: status $status"
		return 1
	fi
}

# rows 12, 20, 44
@test "every bad scenario is refused with its messages, all at once" {
	if [[ $(file -L "$LONGHAUL") == *asan* ]] || nm -D "$LONGHAUL" 2>/dev/null | grep -q __asan_init; then
		skip "AddressSanitizer reserves more address space than the bound"
	fi
	n=0
	for file in *.yaml; do
		refuse "${file%.yaml}" --dry-run
		n=$((n + 1))
	done
	echo "$n scenarios"
	[ "$n" -ge 30 ]
	[ "$(ls ./*.err | wc -l)" -eq "$n" ]
}

@test "a bad scenario leaves nothing behind" {
	cd "$out"
	for name in three-mistakes host-and-virtual not-yaml; do
		run -3 "$LONGHAUL" run --out "$out/results/x" "$srcdir/tests/cli/bad/$name.yaml"
	done
	[ ! -e "$out/results" ]
}

@test "three mistakes are three messages, each with file, line and column" {
	run -3 --separate-stderr "$LONGHAUL" run --dry-run three-mistakes.yaml
	[ "${#stderr_lines[@]}" -eq 3 ]
	for line in "${stderr_lines[@]}"; do
		[[ $line =~ ^three-mistakes\.yaml:[0-9]+:[0-9]+:\  ]]
	done
}

@test "a folder and a missing file are refused with status 3" {
	run -3 "$LONGHAUL" run --dry-run .
	[[ $output == longhaul:\ *"directory"* ]]
	run -3 "$LONGHAUL" run --dry-run ./none.yaml
	[[ $output == *"./none.yaml: no such file"* ]]
}

@test "a file that may not be read is refused with status 3" {
	[ "$(id -u)" -ne 0 ] || skip "root reads everything"
	cp three-mistakes.yaml "$out/secret.yaml"
	chmod 000 "$out/secret.yaml"
	run -3 "$LONGHAUL" run --dry-run "$out/secret.yaml"
	[[ $output == *"Permission denied"* ]]
}

@test "a results folder whose run.json is damaged is refused with status 3" {
	mkdir "$out/r"
	for text in '' '{' '{}' '[]' '{"scenario": 5}' '{"scenario": {}}' '{"scenario": null}'; do
		printf '%s' "$text" >"$out/r/run.json"
		for verb in rerun plot; do
			run "$LONGHAUL" "$verb" "$out/r"
			echo "$verb of $text: $status: $output"
			[ "$status" -eq 3 ]
			[ -n "$output" ]
		done
	done
	rm "$out/r/run.json"
	run -3 "$LONGHAUL" rerun "$out/r"
	run -3 "$LONGHAUL" plot "$out/r"
	[[ $output == *"$out/r/run.json"* ]]
}

@test "a run.json without its machines, models, profiles or nodes is refused" {
	"$LONGHAUL" run --dry-run --json A-2-cv >"$out/plan.json"
	mkdir "$out/r"
	for key in machines models profiles nodes network workload; do
		python3 - "$out/plan.json" "$out/r/run.json" "$key" <<-'END'
			import json, sys
			doc = json.load(open(sys.argv[1]))["scenario"]
			del doc[sys.argv[3]]
			json.dump({"scenario": doc}, open(sys.argv[2], "w"))
		END
		run "$LONGHAUL" rerun --dry-run "$out/r"
		echo "without $key: $status: $output"
		[ "$status" -eq 3 ]
		[ -n "$output" ]
	done
}

@test "a delay of 300 s and a rate of 45 Gbit/s are legal and exact" {
	"$LONGHAUL" run --dry-run --json --set network.paths.0.rtt='600 s' \
		--set network.paths.0.bandwidth='45 Gbit/s' "$srcdir/tests/guest/small.yaml" >"$out/plan.json"
	python3 - "$out/plan.json" <<-'END'
		import json, sys
		paths = json.load(open(sys.argv[1]))["network"]["paths"]
		far = [p for p in paths if p["from"][:4] != p["to"][:4]]
		assert far and all(p["delay_ns"] == 300_000_000_000 for p in far), far
		assert all(p["bandwidth_bps"] == 45_000_000_000 for p in far), far
		assert all(p["limit_pkts"] * 1514 >= 45e9 / 8 * 300.2 for p in far), far
	END
	run -0 "$LONGHAUL" run --dry-run --set network.paths.0.rtt='600 s' \
		--set network.paths.0.bandwidth='45 Gbit/s' "$srcdir/tests/guest/small.yaml"
	[[ $output == *" 5 min "*" 45 Gbit/s "* ]]
}
