#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The CUDA device on a GPU. Where there is none, or no CUDA, the tests are skipped with the reason.

setup() {
	program=$builddir/tests/gpu/cuda_layers_test
	[ -x "$program" ] || skip "not built: cmocka is missing (Debian package: libcmocka-dev)"
}

# Runs the program under what is given and fails, or skips, as it does.
run_layers() {
	run env CMOCKA_MESSAGE_OUTPUT=STDOUT "$@" "$program"
	echo "$output"
	[ "$status" -ne 77 ] || skip "${lines[-1]}"
	[ "$status" -eq 0 ]
}

@test "every layer agrees with the reference device in fp32, fp16 and bf16" {
	run_layers
}

@test "compute-sanitizer finds no wrong access to memory" {
	# Without a GPU the sanitizer has nothing to watch, so the program says first whether there is one.
	"$program" --check >/dev/null || skip "$("$program" --check)"
	command -v compute-sanitizer >/dev/null || skip "compute-sanitizer is not installed (part of NVIDIA's CUDA toolkit)"
	run_layers compute-sanitizer --tool memcheck --error-exitcode 9
}

@test "compute-sanitizer finds no race in shared memory" {
	"$program" --check >/dev/null || skip "$("$program" --check)"
	command -v compute-sanitizer >/dev/null || skip "compute-sanitizer is not installed (part of NVIDIA's CUDA toolkit)"
	run_layers compute-sanitizer --tool racecheck --error-exitcode 9
}
