# SPDX-License-Identifier: Apache-2.0
# What the benchmarks share. LONGHAUL names the command; ./bootstrap, which builds what it
# needs and then runs longhaul, is the default.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
LONGHAUL=${LONGHAUL:-$here/../bootstrap}
work=$(mktemp -d "${TMPDIR:-/tmp}/longhaul-bench-XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
export LC_ALL=C

# column FILE NAME: the values of a CSV column; text in quotes may hold commas
column() {
	awk -v want="$2" '
		function split_csv(line, f,   n, i, c, q, s) {
			n = 1; s = ""; q = 0
			for (i = 1; i <= length(line); i++) {
				c = substr(line, i, 1)
				if (c == "\"") q = !q
				else if (c == "," && !q) { f[n++] = s; s = "" }
				else s = s c
			}
			f[n] = s
			return n
		}
		NR == 1 { n = split_csv($0, h); for (i = 1; i <= n; i++) if (h[i] == want) k = i; next }
		{ split_csv($0, f); print f[k] }' "$1"
}

# sum: adds its input
sum() { awk '{ s += $1 } END { printf "%.6f\n", s }'; }
