#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Gradients in buckets, one after another or beside the backward pass.

bats_require_minimum_version 1.5.0
load run

setup() {
	need_python
	cd "$BATS_TEST_TMPDIR"
}

@test "buckets send what the whole vector sends, and travel beside the backward pass" {
	small whole --set workload.strategy='{kind: ring, balance: fixed}'
	small parts --set workload.strategy='{kind: ring, balance: fixed, bucket: 500 kB}'
	small beside --set workload.strategy='{kind: ring, balance: fixed, bucket: 500 kB, overlap: true}'
	python3 - <<-END
		import csv, json, glob
		def table(run):
		    return list(csv.DictReader(open(run + "/epochs.csv")))
		def payload(run):
		    rows = [json.loads(l) for f in glob.glob(run + "/events/*.jsonl") for l in open(f)]
		    return sorted(e["payload_sent_bytes"] for e in rows if e["event"] == "average")
		def seconds(run, key):
		    return sum(float(r[key]) for r in table(run))
		assert sum(payload("whole")) == sum(payload("parts")) == sum(payload("beside"))
		whole, parts, beside = (seconds(r, "communication_s") for r in ("whole", "parts", "beside"))
		# seven buckets more of four steps, each of them at least the ring's mean delay of 13 ms, less
		# what one long step takes beyond a short one
		assert parts > whole + 2 * 7 * 4 * 0.013 / 2, (whole, parts)
		# a micro-batch of 16 samples at 100 a second: 107 ms of backward pass, less the last bucket's
		assert 2 * 0.08 < parts - beside < 2 * 0.107, (parts, beside)
		assert seconds("parts", "calculation_s") == seconds("beside", "calculation_s")
	END
}

@test "buckets without overlap work beside a group that tells its counts" {
	small dynamic --set workload.strategy='{kind: butterfly, matchmaking: 1 s, bucket: 1 MB}'
	python3 - <<-END
		import csv
		assert len(list(csv.DictReader(open("dynamic/epochs.csv")))) == 2
	END
}
