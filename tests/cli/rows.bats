#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Each row of "What users of such tools ran into" in docs/emulation.md is shown by tests, which
# name it: `row 5`, or `rows 5, 8`.

setup() {
	cd "$srcdir"
}

# The rows that a test file names, one in a line.
named() {
	grep -oE '\brows? [0-9]+(, [0-9]+)*' "tests/$1" | tr -cs 0-9 '\n' | grep . || true
}

# The table: a row's number, then its test files.
table() {
	sed -n '/^## What users of such tools ran into/,$s/^| \([0-9]*\) |.*|.*| \(.*\) |$/\1 \2/p' docs/emulation.md |
		tr -d ,
}

@test "every row is named by the tests that show it" {
	[ "$(table | wc -l)" -ge 48 ]
	missing=$(table | while read -r row files; do
		[ -n "$files" ] || echo "row $row: no test"
		for file in $files; do
			named "$file" | grep -qx "$row" || echo "row $row: not in $file"
		done
	done)
	echo "$missing"
	[ -z "$missing" ]
}

@test "a test names no row that is not in the table with it" {
	unknown=$(for file in tests/{unit/*_test.c,cli/*.bats,guest/*.bats}; do
		file=${file#tests/}
		[ "$file" = cli/rows.bats ] || named "$file" | while read -r row; do
			table | grep -q "^$row .*$file" || echo "$file: row $row"
		done
	done)
	echo "$unknown"
	[ -z "$unknown" ]
}
