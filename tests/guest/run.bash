# SPDX-License-Identifier: Apache-2.0
# What the tests of whole runs share. Loaded by bats; every run has a deadline.

run_limit_s=60

need_python() {
	command -v python3 >/dev/null || skip "python3 is not installed (Debian package: python3)"
}

# longhaul run with the small scenario: small OUT [OPTION...]
small() {
	local to=$1
	shift
	timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" run --quiet --no-figures --out "$to" "$@" \
		"$srcdir/tests/guest/small.yaml"
}

# Writes net.yaml, two sites and the path between them: two_sites 'rtt: 80 ms, bandwidth: 1 Gbit/s'
two_sites() {
	cat >net.yaml <<-END
		longhaul: 1
		network: mine
		sites:
		  a: {provider: p, continent: europe}
		  b: {provider: p, continent: asia}
		paths:
		  - {between: [a, b], $1}
	END
}

# Checks a results folder with python: check OUT <<'END' ... END; `rows(NAME)` reads a table,
# `events()` all events, `plan` and `engine` are the JSON files.
check() {
	python3 -c '
import csv, glob, json, math, os, sys
out = sys.argv[1]
def rows(name):
    with open(os.path.join(out, name), newline="") as f:
        return list(csv.DictReader(f))
def events(kind=None):
    for path in sorted(glob.glob(os.path.join(out, "events", "rank-*.jsonl"))):
        for line in open(path):
            event = json.loads(line)
            if kind in (None, event["event"]):
                yield event
def load(name):
    with open(os.path.join(out, name)) as f:
        return json.load(f)
plan, engine = load("network.json"), load("engine.json")
exec(sys.stdin.read())' "$1"
}

# Waits until a command succeeds, at most SECONDS: wait_for SECONDS COMMAND...
wait_for() {
	local deadline=$((SECONDS + $1))
	shift

	until "$@"; do
		if [ "$SECONDS" -ge "$deadline" ]; then
			echo "not within the deadline: $*"
			return 1
		fi
		sleep 0.05 # between two looks at the condition
	done
}

# The processes on this machine that execute the file.
processes_of() {
	local exe
	for exe in /proc/[0-9]*/exe; do
		[ "$(readlink "$exe" 2>/dev/null)" != "$1" ] || basename "${exe%/exe}"
	done
}

# A guest kernel of this test's own, so that its processes can be told from those of others.
own_kernel() {
	cp "$LONGHAUL_GUEST_KERNEL" "$BATS_TEST_TMPDIR/linux"
	export LONGHAUL_GUEST_KERNEL=$BATS_TEST_TMPDIR/linux
}

no_guest_left() {
	[ -z "$(processes_of "$LONGHAUL_GUEST_KERNEL")" ]
}
