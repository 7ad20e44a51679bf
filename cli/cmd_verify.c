/* SPDX-License-Identifier: Apache-2.0 */
/* longhaul verify: builds a network, measures every path, says where it misses. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/execute.h"
#include "cli/options.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/verify.h"

enum {
	SHOWN_MAX = 20, /* rows of one property before the rest is only counted */
};

struct verify_options {
	const char *target;
	const char *out;
	struct lh_overrides overrides;
	long sample;
	bool json;
	bool quiet;
	bool no_figures;
};

static int take_out(void *context, const char *value)
{
	((struct verify_options *)context)->out = value;
	return -1;
}

static int take_sample(void *context, const char *value)
{
	struct verify_options *o = context;
	char *end;

	o->sample = strtol(value, &end, 10);
	if (*end || end == value || o->sample < 1)
		return lh_cli_usage("verify", "--sample takes a number of at least 1, not '%s'",
				    value);
	return -1;
}

static int take_json(void *context, const char *value)
{
	(void)value;
	((struct verify_options *)context)->json = true;
	return -1;
}

static int take_quiet(void *context, const char *value)
{
	(void)value;
	((struct verify_options *)context)->quiet = true;
	return -1;
}

static int take_no_figures(void *context, const char *value)
{
	(void)value;
	((struct verify_options *)context)->no_figures = true;
	return -1;
}

static const struct lh_option option_rows[] = {
	{.name = "out",
	 .arg = "DIR",
	 .doc = "results folder (results/verify-NAME); it must not exist",
	 .take = take_out},
	{.name = "sample",
	 .arg = "N",
	 .doc = "N pairs of nodes, drawn by the seed, in place of all",
	 .take = take_sample},
	LH_OPTION_SET,
	LH_OPTION_SEED,
	LH_OPTION_CLOCK,
	LH_OPTION_BACKEND,
	LH_OPTION_NODES,
	{.name = "json", .doc = "print verify.json", .take = take_json},
	{.name = "quiet", .doc = "no progress", .take = take_quiet},
	{.name = "no-figures", .doc = "tables only", .take = take_no_figures},
	LH_OPTION_HELP,
	{.name = NULL},
};

static void print_help(void)
{
	printf("Usage: longhaul verify [OPTION...] NETWORK|SCENARIO\n\n"
	       "Builds a network, sends packets over every path in each direction, and says for "
	       "each\n"
	       "property what was asked for and what came: delay, jitter and its shape, order, "
	       "loss\n"
	       "and its bursts, duplicates, damage, rate, serialisation, queue. NETWORK is a "
	       "network\n"
	       "file, or a name in the catalog (google-cloud-2023); each of its sites gets a node "
	       "with\n"
	       "an unlimited network card. With a SCENARIO its own nodes are used. What chance "
	       "decides\n"
	       "is judged so that a right network fails once in a thousand proofs.\n\n");
	lh_options_print(option_rows);
	printf("\nExit status: 0 all is as asked for, 6 something is not, or this machine is not "
	       "fit to\n"
	       "tell.\n");
}

static const struct lh_options options = {"verify", option_rows, print_help, NULL};

static int parse(struct verify_options *o, int argc, char **argv)
{
	int index, end, status;

	status = lh_options_parse(&options, argc, argv, o, &o->overrides, &index, &end);
	if (status >= 0)
		return status;
	if (index != argc - 1)
		return lh_cli_usage("verify", index == end ? "no network or scenario was named"
							   : "one network or scenario at a time");
	o->target = argv[index];
	return -1;
}

static double number(const json_t *row, const char *key)
{
	return json_number_value(json_object_get(row, key));
}

static const char *text(const json_t *row, const char *key)
{
	const char *s = json_string_value(json_object_get(row, key));

	return s ? s : "";
}

