/* SPDX-License-Identifier: Apache-2.0 */
/* longhaul verify: builds a network, measures every path, says where it misses. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/execute.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/verify.h"

enum {
	OVERRIDES_MAX = 64,
	OUTS_MAX = 10000,
	SHOWN_MAX = 20, /* rows of one property before the rest is only counted */
};

struct options {
	const char *target;
	const char *out;
	struct lh_override overrides[OVERRIDES_MAX];
	size_t n_overrides;
	char *owned[OVERRIDES_MAX];
	size_t n_owned;
	long sample;
	bool json;
	bool quiet;
};

static const struct option table[] = {
	{"out", required_argument, NULL, 'o'},
	{"sample", required_argument, NULL, 'n'},
	{"set", required_argument, NULL, 's'},
	{"seed", required_argument, NULL, 'e'},
	{"clock", required_argument, NULL, 'c'},
	{"backend", required_argument, NULL, 'b'},
	{"nodes", required_argument, NULL, 'N'},
	{"json", no_argument, NULL, 'j'},
	{"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
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
	       "is judged so that a right network fails once in a thousand proofs.\n\n"
	       "  --out DIR            results folder (results/verify-NAME); it must not exist\n"
	       "  --sample N           N pairs of nodes, drawn by the seed, in place of all\n"
	       "  --set PATH=VALUE     change a key: --set network.paths.0.loss='1 %%'\n"
	       "  --seed N             seed of everything random\n"
	       "  --clock C            virtual or real\n"
	       "  --backend B          auto, host or guest\n"
	       "  --nodes W            where nodes are: guest, or host, by the real clock\n"
	       "  --json               print verify.json\n"
	       "  --quiet              no progress\n"
	       "  --help               this text\n\n"
	       "Exit status: 0 all is as asked for, 6 something is not, or this machine is not "
	       "fit to\n"
	       "tell.\n");
}

static int add_override(struct options *o, const char *path, const char *value)
{
	if (o->n_overrides == OVERRIDES_MAX)
		return lh_cli_usage("verify", "more than %d changes", OVERRIDES_MAX);
	o->overrides[o->n_overrides++] = (struct lh_override){path, value};
	return -1;
}

static int add_set(struct options *o, const char *arg)
{
	const char *equals = strchr(arg, '=');
	char *path;

	if (!equals || equals == arg)
		return lh_cli_usage("verify", "--set takes PATH=VALUE, not '%s'", arg);
	if (o->n_owned == OVERRIDES_MAX || !(path = strndup(arg, (size_t)(equals - arg))))
		return lh_cli_usage("verify", "more than %d changes", OVERRIDES_MAX);
	o->owned[o->n_owned++] = path;
	return add_override(o, path, equals + 1);
}

static int set_sample(struct options *o, const char *arg)
{
	char *end;

	o->sample = strtol(arg, &end, 10);
	if (*end || end == arg || o->sample < 1)
		return lh_cli_usage("verify", "--sample takes a number of at least 1, not '%s'",
				    arg);
	return -1;
}

/* Takes one option; -1 to go on, else the exit status. */
static int take(struct options *o, int id, const char *shown)
{
	switch (id) {
	case 'o':
		o->out = optarg;
		return -1;
	case 'n':
		return set_sample(o, optarg);
	case 's':
		return add_set(o, optarg);
	case 'e':
		return add_override(o, "run.seed", optarg);
	case 'c':
		return add_override(o, "run.clock", optarg);
	case 'b':
		return add_override(o, "run.backend", optarg);
	case 'N':
		if (strcmp(optarg, "host") == 0 && add_override(o, "run.clock", "real") >= 0)
			return 2;
		return add_override(o, "run.nodes", optarg);
	case 'j':
		o->json = true;
		return -1;
	case 'q':
		o->quiet = true;
		return -1;
	case 'h':
		print_help();
		return 0;
	case ':':
		return lh_cli_usage("verify", "'%s' needs a value", shown);
	default:
		return lh_cli_usage("verify", "there is no option '%s'", shown);
	}
}

static int parse(struct options *o, int argc, char **argv)
{
	int id;

	optind = 1;
	opterr = 0;
	while ((id = getopt_long(argc, argv, ":", table, NULL)) != -1) {
		int status = take(o, id, argv[optind - 1]);

		if (status >= 0)
			return status;
	}
	if (optind != argc - 1)
		return lh_cli_usage("verify", optind == argc ? "no network or scenario was named"
							     : "one network or scenario at a time");
	o->target = argv[optind];
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
	char *out = lh_strf("results/verify-%s", sc->name);

	for (int i = 2; out && i < OUTS_MAX && lh_path_exists(out); i++) {
		free(out);
		out = lh_strf("results/verify-%s-%d", sc->name, i);
	}
	return out;
}

static int verify(const struct options *o, const struct lh_scenario *sc)
{
	lh_cleanup_free char *out = o->out ? strdup(o->out) : default_out(sc);
	struct lh_execution ex = {.scenario = sc,
				  .out = out,
				  .quiet = o->quiet,
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
	struct options o = {0};
	struct lh_scenario *sc = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	int status = parse(&o, argc, argv);

	if (status < 0) {
		int r = lh_scenario_read_network(o.target, lh_cli_catalog_dir(), o.overrides,
						 o.n_overrides, &sc, &diag, &err);

		status = r < 0 ? lh_cli_fail(&diag, &err) : verify(&o, sc);
		lh_scenario_free(sc);
		lh_diag_done(&diag);
	}
	for (size_t i = 0; i < o.n_owned; i++)
		free(o.owned[i]);
	return status;
}
