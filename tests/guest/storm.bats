#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A storm of preemptions, one a second on average for three minutes: the training comes to its end,
# all samples are accounted for, and the same seed gives the same bytes. bench/storm has eight hours.

bats_require_minimum_version 1.5.0
load run

storm() {
	timeout --kill-after=5 600 "$LONGHAUL" run --quiet --no-figures --out "$1" \
		"$srcdir/tests/guest/storm.yaml" >"$1.txt" 2>&1 || { cat "$1.txt"; return 1; }
}

setup_file() {
	load run
	need_python
	[ -n "$LONGHAUL_GUEST_KERNEL" ] || skip "no guest kernel"
	cd "$BATS_FILE_TMPDIR"
	storm first
}

setup() {
	cd "$BATS_FILE_TMPDIR"
}

@test "training ends, and every sample counts once or is told as lost" {
	check first <<-'END'
		assert engine["status"] == "done" and not any(engine["unexplained"].values()), engine
		span = (engine["end_ns"] - engine["begin_ns"]) / 1e9
		n = sum(r["event"] == "preempt" for r in rows("faults.csv"))
		assert span > 150 and 0.75 < n / span < 1.25, (n, span)
		computed = {}
		for e in events("computed"):
		    computed[e["rank"]] = computed.get(e["rank"], 0) + 1
		samples = rows("samples.csv")
		for rank, n in computed.items():
		    own = [r for r in samples if int(r["rank"]) == rank]
		    assert 8 * n == sum(int(r["computed_samples"]) for r in own), (rank, n)
		for r in samples:
		    assert int(r["computed_samples"]) == sum(int(r[k + "_samples"]) for k in ("committed", "given_up", "killed")), r
		epochs = rows("epochs.csv")
		assert len(epochs) == 70 and all(int(r["samples"]) >= 320 for r in epochs)
		assert sum(int(r["committed_samples"]) for r in samples) == sum(int(r["samples"]) for r in epochs)
		assert sum(int(r["killed_samples"]) for r in samples) > 0
		# every averaged number was what it must be
		assert all(a["checked_elements"] > 0 for a in events("average"))
	END
}

@test "the same seed gives the same bytes" {
	storm second
	local file n=0
	for file in first/*.csv first/engine.json first/events/*; do
		cmp "$file" "second/${file#first/}"
		n=$((n + 1))
	done
	[ "$n" -gt 100 ]
}
