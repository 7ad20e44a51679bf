#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The tree itself: every file that is built, installed or run as a test is listed.

setup() {
	cd "$srcdir"
}

# Prints those of the files named on standard input that no Makefile.inc lists.
unlisted() {
	while IFS= read -r file; do
		grep -qF -e "$file" Makefile.am ./*/Makefile.inc || echo "$file"
	done
}

@test "every C file of a room is listed in a Makefile.inc" {
	missing=$(find core scenarios emulator trainer collect plots import cli -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | unlisted)
	echo "not listed: $missing"
	[ -z "$missing" ]
}

@test "every scenario, catalog and plot template is listed, so that it is installed" {
	missing=$(find scenarios plots -name '*.yaml' -o -name '*.gp' | unlisted)
	echo "not listed: $missing"
	[ -z "$missing" ]
}

@test "every test is listed, so that it runs" {
	missing=$(find tests -name '*_test.c' -o -name '*.bats' | sed 's/\.c$//' | unlisted)
	echo "not listed: $missing"
	[ -z "$missing" ]
}

@test "every Python program of the tests is listed, so that it is in the archive" {
	missing=$(find tests -name '*.py' | unlisted)
	echo "not listed: $missing"
	[ -z "$missing" ]
}

@test "every C file and script names its licence at its head" {
	missing=$(find bootstrap .ci core scenarios emulator trainer collect plots import cli tests -type f \
		\( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' -o -name '*.bats' -o -name '*.py' -o -name Makefile.inc -o -perm -u+x \) |
		while IFS= read -r file; do
			grep -Iq . "$file" || continue # a program that was built here
			head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || echo "$file"
		done)
	echo "without: $missing"
	[ -z "$missing" ]
}
