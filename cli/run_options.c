/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the verbs that run scenarios. See run_options.h. */
#include "cli/run_options.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/execute.h"
#include "core/cleanup.h"
#include "core/file.h"

enum { REPEAT_MAX = 1000, OPTION_FIRST_LONG = 256 };

enum option_id {
	OPT_OUT = OPTION_FIRST_LONG,
	OPT_SET,
	OPT_SEED,
	OPT_REPEAT,
	OPT_DRY_RUN,
	OPT_JSON,
	OPT_BACKEND,
	OPT_CLOCK,
	OPT_NODES,
	OPT_PROBE,
	OPT_COARSE,
	OPT_QUIET,
	OPT_NO_FIGURES,
	OPT_HELP,
};

/* One table: getopt's form, the help, and the scenario key that an option stands for. */
struct option_row {
	const char *name;
	const char *arg; /* NULL: none */
	enum option_id id;
	const char *key; /* NULL: not a key of the scenario */
	const char *doc;
};

static const struct option_row rows[] = {
	{"out", "DIR", OPT_OUT, NULL, "results folder (results/NAME-seedN); it must not exist"},
	{"set", "PATH=VALUE", OPT_SET, NULL,
	 "change a key of the scenario: --set workload.epochs=2"},
	{"seed", "N", OPT_SEED, "run.seed", "seed of everything random"},
	{"repeat", "N", OPT_REPEAT, NULL,
	 "run N times, seeds in a row; repeat.csv has means and intervals"},
	{"dry-run", NULL, OPT_DRY_RUN, NULL, "print the whole plan with numbers, run nothing"},
	{"json", NULL, OPT_JSON, NULL, "print results as JSON"},
	{"backend", "B", OPT_BACKEND, "run.backend", "auto, host or guest"},
	{"clock", "C", OPT_CLOCK, "run.clock", "virtual or real"},
	{"nodes", "W", OPT_NODES, "run.nodes",
	 "where nodes are: guest, or host (a GPU), by the real clock"},
	{"probe", "P", OPT_PROBE, "run.probe",
	 "short, or full: the network is measured as the published figures were"},
	{"coarse", NULL, OPT_COARSE, "run.segments",
	 "large packets: faster to emulate, throughput nearly the same"},
	{"quiet", NULL, OPT_QUIET, NULL, "no progress"},
	{"no-figures", NULL, OPT_NO_FIGURES, NULL, "no figures and no report"},
	{"help", NULL, OPT_HELP, NULL, "this text"},
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

void lh_run_options_print(void)
{
	for (size_t i = 0; i < N_ROWS; i++)
		printf("  --%s%s%-*s %s\n", rows[i].name, rows[i].arg ? " " : "",
		       (int)(20 - strlen(rows[i].name) - (rows[i].arg != NULL)),
		       rows[i].arg ? rows[i].arg : "", rows[i].doc);
}

static void fill_getopt(struct option *table)
{
	for (size_t i = 0; i < N_ROWS; i++)
		table[i] =
			(struct option){rows[i].name, rows[i].arg ? required_argument : no_argument,
					NULL, (int)rows[i].id};
	table[N_ROWS] = (struct option){NULL, 0, NULL, 0};
}

static int add_override(struct lh_run_options *o, const char *verb, const char *path,
			const char *value)
{
	if (o->n_overrides == LH_OVERRIDES_MAX)
		return lh_cli_usage(verb, "more than %d changes", LH_OVERRIDES_MAX);
	o->overrides[o->n_overrides++] = (struct lh_override){path, value};
	return -1;
}

/* --set PATH=VALUE. */
static int add_set(struct lh_run_options *o, const char *verb, const char *arg)
{
	const char *equals = strchr(arg, '=');
	char *path;

	if (!equals || equals == arg)
		return lh_cli_usage(verb, "--set takes PATH=VALUE, not '%s'", arg);
	if (o->n_owned == LH_OVERRIDES_MAX || !(path = strndup(arg, (size_t)(equals - arg))))
		return lh_cli_usage(verb, "more than %d changes", LH_OVERRIDES_MAX);
	o->owned[o->n_owned++] = path;
	return add_override(o, verb, path, equals + 1);
}

/* --out DIR, without slashes at its end. */
static int set_out(struct lh_run_options *o, const char *verb, const char *arg)
{
	size_t n = strlen(arg);

	while (n > 1 && arg[n - 1] == '/')
		n--;
	if (!n)
		return lh_cli_usage(verb, "--out takes the name of a folder");
	if (o->n_owned == LH_OVERRIDES_MAX || !(o->owned[o->n_owned] = strndup(arg, n)))
		return lh_cli_usage(verb, "more than %d changes", LH_OVERRIDES_MAX);
	o->out = o->owned[o->n_owned++];
	return -1;
}

static int set_repeat(struct lh_run_options *o, const char *verb, const char *arg)
{
	char *end;
	long n = strtol(arg, &end, 10);

	if (*end || end == arg || n < 1 || n > REPEAT_MAX)
		return lh_cli_usage(verb, "--repeat takes a number from 1 to %d, not '%s'",
				    REPEAT_MAX, arg);
	o->repeat = (int)n;
	return -1;
}

static const struct option_row *row_of(int id)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if ((int)rows[i].id == id)
			return &rows[i];
	return NULL;
}