/* Rows of one property: those that miss, or a few, and how many there are. */
static void print_property(const json_t *rows, const char *property)
{
	size_t i, n = 0, n_missed = 0, n_shown = 0;
	json_t *row;

	json_array_foreach (rows, i, row) {
		bool ok = json_is_true(json_object_get(row, "ok"));

		if (strcmp(text(row, "property"), property) != 0)
			continue;
		n++;
		n_missed += !ok;
		if (n_shown >= SHOWN_MAX && ok)
			continue;
		n_shown++;
		printf("%-18s %-14s %-14s %12.6g ", property, text(row, "from_node"),
		       text(row, "to_node"), number(row, "target"));
		if (json_is_number(json_object_get(row, "achieved")))
			printf("%12.6g", number(row, "achieved"));
		else
			printf("%12s", "nothing");
		printf(" %10.4g %-7s %s\n", number(row, "tolerance") + number(row, "chance"),
		       text(row, "unit"), ok ? "ok" : "MISS");
	}
	if (n > n_shown)
		printf("%-18s %zu more, all ok\n", property, n - n_shown);
}

static int print_verdict(const char *out, bool as_json)
{
	lh_cleanup_free char *path = lh_path_join(out, "verify.json");
	lh_cleanup_json json_t *doc = NULL;
	struct lh_error err = {0};
	const json_t *rows;

	if (!path || lh_json_read(path, &doc, &err) < 0)
		return lh_cli_fail(NULL, &err);
	if (as_json) {
		json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
		putchar('\n');
		return 0;
	}
	rows = json_object_get(doc, "rows");
	printf("%-18s %-14s %-14s %12s %12s %10s\n", "property", "from", "to", "target", "achieved",
	       "allowed +-");
	for (int p = 0; p < LH_N_PROPERTIES; p++)
		print_property(rows, lh_property_name((enum lh_property)p));
	printf("\n%lld of %lld directed paths between nodes, %zu properties, %lld of them by "
	       "chance: %s\nResults: %s\n",
	       (long long)json_integer_value(json_object_get(doc, "paths")),
	       (long long)json_integer_value(json_object_get(doc, "all_paths")),
	       json_array_size(rows), (long long)json_integer_value(json_object_get(doc, "tests")),
	       json_is_true(json_object_get(doc, "ok")) ? "all as asked for" : "NOT as asked for",
	       out);
	lh_cli_print_fitness(out);
	return 0;
}

/* results/verify-NAME, or with -2, -3 ... where that exists; owned by the caller. */
static char *default_out(const struct lh_scenario *sc)
{
	lh_cleanup_free char *out = lh_strf("results/verify-%s", sc->name);

	return out ? lh_path_unused(out) : NULL;
}

static int verify(const void *context, const struct lh_scenario *sc)
{
	const struct verify_options *o = context;
	lh_cleanup_free char *out = o->out ? strdup(o->out) : default_out(sc);
	struct lh_execution ex = {.scenario = sc,
				  .out = out,
				  .quiet = o->quiet,
				  .figures = !o->no_figures,
				  .verifies = true,
				  .sample = (size_t)o->sample};
	struct lh_results results;
	struct lh_error err = {0};
	bool has_results;
	int r, status = 0;

	if (!out)
		return 1;
	r = lh_execute(&ex, &results, &has_results, &err);
	if (r == 0 || r == LH_EMEASURE || r == LH_EUNFIT)
		status = print_verdict(out, o->json);
	return r < 0 ? lh_cli_fail(NULL, &err) : status;
}

int lh_cmd_verify(int argc, char **argv)
{
	struct verify_options o = {0};
	int status = parse(&o, argc, argv);

	if (status < 0) {
		const struct lh_scenario_source source = {
			.file = o.target,
			.catalog_dir = lh_cli_catalog_dir(),
			.overrides = o.overrides.list,
			.n_overrides = o.overrides.n,
			.network_as = LH_NETWORK_AS_PATHS,
		};

		status = lh_options_run(&options, &source, verify, &o);
	}
	lh_overrides_done(&o.overrides);
	return status;
}
