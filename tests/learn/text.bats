#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A language is learnt: 1.5 MB of English, and bits per byte of what follows in the same book.

bats_require_minimum_version 1.5.0

@test "a small language model needs fewer bits per byte than a Kneser-Ney bigram, by a tenth at least" {
	cd "$BATS_TEST_TMPDIR"
	run --separate-stderr "$srcdir/tools/make-text" text
	[ "$status" -ne 4 ] || skip "$stderr"
	[ "$status" -eq 0 ]
	"$LONGHAUL" train gpt-small --data text:text --set width=64 --set inner=256 --set layers=2 \
		--set sequence=64 --set positions=64 --steps 1000 --batch 16 --lr 0.005 \
		--threads 1 --quiet --json --no-figures >model.json
	bigram=$("$srcdir/tests/kneser-ney" text/train.txt text/test.txt) python3 - <<-'EOF'
		import json, os
		t = json.load(open("model.json"))
		assert t["begin"]["samples"] * 64 > 1 << 20
		# every byte is a token, so the loss is bits per byte
		assert abs(t["test"]["bits_per_byte"] - t["test"]["loss"] / 0.6931471805599453) < 1e-9
		print(t["test"]["bits_per_byte"], os.environ["bigram"])
		assert t["test"]["bits_per_byte"] < 0.9 * float(os.environ["bigram"]), t["test"]
	EOF
}