/* Takes one option, shown as the user wrote it; -1 to go on, else the exit status. */
static int take(struct lh_run_options *o, const char *verb, int id, const char *shown,
		void (*print_help)(void))
{
	const struct option_row *row = row_of(id);

	switch (id) {
	case OPT_OUT:
		return set_out(o, verb, optarg);
	case OPT_SET:
		return add_set(o, verb, optarg);
	case OPT_REPEAT:
		return set_repeat(o, verb, optarg);
	case OPT_DRY_RUN:
		o->dry_run = true;
		return -1;
	case OPT_JSON:
		o->json = true;
		return -1;
	case OPT_QUIET:
		o->quiet = true;
		return -1;
	case OPT_NO_FIGURES:
		o->no_figures = true;
		return -1;
	case OPT_HELP:
		print_help();
		return 0;
	case ':':
		return lh_cli_usage(verb, "'%s' needs a value", shown);
	case OPT_NODES:
		if (strcmp(optarg, "host") == 0 && add_override(o, verb, "run.clock", "real") >= 0)
			return 2;
		return add_override(o, verb, row->key, optarg);
	default:
		if (row && row->key)
			return add_override(o, verb, row->key,
					    id == OPT_COARSE ? "coarse" : optarg);
		return lh_cli_usage(verb, "there is no option '%s'%s", shown,
				    strchr(shown, '=') ? ", or it takes no value" : "");
	}
}

int lh_run_options_parse(struct lh_run_options *o, const char *verb, int argc, char **argv,
			 void (*print_help)(void))
{
	struct option table[N_ROWS + 1];
	int id;

	fill_getopt(table);
	o->repeat = 1;
	optind = 1;
	opterr = 0;
	while ((id = getopt_long(argc, argv, ":", table, NULL)) != -1) {
		int status = take(o, verb, id, argv[optind - 1], print_help);

		if (status >= 0)
			return status;
	}
	if (optind != argc - 1)
		return lh_cli_usage(verb, optind == argc ? "nothing to run was named"
							 : "one thing to run at a time");
	o->target = argv[optind];
	return -1;
}

void lh_run_options_done(struct lh_run_options *o)
{
	for (size_t i = 0; i < o->n_owned; i++)
		free(o->owned[i]);
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
	struct lh_execution ex = {
		.scenario = sc, .out = out, .quiet = o->quiet, .figures = !o->no_figures};
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
		lh_scenario_set_seed(sc, first + n);
		dirs[n] = lh_strf("%s/seed-%lld", chosen, (long long)sc->run.seed);
		status = run_once(o, sc, dirs[n], false);
	}
	if (status == 0)
		status = summarise(o, dirs, (size_t)n, chosen);
	for (int i = 0; i < n; i++)
		free(dirs[i]);
	return status;
}
