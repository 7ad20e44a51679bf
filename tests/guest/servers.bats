#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Parameter servers of two clouds: what must add up, for every exchange, and what must repeat.

bats_require_minimum_version 1.5.0
load run

setup_file() {
	load run
	need_python
	cd "$BATS_FILE_TMPDIR"
	servers asgd
	servers asgd-ga --set workload.strategy.exchange=asgd-ga --set workload.strategy.period=5
	servers averaging --set workload.strategy.exchange=averaging --set workload.strategy.period=5
	servers halfway --set workload.strategy.exchange=averaging --set workload.strategy.period=5 \
		--set workload.strategy.asynchronous=true
}

setup() {
	cd "$BATS_FILE_TMPDIR"
}

# longhaul run with two clouds: servers OUT [OPTION...]
servers() {
	local to=$1
	shift
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" run --quiet --no-figures --out "$to" "$@" \
		"$srcdir/tests/guest/servers.yaml" >"$to.out"
}

@test "all runs are valid, and samples are conserved" {
	local run
	for run in asgd asgd-ga averaging halfway; do
		grep -q 'seed 1: valid' "$run.out"
		check "$run" <<-'END'
			for e in rows("epochs.csv"):
			    computed = sum(c["samples"] for c in events("compute") if c["epoch"] == int(e["epoch"]))
			    assert computed == int(e["samples"]) == 960, e
		END
	done
}

@test "each site computes its share of the data" {
	check asgd <<-'END'
		by_site = {}
		for c in events("compute"):
		    site = plan["nodes"][c["rank"]]["node"].split("/")[0]
		    by_site[site] = by_site.get(site, 0) + c["samples"]
		assert by_site == {"east": 12 * 576, "west": 12 * 384}, by_site
	END
}

# P = 1000003 numbers of four bytes; in each of 12 updates 1 and 2 workers push and pull, beside
# what servers send each other, and workers pull once more after the servers' last average
@test "bytes equal the formula of each exchange" {
	local run messages final
	for run in 'asgd 12 1' 'asgd-ga 3 1' 'averaging 3 0' 'halfway 3 1'; do
		read -r run messages final <<<"$run"
		messages=$messages final=$final check "$run" <<-'END'
			dense, messages, final = 4 * 1000003, int(os.environ["messages"]), int(os.environ["final"])
			sent = sum(a["payload_sent_bytes"] for a in events("average"))
			received = sum(a["payload_received_bytes"] for a in events("average"))
			assert sent == received == dense * (12 * 2 * (1 + 2) + 2 * messages), (sent, received)
			told = [e for e in events("exchange") if e["epoch"] == 11]
			assert [e["messages_sent"] for e in told] == 2 * [messages], told
			assert [e["updates_heard"] for e in told] == 2 * [12], told
			last = sum(a["payload_sent_bytes"] for a in events("agree"))
			assert last == final * dense * (2 + 1 + 2), last
			total = sum(int(r["payload_bytes"]) for r in rows("traffic.csv"))
			assert sent <= total <= sent + last, (sent, total, last)
		END
	done
}

@test "gradients are applied once each: the servers differ by rounding alone" {
	local run
	for run in asgd asgd-ga; do
		check "$run" <<-'END'
			apart = [a["distance_ratio"] for a in events("agree") if a["distance_ratio"] is not None]
			assert len(apart) == 2 and max(apart) < 1e-6, apart
			checked = [sum(a["checked_elements"] for a in events("average") if a["rank"] == r) for r in (0, 2)]
			assert min(checked) > 0, checked
		END
	done
}

# 20 MB take 8.4 s at 20 Mbit/s; the west has an update in less than 2 s
@test "asgd waits for a path that is too slow, asgd-ga makes messages fewer" {
	servers slow --set models.tiny.parameters=5000003
	servers slow-ga --set models.tiny.parameters=5000003 \
		--set workload.strategy.exchange=asgd-ga --set workload.strategy.period=1
	check slow <<-'END'
		told = [e for e in events("exchange") if e["rank"] == 2]
		assert told[-1]["messages_sent"] == 12, told[-1]
		spans = {a["epoch"]: (a["end_ns"] - a["begin_ns"]) / 1e9 for a in events("average") if a["rank"] == 2}
		# three or four are under way; the next waits until one has left: 8.4 s each
		assert max(spans[e] for e in range(3)) < 1 and min(spans[e] for e in range(6, 11)) > 5, spans
	END
	check slow-ga <<-'END'
		told = [e for e in events("exchange") if e["epoch"] == 11]
		assert all(3 <= e["messages_sent"] < 12 and e["updates_heard"] == 12 for e in told), told
		spans = [(a["end_ns"] - a["begin_ns"]) / 1e9 for a in events("average") if a["rank"] == 2 and a["epoch"] < 11]
		assert max(spans) < 1, spans
	END
}

# the server of its site waits for it alone, with nothing under way that could go unanswered
@test "a worker that goes for good ends the run, which names it" {
	run -1 --separate-stderr timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" run --quiet --no-figures --out gone \
		--set 'timeline=[{at: 8 s, preempt: west/1}]' "$srcdir/tests/guest/servers.yaml"
	[[ $stderr == *"west/1 (rank 3) was preempted at 8 s"* ]]
	grep -q 'rank 3 (west/1)' gone/events/rank-2.jsonl
}

