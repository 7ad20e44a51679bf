#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Spoken words are learnt: thirty, by espeak-ng's voices, and written when voices say them that were
# never heard.

bats_require_minimum_version 1.5.0

@test "at least 95 % of the words of voices that were not heard are written whole" {
	cd "$BATS_TEST_TMPDIR"
	run --separate-stderr "$srcdir/tools/make-speech" speech
	[ "$status" -ne 4 ] || skip "$stderr"
	[ "$status" -eq 0 ]
	# the settings were chosen with a fifth of the voices to train held out, never on those to test
	"$LONGHAUL" train whisper-tiny --data speech:speech --set vocabulary=259 --set sequence=10 \
		--set positions=10 --set frames=120 --set frame_positions=60 --set width=96 --set layers=2 \
		--set heads=4 --set dropout=0.1 --epochs 8 --batch 16 --lr 0.001 --evaluate 1000 \
		--threads 1 --quiet --json --no-figures >model.json
	python3 - <<-'EOF'
		import json
		t = json.load(open("model.json"))["test"]
		print(t)
		assert t["samples"] == 360
		assert t["word_accuracy"] >= 0.95, t
	EOF
}
