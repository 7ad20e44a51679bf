#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The JSON Schema of scenarios: what is checked in, and what it accepts and refuses.

bats_require_minimum_version 1.5.0

setup() {
	out=$BATS_TEST_TMPDIR
}

need_jsonschema() {
	python3 -c 'import jsonschema' 2>/dev/null ||
		skip "python3-jsonschema is not installed (Debian package: python3-jsonschema)"
}

@test "the checked-in schema is what the program prints" {
	run -0 "$LONGHAUL" schema
	diff -u "$srcdir/scenarios/schema.json" - <<<"$output" ||
		{ echo "mend: longhaul schema >scenarios/schema.json"; false; }
}

@test "the schema is a draft-07 schema that documents every key" {
	need_jsonschema
	"$LONGHAUL" schema >"$out/schema.json"
	python3 - "$out/schema.json" <<-'END'
		import json, jsonschema, sys
		schema = json.load(open(sys.argv[1]))
		jsonschema.Draft7Validator.check_schema(schema)
		def walk(s, at):
		    for key, value in s.get("properties", {}).items():
		        assert value.get("description"), at + key
		        inner = [value, value.get("items", {}), value.get("additionalProperties") or {}]
		        for i in inner + value.get("anyOf", []):
		            walk(i, at + key + ".")
		walk(schema, "")
	END
}

# Validates the JSON documents on standard input (of a plan: its scenario); prints how many hold.
validate() {
	python3 -c '
import json, jsonschema, sys
check = jsonschema.Draft7Validator(json.load(open(sys.argv[1])))
text, n = sys.stdin.read().strip(), 0
while text:
    doc, end = json.JSONDecoder().raw_decode(text)
    doc = doc.get("scenario", doc)
    for error in check.iter_errors(doc):
        sys.exit("%s: %s: %s" % (doc.get("name"), list(error.absolute_path), error.message))
    text, n = text[end:].lstrip(), n + 1
print(n)' "$srcdir/scenarios/schema.json"
}

@test "every scenario and experiment that ships is valid, as resolved" {
	need_jsonschema
	ids=$("$LONGHAUL" list | sed -n '/^Suite/,$s/^  \([^ ]*\) .*/\1/p')
	n=0
	for scenario in "$LONGHAUL_DATADIR"/*.yaml $ids "$srcdir/tests/guest/small.yaml"; do
		"$LONGHAUL" run --dry-run --json "$scenario" >>"$out/documents"
		n=$((n + 1))
	done
	run -0 validate <"$out/documents"
	[ "$output" -eq "$n" ]
	[ "$n" -ge 30 ]
}

@test "every scenario that ships is valid, as written" {
	need_jsonschema
	python3 -c 'import yaml' 2>/dev/null ||
		skip "python3-yaml is not installed (Debian package: python3-yaml)"
	for file in "$LONGHAUL_DATADIR"/*.yaml "$srcdir/tests/guest/small.yaml"; do
		python3 -c 'import json, sys, yaml
print(json.dumps(yaml.safe_load(open(sys.argv[1])), default=str))' "$file"
	done >"$out/documents"
	run -0 validate <"$out/documents"
	[ "$output" -ge 3 ]
}

@test "the schema refuses what the reader refuses" {
	need_jsonschema
	"$LONGHAUL" run --dry-run --json "$srcdir/tests/guest/small.yaml" >"$out/plan.json"
	python3 - "$srcdir/scenarios/schema.json" "$out/plan.json" <<-'END'
		import copy, json, jsonschema, sys
		check = jsonschema.Draft7Validator(json.load(open(sys.argv[1])))
		good = json.load(open(sys.argv[2]))["scenario"]
		assert check.is_valid(good)
		changes = [
		    (["longhaul"], 2), (["colour"], "red"), (["nodes"], 5), (["nodes", 0, "count"], 0),
		    (["network", "paths", 0, "rtt"], 5), (["network", "paths", 0, "rtt"], "5"),
		    (["network", "paths", 0, "bandwidth"], "5 Mbps"), (["network", "mtu"], 1500),
		    (["network", "paths", 0, "queue"], "5 pkts"), (["network", "paths", 0, "loss"], 1.5),
		    (["network", "paths", 0, "jitter_distribution"], "gamma"),
		    (["run", "clock"], "virtaul"), (["workload", "epochs"], "two"),
		    (["workload", "strategy", "kind"], "moth"), (["workload", "compress"], "zip"),
		    (["workload", "strategy", "delayed_update"], "yes"),
		    (["workload", "strategy", "streams"], 65), (["workload", "strategy", "bucket"], 25),
		    (["workload", "strategy", "balance"], "even"), (["workload", "compress"], {"kind": "zip"}),
		    (["workload", "compress"], {"kind": "none", "level": 9}), (["workload", "compress"], {}),
		]
		for path, value in changes:
		    doc = copy.deepcopy(good)
		    at = doc
		    for step in path[:-1]:
		        at = at[step]
		    at[path[-1]] = value
		    assert not check.is_valid(doc), path
	END
}
