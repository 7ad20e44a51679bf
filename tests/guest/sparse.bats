#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Gradients that are sent in part, in virtual time: bytes by their formulas, the same ones again.

bats_require_minimum_version 1.5.0
load run

setup_file() {
	load run
	need_python
	[ -n "$LONGHAUL_GUEST_KERNEL" ] || skip "no guest kernel"
}

setup() {
	cd "$BATS_FILE_TMPDIR"
}

# The small scenario with a compressor: sparse OUT COMPRESS [OPTION...]
sparse() {
	local to=$1 compress=$2
	shift 2
	small "$to" --set 'workload.strategy={kind: sparse-allgather}' \
		--set "workload.compress=$compress" "$@"
}

@test "every rank sends every other a message of as many elements as the density says" {
	for kind in topk mstopk random-k; do
		sparse "$kind" "{kind: $kind, density: 1 %}"
		check "$kind" <<-'END'
			for e in (0, 1):
			    sent = [a["payload_sent_bytes"] for a in events("average") if a["epoch"] == e]
			    assert sent == [2 * (4 + 8 * 10000)] * 3, sent
			assert all(a["checked_elements"] == 4096 for a in events("average"))
			assert engine["status"] == "done", engine
		END
	done
}

@test "a warm-up of density sends less and less" {
	sparse dgc '{kind: dgc, warm_up: 1, clip_norm: 1}' --set workload.epochs=6
	check dgc <<-'END'
		for e, k in enumerate([250001, 62500, 15625, 3906, 1000, 1000]):
		    sent = sum(a["payload_sent_bytes"] for a in events("average") if a["epoch"] == e)
		    assert sent == 3 * 2 * (4 + 8 * k), (e, sent)
	END
}

@test "the same seed gives the same bytes" {
	[ -d dgc ]
	sparse again '{kind: dgc, warm_up: 1, clip_norm: 1}' --set workload.epochs=6
	for file in dgc/*.csv dgc/engine.json dgc/trainer.json dgc/events/*; do
		cmp "$file" "again/${file#dgc/}"
	done
}