@test "the same seed gives the same bytes" {
	servers again --set workload.strategy.exchange=asgd-ga --set workload.strategy.period=5
	for file in asgd-ga/*.csv asgd-ga/engine.json asgd-ga/trainer.json asgd-ga/events/*; do
		cmp "$file" "again/${file#asgd-ga/}"
	done
}

@test "a WAN that is cut for a while delays messages and loses none" {
	servers cut --set workload.strategy.exchange=asgd-ga --set workload.strategy.period=2 \
		--set 'timeline=[{site: west, at: 8 s, for: 10 s, cut_off: true}]'
	check cut <<-'END'
		told = [e for e in events("exchange") if e["epoch"] == 11]
		assert all(e["updates_heard"] == 12 for e in told), told
		# nobody waits but at the end
		spans = [(a["end_ns"] - a["begin_ns"]) / 1e9 for a in events("average") if a["rank"] in (0, 2) and a["epoch"] < 11]
		assert max(spans) < 1, spans
	END
}

# 60 and 40 % of the data, two and three nodes alike: the east sets the time, the west needs two
@test "an elastic strategy releases what it does without: the same time, less to pay" {
	local prices='{prices: p, date: 2023, source: s, vm: [{machine: box, spot: 1 USD/h, on_demand: 3 USD/h}], egress: {p: {same_zone: 0 USD/GB, inter_zone: 0 USD/GB, inter_region: {asia: 0 USD/GB}}}}'
	servers all --set "pricing={catalog: $prices}"
	servers elastic --set "pricing={catalog: $prices}" --set workload.strategy.elastic=true
	grep -q 'elastic: 1 of 5 nodes were released: VMs cost .* (spot): 20.0 % less' elastic.out
	[ ! -e all/released.csv ]
	check elastic <<-'END'
		released = rows("released.csv")
		assert [r["node"] for r in released] == ["west/2"], released
		vms = [int(r["usd_micro"]) for r in rows("cost.csv") if r["item"] == "vm" and r["scope"] == "spot"]
		assert len(vms) == 4 and all(v == int(released[0]["spot_usd_micro"]) for v in vms), (vms, released)
		one = lambda run: float(list(csv.DictReader(open(run + "/throughput.csv")))[0]["wall_s"])
		assert abs(one("elastic") / one("all") - 1) < 0.02, (one("elastic"), one("all"))
	END
}

@test "gradients that are sent in part: every message is checked, and has the bytes of its density" {
	servers topk --set workload.strategy.exchange=asgd-ga --set workload.strategy.period=4 \
		--set 'workload.compress={kind: mstopk, density: 1 %}'
	check topk <<-'END'
		told = [e for e in events("exchange") if e["epoch"] == 11]
		assert [e["messages_sent"] for e in told] == [3, 3], told
		sent = sum(a["payload_sent_bytes"] for a in events("average"))
		assert sent == 12 * 2 * 3 * 4 * 1000003 + 6 * (4 + 8 * 10000), sent
		checked = [sum(a["checked_elements"] for a in events("average") if a["rank"] == r) for r in (0, 2)]
		assert min(checked) > 0, checked
	END
}

# a suite of one's own: ours beside what is claimed, with the figure
@test "claims of a suite are measured, and drawn" {
	mkdir -p data/experiments
	cp -r "$LONGHAUL_DATADIR"/{networks,machines,models,profiles,prices} data/
	python3 - "$srcdir/tests/guest/servers.yaml" data/experiments/mine.yaml <<-'END'
		import sys
		lines = open(sys.argv[1]).read().split("\n")
		base = "\n".join("  " + l for l in lines if l and not l.startswith(("longhaul:", "name:", "about:")))
		base = base.replace("\n    strategy: {kind: parameter-server}", "")
		open(sys.argv[2], "w").write("""longhaul: 1
		suite: mine
		base:
		""".replace("\t", "") + base + """
		workloads:
		  one: {strategy: {kind: parameter-server}, epochs: 8}
		  four: {strategy: {kind: parameter-server, exchange: asgd-ga, period: 4}, epochs: 8}
		groups:
		  - workloads: [one, four]
		    placements: {P: {about: here}}
		claims:
		  - {id: faster, claim: it is fast, source: page 1, status: unconfirmed, measure: speed-up, least: 0.5, most: 9,
		     pairs: [{of: P-four, against: P-one}]}
		unknown: [{setting: the batch, ours: "960"}]
		sweep: {about: mine, label: f, against: P-one, points: [{series: ga, at: 4, run: P-four}]}
		""".replace("\t", ""))
	END
	LONGHAUL_DATADIR=$PWD/data timeout --kill-after=5 120 "$LONGHAUL" reproduce mine --out claims --json >claims.json
	python3 - <<-'END'
		import csv, json
		said = json.load(open("claims.json"))
		claim = said["claims"][0]
		one, four = (float(next(csv.DictReader(open("claims/P-%s/throughput.csv" % n)))["throughput_sps"]) for n in ("one", "four"))
		assert abs(claim["least"] - four / one) < 1e-3 and claim["within"] == "yes", claim
		assert said["unknown"] == [{"setting": "the batch", "ours": "960"}], said["unknown"]
		assert list(csv.DictReader(open("claims/sweep.csv")))[0]["series"] == "ga"
	END
	if command -v gnuplot >/dev/null; then
		[ -s claims/figures/sweep.svg ]
	fi
}
