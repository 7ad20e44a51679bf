/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the verbs that run scenarios. See run_options.h. */
#include "cli/run_options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/execute.h"
#include "core/cleanup.h"
#include "core/file.h"

enum { REPEAT_MAX = 1000 };

/* --out DIR, without slashes at its end. */
static int take_out(void *context, const char *value)
{
	struct lh_run_options *o = context;
	size_t n = strlen(value);

	while (n > 1 && value[n - 1] == '/')
		n--;
	if (!n)
		return lh_cli_usage("run", "--out takes the name of a folder");
	free(o->out);
	o->out = strndup(value, n);
	return o->out ? -1 : 1;
}

static int take_repeat(void *context, const char *value)
{
	struct lh_run_options *o = context;
	char *end;
	long n = strtol(value, &end, 10);

	if (*end || end == value || n < 1 || n > REPEAT_MAX)
		return lh_cli_usage("run", "--repeat takes a number from 1 to %d, not '%s'",
				    REPEAT_MAX, value);
	o->repeat = (int)n;
	return -1;
}

static int take_dry_run(void *context, const char *value)
{
	(void)value;
	((struct lh_run_options *)context)->dry_run = true;
	return -1;
}

static int take_json(void *context, const char *value)
{
	(void)value;
	((struct lh_run_options *)context)->json = true;
	return -1;
}

static int take_quiet(void *context, const char *value)
{
	(void)value;
	((struct lh_run_options *)context)->quiet = true;
	return -1;
}

static int take_no_figures(void *context, const char *value)
{
	(void)value;
	((struct lh_run_options *)context)->no_figures = true;
	return -1;
}

#define OPTION_OUT                                                                                \
	{                                                                                         \
		.name = "out", .arg = "DIR",                                                      \
		.doc = "results folder (results/NAME-seedN); it must not exist", .take = take_out \
	}
#define OPTIONS_OF_OUTPUT                                                                        \
	{.name = "dry-run",                                                                      \
	 .doc = "print the whole plan with numbers, run nothing",                                \
	 .take = take_dry_run},                                                                  \
		{.name = "json", .doc = "print results as JSON", .take = take_json},             \
		{.name = "quiet", .doc = "no progress", .take = take_quiet},                     \
	{                                                                                        \
		.name = "no-figures", .doc = "no figures and no report", .take = take_no_figures \
	}

const struct lh_option lh_run_rows[] = {
	OPTION_OUT,
	LH_OPTION_SET,
	LH_OPTION_SEED,
	{.name = "repeat",
	 .arg = "N",
	 .doc = "run N times, seeds in a row; repeat.csv has means and intervals",
	 .take = take_repeat},
	OPTIONS_OF_OUTPUT,
	LH_OPTION_BACKEND,
	LH_OPTION_CLOCK,
	LH_OPTION_NODES,
	LH_OPTION_CHARGE_CPU,
	{.name = "probe",
	 .arg = "P",
	 .doc = "short, or full: the network is measured as the published figures were",
	 .key = "run.probe"},
	{.name = "coarse",
	 .doc = "large packets: faster to emulate, throughput nearly the same",
	 .key = "run.segments",
	 .value = "coarse"},
	LH_OPTION_CAPTURE,
	LH_OPTION_HELP,
	{.name = NULL},
};

const struct lh_option lh_rerun_rows[] = {
	OPTION_OUT,
	OPTIONS_OF_OUTPUT,
	LH_OPTION_HELP,
	{.name = NULL},
};

int lh_run_options_parse(struct lh_run_options *o, const struct lh_options *verb, int argc,
			 char **argv)
{
	int index, end, status;

	o->repeat = 1;
	status = lh_options_parse(verb, argc, argv, o, &o->overrides, &index, &end);
	if (status >= 0)
		return status;
	if (index != argc - 1)
		return lh_cli_usage(verb->verb, index == end ? "nothing to run was named"
							     : "one thing to run at a time");
	o->target = argv[index];
	return -1;
}

