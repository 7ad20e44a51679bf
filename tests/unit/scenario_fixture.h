/* SPDX-License-Identifier: Apache-2.0 */
/* A small scenario with nothing outside it, and reading one from text. For unit tests. */
#ifndef LH_TESTS_UNIT_SCENARIO_FIXTURE_H
#define LH_TESTS_UNIT_SCENARIO_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "scenarios/scenario.h"
#include "tests/unit/test.h"

static const char small_scenario[] =
	"longhaul: 1\n"
	"name: small\n"
	"network:\n"
	"  network: two-sites\n"
	"  sites:\n"
	"    east: {provider: google, continent: europe}\n"
	"    west: {provider: google, continent: north-america}\n"
	"  paths:\n"
	"    - {between: [east, west], rtt: 40 ms, bandwidth: 200 Mbit/s}\n"
	"    - {between: [east, east], rtt: 0.6 ms, bandwidth: 1 Gbit/s}\n"
	"nodes:\n"
	"  - {site: east, count: 2, machine: box}\n"
	"  - {site: west, machine: box}\n"
	"workload:\n"
	"  model: tiny\n"
	"  target_batch: 960\n"
	"  strategy: {kind: butterfly}\n"
	"pricing:\n"
	"  catalog:\n"
	"    prices: today\n"
	"    date: 2023-04\n"
	"    vm: [{machine: box, spot: 0.5 USD/h}]\n"
	"    egress: {google: {inter_continent: 0.08 USD/GB}}\n"
	"machines:\n"
	"  box:\n"
	"    provider: google\n"
	"    gpu: gpu\n"
	"    nic: {up: 2 Gbit/s, down: 3 Gbit/s}\n"
	"    host: {default: {averaging_rate: 1 Gbit/s}}\n"
	"  crate:\n"
	"    provider: google\n"
	"    gpu: gpu\n"
	"    nic: {up: 1 Gbit/s, down: 1 Gbit/s}\n"
	"    host: {default: {averaging_rate: 1 Gbit/s}, tiny: {averaging_rate: 2 Gbit/s}}\n"
	"models:\n"
	"  tiny: {domain: vision, parameters: 1000003, bytes_per_sample: 10 kB}\n"
	"profiles:\n"
	"  gpu: {models: {tiny: {micro_batch: 16, samples_per_s: 100, variation: 1 %}}}\n";

/* The catalog that ships. */
static inline const char *catalog_dir(void)
{
	const char *dir = getenv("LONGHAUL_DATADIR");

	assert_non_null(dir); /* tests/Makefile.inc sets it */
	return dir;
}

/* Reads text as the file DIR/s.yaml, which is gone afterwards; DIR is TMPDIR or /tmp. */
static inline int fixture_read(const char *text, const char *catalog_dir,
			       const struct lh_override *overrides, size_t n_overrides,
			       struct lh_scenario **ret, struct lh_diag *diag, struct lh_error *err)
{
	const char *tmp = getenv("TMPDIR");
	lh_cleanup_free char *dir = lh_strf("%s/lh-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	lh_cleanup_free char *path = NULL;
	int r;

	assert_non_null(mkdtemp(dir));
	path = lh_path_join(dir, "s.yaml");
	assert_int_equal(lh_file_write(path, text, strlen(text), err), 0);
	r = lh_scenario_read(path, catalog_dir, overrides, n_overrides, ret, diag, err);
	assert_int_equal(lh_dir_remove(dir, err), 0);
	return r;
}

/* The same for text that must be right. */
static inline struct lh_scenario *
fixture_read_ok(const char *text, const struct lh_override *overrides, size_t n_overrides)
{
	struct lh_scenario *sc = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};

	if (fixture_read(text, NULL, overrides, n_overrides, &sc, &diag, &err) < 0)
		fail_msg("%s: %s", err.message, diag.n_messages ? diag.messages[0] : "");
	assert_non_null(sc);
	return sc;
}

#endif
