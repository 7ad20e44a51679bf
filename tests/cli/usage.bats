#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The command line: help, wrong usage (status 2), and what stops a run before it begins.

bats_require_minimum_version 1.5.0

verbs='run exec shell rerun verify train profile list plot capture reproduce import doctor schema'

setup() {
	cd "$BATS_TEST_TMPDIR"
	small=$srcdir/tests/guest/small.yaml
}

# A usage error: status 2, one line what is wrong, one where help is, nothing on standard output.
wrong() {
	run -2 --separate-stderr "$LONGHAUL" "$@"
	echo "$*: ${stderr}"
	[ -z "$output" ]
	[[ $stderr == *longhaul*": "* ]]
	[[ $stderr == *"--help"* ]]
}

@test "every verb has its help, and the help of all names every verb" {
	run -0 "$LONGHAUL" --help
	all=$output
	for verb in $verbs; do
		[[ $all == *"  $verb "* ]]
		run -0 --separate-stderr "$LONGHAUL" "$verb" --help
		[[ $output == "Usage: longhaul $verb"* ]]
		[ -z "$stderr" ]
	done
	[ "$(grep -c '^  [a-z]' <<<"$all")" -eq "$(wc -w <<<"$verbs")" ]
	run -0 "$LONGHAUL" --version
	[[ $output =~ ^longhaul\ [0-9] ]]
	run -2 "$LONGHAUL"
}

@test "every option that the help of run names is taken" {
	options=$("$LONGHAUL" run --help | sed -n 's/^  --\([a-z-]*\).*/\1/p')
	[ "$(wc -w <<<"$options")" -ge 10 ]
	for option in $options; do
		run "$LONGHAUL" run "--$option" x none.yaml
		echo "$option: $output"
		[[ $output != *"no option"* ]]
	done
}

@test "wrong usage is status 2 and says so" {
	wrong fly
	wrong run
	wrong run a.yaml b.yaml
	wrong run --nonsense "$small"
	wrong run --out
	wrong run --set seed "$small"
	wrong run --set =5 "$small"
	wrong run --repeat 0 "$small"
	wrong run --repeat 1x "$small"
	wrong run --repeat 1001 "$small"
	wrong exec
	wrong exec google-cloud-2023
	wrong exec google-cloud-2023 --
	wrong exec -- true
	wrong exec --nonsense google-cloud-2023 -- true
	wrong exec google-cloud-2023 other -- true
	wrong exec --all --node gc-us/0 google-cloud-2023 -- true
	wrong exec --time-limit 5 google-cloud-2023 -- true
	wrong exec --stuck-after soon google-cloud-2023 -- true
	wrong exec --set seed google-cloud-2023 -- true
	wrong exec --node google-cloud-2023 -- true
	wrong shell
	wrong shell google-cloud-2023 gc-us/0 gc-eu/0
	wrong verify --cloc real google-cloud-2023
	wrong shell --node gc-us/0 google-cloud-2023
	wrong rerun
	wrong rerun --seed 5 somewhere
	wrong list two words
	wrong plot
	wrong plot a b
	wrong reproduce
	wrong reproduce --nonsense clouds-2023
	wrong reproduce clouds-2023 Z-99-cv
	wrong doctor more
	wrong schema more
	many=()
	for i in {1..65}; do many+=(--set "run.seed=$i"); done
	wrong run "${many[@]}" "$small"
}

@test "an unknown suite is status 2" {
	run -2 "$LONGHAUL" reproduce clouds-1999
	[[ $output == *"no suite 'clouds-1999'"* ]]
}

@test "a run into a folder that exists is refused, and the folder is as it was" {
	mkdir results
	echo mine >results/file
	for kind in '' '--repeat=2'; do
		run -2 "$LONGHAUL" run $kind --out results "$small"
		[[ $output == *"results exists"*"never overwritten"* ]]
		[ "$(cat results/file)" = mine ]
		[ "$(ls -A . | wc -l)" -eq 1 ]
	done
}

@test "a run into a place that cannot be written is status 4" {
	[ -x "${LONGHAUL_GUEST_KERNEL:-}" ] || skip "no guest kernel"
	touch file
	run -4 "$LONGHAUL" run --out file/results "$small"
	[[ $output == *"file"* ]]
	run -4 "$LONGHAUL" run --out /proc/none/results "$small"
	[[ $output == *"/proc/none"* ]]
}

@test "a run into a folder that may not be written is status 4" {
	[ -x "${LONGHAUL_GUEST_KERNEL:-}" ] || skip "no guest kernel"
	[ "$(id -u)" -ne 0 ] || skip "root writes everywhere"
	mkdir shut
	chmod 500 shut
	run -4 "$LONGHAUL" run --out shut/results "$small"
	[[ $output == *"shut/results"* ]]
}