void lh_run_options_done(struct lh_run_options *o)
{
	free(o->out);
	lh_overrides_done(&o->overrides);
}

static void print_results(const struct lh_run_options *o, const struct lh_results *results,
			  const char *out)
{
	lh_cleanup_free char *text = NULL;
	struct lh_error err = {0};

	if (o->json) {
		lh_cleanup_json json_t *doc = lh_results_json(results);

		json_object_set_new(doc, "results_folder", json_string(out));
		json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
		putchar('\n');
		return;
	}
	if (lh_results_format(results, lh_cli_width(), &text, &err) == 0)
		printf("%s", text);
	lh_cli_print_fitness(out);
	printf("\nResults: %s%s\n", out, o->no_figures ? "" : " (report.html, figures/)");
}

/* One run into out; the exit status. */
static int run_once(const struct lh_run_options *o, struct lh_scenario *sc, const char *out,
		    bool print)
{
	struct lh_execution ex = {.scenario = sc,
				  .out = out,
				  .quiet = o->quiet,
				  .figures = !o->no_figures,
				  .folder = o->folder,
				  .stuck_after_ns = LH_STUCK_AFTER_NS};
	struct lh_results results;
	struct lh_error err = {0};
	char moved[PATH_MAX];
	bool has_results;
	int r;

	ex.ret_out = moved;
	r = lh_execute(&ex, &results, &has_results, &err);
	if (has_results) {
		if (print)
			print_results(o, &results, moved);
		lh_results_done(&results);
	}
	return r < 0 ? lh_cli_fail(NULL, &err) : 0;
}

/* Means and intervals over the runs in dirs. */
static int summarise(const struct lh_run_options *o, char *const *dirs, size_t n, const char *out)
{
	lh_cleanup_free char *path = lh_path_join(out, "repeat.csv");
	lh_cleanup_free char *text = NULL;
	struct lh_table table;
	struct lh_error err = {0};
	int r = lh_collect_repeat((const char *const *)dirs, n, path, &table, &err);

	if (r < 0)
		return lh_cli_fail(NULL, &err);
	if (o->json) {
		json_t *doc = json_pack("{s:o, s:s}", "metrics", lh_table_format_json(&table),
					"results_folder", out);

		json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
		putchar('\n');
		json_decref(doc);
	} else if (lh_table_format_text(&table, lh_cli_width(), &text, &err) == 0) {
		printf("%s\nResults: %s\n", text, out);
	}
	lh_table_done(&table);
	return 0;
}

int lh_run_repeat(const struct lh_run_options *o, struct lh_scenario *sc)
{
	lh_cleanup_free char *chosen = o->out ? strdup(o->out) : lh_default_out(sc);
	lh_cleanup_free char **dirs = calloc((size_t)o->repeat, sizeof(*dirs));
	int64_t first = sc->run.seed;
	struct lh_error err = {0};
	int status = 0, n = 0;

	if (!chosen || !dirs)
		return 1;
	if (o->repeat == 1)
		return run_once(o, sc, chosen, true);
	if (first > INT64_MAX - o->repeat)
		return lh_cli_usage("run", "seeds from %lld on do not fit", (long long)first);
	if (lh_path_exists(chosen))
		return lh_cli_usage("run", "%s exists; results are never overwritten", chosen);
	for (; n < o->repeat && status == 0; n++) {
		if (lh_scenario_set_seed(sc, first + n, &err) < 0) {
			status = lh_cli_fail(NULL, &err);
			break;
		}
		dirs[n] = lh_strf("%s/seed-%lld", chosen, (long long)sc->run.seed);
		status = run_once(o, sc, dirs[n], false);
	}
	if (status == 0)
		status = summarise(o, dirs, (size_t)n, chosen);
	for (int i = 0; i < n; i++)
		free(dirs[i]);
	return status;
}
