# SPDX-License-Identifier: Apache-2.0
# A scenario of any size for benchmarks: mesh SITES NODES_A_SITE [PATH_KEYS]. Every pair of sites
# has a path of its own; PATH_KEYS are added to each between two sites.

mesh() {
	awk -v sites="$1" -v each="$2" -v keys="${3:-}" 'BEGIN {
		print "longhaul: 1\nname: mesh\nnetwork:\n  network: mesh\n  source: made up\n  sites:"
		for (a = 0; a < sites; a++)
			printf "    s%d: {provider: on-premise, continent: europe}\n", a
		print "  paths:"
		for (a = 0; a < sites; a++)
			for (b = a; b < sites; b++)
				if (a != b)
					printf "    - {between: [s%d, s%d], rtt: %d ms, bandwidth: %d Mbit/s, stream_window: 500 kB%s}\n",
						a, b, 20 + (a * 7 + b * 13) % 150, 1000 + (a * 31 + b * 17) % 900, keys
				else if (each > 1)
					printf "    - {between: [s%d, s%d], rtt: 0.5 ms, bandwidth: 10 Gbit/s}\n", a, b
		print "nodes:"
		for (a = 0; a < sites; a++)
			printf "  - {site: s%d, count: %d, machine: box}\n", a, each
		print "workload: {command: [\"true\"]}"
		print "machines:\n  box: {provider: on-premise, nic: {up: 10 Gbit/s, down: 10 Gbit/s}}"
	}'
}