@test "a missing guest kernel is status 4 and says how to make one" {
	LONGHAUL_GUEST_KERNEL=/none/linux run -4 "$LONGHAUL" run --out results "$small"
	[[ $output == *"/none/linux"*"bootstrap build"* ]]
	[ ! -e results ]
	touch unfit
	chmod +x unfit
	LONGHAUL_GUEST_KERNEL=$PWD/unfit run -4 "$LONGHAUL" run --out results "$small"
	[[ $output == *"unfit"* ]]
	[ -z "$(ls -d results* 2>/dev/null)" ]
}

@test "a missing trainer is status 4" {
	[ -x "${LONGHAUL_GUEST_KERNEL:-}" ] || skip "no guest kernel"
	LONGHAUL_TRAINER=/none/trainer run -4 "$LONGHAUL" run --out results "$small"
	[[ $output == *"/none/trainer"* ]]
	[ ! -e results ]
}

@test "the host's kernel in virtual time is refused with status 3" {
	run -3 "$LONGHAUL" run --backend host --clock virtual --out results "$small"
	[[ $output == *"no virtual clock"* ]]
	run -3 "$LONGHAUL" run --backend host --out results "$small"
}

@test "a full disk is an error, not a short file" {
	[ "$(id -u)" -eq 0 ] || skip "only root mounts a small file system"
	[ -x "${LONGHAUL_GUEST_KERNEL:-}" ] || skip "no guest kernel"
	unshare --mount true 2>/dev/null || skip "no mount namespaces here"
	for size in 4k 16k; do
		status=0
		unshare --mount bash -c "mkdir -p disk && mount -t tmpfs -o size=$size none disk &&
			timeout 60 \"\$LONGHAUL\" run --quiet --no-figures --out disk/results \"$small\" &&
			ls disk" >out 2>&1 || status=$?
		cat out
		echo "$size: status $status"
		[ "$status" -ne 0 ] && [ "$status" -lt 120 ]
		[[ $(cat out) == *"No space left on device"* ]]
	done
}

@test "standard output that cannot be written is an error" {
	[ -e /dev/full ] || skip "no /dev/full"
	for arguments in list schema '--help' "run --dry-run $small" "run --dry-run --json $small"; do
		status=0
		"$LONGHAUL" $arguments >/dev/full 2>error || status=$?
		echo "$arguments: $status: $(cat error)"
		[ "$status" -ne 0 ]
		[[ $(cat error) == *"No space left"* ]]
	done
}

@test "list shows every scenario file and every experiment" {
	run -0 "$LONGHAUL" list
	for file in "$LONGHAUL_DATADIR"/*.yaml; do
		[[ $output == *"  $(basename "$file" .yaml) "* ]]
	done
	[[ $output == *"A-8-cv "* ]]
	[[ $output == *"published: "* ]]
}

# row 33
@test "doctor says what is missing and how to mend it" {
	LONGHAUL_GUEST_KERNEL=/none/linux LONGHAUL_DATADIR=/none run -4 "$LONGHAUL" doctor
	[[ $output == *"MISSING  catalog"*"mend:"* ]]
	[[ $output == *"MISSING  guest kernel"*"mend:"* ]]
}

@test "a node that is not there is status 2, and the nodes that are there are told" {
	run -2 "$LONGHAUL" exec --node gc-us/7 google-cloud-2023 -- true
	[[ $output == *"no node 'gc-us/7'"*"gc-us/0"* ]]
	run -2 "$LONGHAUL" shell google-cloud-2023 gc-us/7
	[[ $output == *"no node 'gc-us/7'"*"gc-us/0"* ]]
}

@test "a workload with a command takes no key of training, and training none of a command" {
	sed '/^workload:/,/^run:/c\workload: {command: [hostname]}\nrun: {}' "$small" >command.yaml
	run -0 "$LONGHAUL" run --dry-run command.yaml
	[[ $output == *"Workload  hostname"*"progress is not reported"* ]]
	run -3 "$LONGHAUL" run --set workload.epochs=3 command.yaml
	[[ $output == *"workload.epochs: unknown key in a workload with a command; it belongs to"* ]]
	run -3 "$LONGHAUL" run --set 'workload.stop_after=3 s' "$small"
	[[ $output == *"workload.stop_after: unknown key in a workload without a command; it belongs to"* ]]
	sed -i 's/{command: .*/{command: [hostname], epochs: 3}/' command.yaml
	run -3 "$LONGHAUL" exec command.yaml
	[[ $output == *"command.yaml:"*"workload.epochs: unknown key in a workload with a command"* ]]
	sed -i 's/{command: .*/{command: []}/' command.yaml
	run -3 "$LONGHAUL" exec command.yaml
	[[ $output == *"workload.command: is empty"* ]]
	run -3 "$LONGHAUL" run --set run.probe=none "$small"
	[[ $output == *"run.probe: trainers run in networks that were measured"* ]]
}

