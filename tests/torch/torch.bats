#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What compares the training engine with PyTorch, itself.

bats_require_minimum_version 1.5.0

setup() {
	export PYTHONDONTWRITEBYTECODE=1
	/usr/bin/python3 -c 'import torch' 2>/dev/null ||
		skip "PyTorch is not installed (Debian package: python3-torch)"
}

@test "right files of every model pass the comparison, spoiled ones do not" {
	run -0 timeout --kill-after=5 300 /usr/bin/python3 "$srcdir/tests/torch/selftest.py"
}

@test "published sizes have the published numbers of parameters" {
	run -0 timeout --kill-after=5 60 /usr/bin/python3 "$srcdir/tests/torch/models.py"
	[[ $output == *"resnet50               25557032"* ]]
}