@test "progress that cannot be read is refused before anything runs, with the nearest name" {
	sed '/^workload:/,/^run:/c\workload: {command: [hostname]}\nrun: {}' "$small" >command.yaml
	while IFS='|' read -r progress expected; do
		run -3 "$LONGHAUL" run --set "workload.progress=$progress" command.yaml
		echo "$progress: $output"
		[[ $output == *"workload.progress"*"$expected"* ]]
	done <<-'END'
		{of: group}|expected either `pattern` or `file`
		{pattern: a, file: b}|expected either `pattern` or `file`
		{pattern: '(?<samples>a'}|missing closing parenthesis, at character 13
		{pattern: '(?<sample>a)'}|unknown group 'sample'; did you mean 'samples'?
		{pattern: 'epoch (?<epoch>a)'}|says nothing of samples
		{patern: a, samples: 3}|unknown key in progress; did you mean 'pattern'?
		{pattern: a, samples: 0}|too small
		{file: a, of: all}|group
	END
	run -3 "$LONGHAUL" run --set workload.folder=none command.yaml
	[[ $output == *"workload.folder"*"none"*"No such file"* ]]
	run -3 "$LONGHAUL" run --charge-cpu --clock real command.yaml
	[[ $output == *"run.charge_cpu"*"clock: virtual"* ]]
}

@test "rerun takes no option that changes a run, and its help names none" {
	run -0 "$LONGHAUL" rerun --help
	[[ $output != *--seed* && $output != *--set* && $output != *--repeat* && $output == *--dry-run* ]]
	for option in --seed=1 --set=a=b --repeat=2 --clock=real --coarse; do
		wrong rerun "$option" somewhere
		[[ $stderr == *"repeated as it was"* ]]
	done
	mkdir of-exec
	echo '{"exec": ["east/0"], "scenario": {"workload": {"command": ["true"]}}}' >of-exec/run.json
	run -3 "$LONGHAUL" rerun of-exec
	[[ $output == *"is of longhaul exec"* ]]
}

@test "no name of a folder can change the words of the guest's command line" {
	cat >kernel <<-END
		#!/bin/sh
		printf '%s\\n' "\$@" >"$BATS_TEST_TMPDIR/words"
		exit 1
	END
	chmod +x kernel
	for name in 'a"b' 'a -- b' 'a"b" c' 'ü  x'; do
		mkdir "$name"
		LONGHAUL_GUEST_KERNEL=$PWD/kernel run "$LONGHAUL" run --quiet --out "$name/out" A-2-cv
		[ "$status" = 1 ]
		[ "$(grep -c '^init="' words)" = 1 ]
		[ "$(grep -v '^init="' words | grep -c '[" ]')" = 0 ]
		grep -qx 'uml_dir=.guest' words
	done
}

@test "a dry run shows which nodes go, come and are slow, and --json all of them" {
	spot='{mean_time_to_preemption: 1 h, mean_return: 2 min, for: 50 h}'
	run -0 "$LONGHAUL" run --dry-run --set timeline='[{at: 90 h, preempt: west, notice: 30 s}, {at: 9 s, slow: east/1, factor: 3, for: 4 s}]' \
		--set spot="$spot" --set nodes.0.joins_at='2 s' "$small"
	[[ $output == *$'\n'"90 h                      west                          preempted for good, told before by 30 s"$'\n'* ]]
	[[ $output == *$'\n'"9 s          4 s          east/1                        computing takes 3 times as long"$'\n'* ]]
	[[ $output == *$'\n'"2 s                       east/0                        joins"$'\n'* ]]
	[ "$(grep -c ' a spot interruption$' <<<"$output")" -eq 20 ]
	more=$(sed -n 's/^\.\.\. and \([0-9]*\) more spot interruptions.*/\1/p' <<<"$output")
	n=$("$LONGHAUL" run --dry-run --json --set spot="$spot" --set nodes.0.joins_at='2 s' --set timeline='[{at: 90 h, preempt: west}]' "$small" |
		grep -c '"cause": "spot"')
	[ "$n" -eq $((20 + more)) ]
	[ "$n" -gt 100 ]
}
