/* SPDX-License-Identifier: Apache-2.0 */
/* longhaul reproduce: a suite's experiments, ours beside the published figures. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/execute.h"
#include "cli/reproduce_claims.h"
#include "cli/training.h"
#include "collect/reproduce.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "core/log.h"

struct options {
	const char *out;
	bool json;
	bool all;
	bool coarse;
};

static void print_help(void)
{
	printf("Usage: longhaul reproduce [OPTION...] SUITE [ID...]\n\n"
	       "Runs the named experiments of a suite (all that have published figures, where none "
	       "is\n"
	       "named) and prints ours beside the published figure with its error, and bias and\n"
	       "median error per model. The published figures are shown with their source, never\n"
	       "used.\n\n"
	       "  --out DIR   keep the results folders here (reproduce/SUITE); an experiment that\n"
	       "              is there already, unchanged, is not run again\n"
	       "  --json      print an object with `experiments` and `bias`\n"
	       "  --all       also the experiments without published figures\n"
	       "  --coarse    large packets: faster\n"
	       "  --help      this text\n");
}

/* Parses; -1 to go on, or the exit status. */
static int parse(struct options *o, int argc, char **argv)
{
	static const struct option table[] = {
		{"out", required_argument, NULL, 'o'}, {"json", no_argument, NULL, 'j'},
		{"all", no_argument, NULL, 'a'},       {"coarse", no_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'},      {NULL, 0, NULL, 0},
	};
	int id;

	optind = 1;
	opterr = 0;
	while ((id = getopt_long(argc, argv, "", table, NULL)) != -1) {
		switch (id) {
		case 'o':
			o->out = optarg;
			break;
		case 'j':
			o->json = true;
			break;
		case 'a':
			o->all = true;
			break;
		case 'c':
			o->coarse = true;
			break;
		case 'h':
			print_help();
			return 0;
		default:
			return lh_cli_usage("reproduce", "wrong option or value: '%s'",
					    argv[optind - 1]);
		}
	}
	return optind < argc ? -1 : lh_cli_usage("reproduce", "names no suite");
}

static const struct lh_experiment *find(const struct lh_suite *suite, const char *id)
{
	for (size_t i = 0; i < suite->n_experiments; i++)
		if (strcmp(suite->experiments[i].id, id) == 0)
			return &suite->experiments[i];
	return NULL;
}

/* Whether a claim or the sweep needs the experiment. */
static bool speaks_to_claims(const struct lh_suite *suite, const char *id)
{
	const struct lh_sweep *sweep = &suite->sweep;

	for (size_t i = 0; i < suite->n_claims; i++)
		for (size_t p = 0; p < suite->claims[i].n_pairs; p++) {
			const struct lh_claim_pair *pair = &suite->claims[i].pairs[p];

			if (strcmp(pair->of, id) == 0 ||
			    (pair->against && strcmp(pair->against, id) == 0))
				return true;
		}
	for (size_t p = 0; p < sweep->n_points; p++)
		if (strcmp(sweep->points[p].run, id) == 0)
			return true;
	return sweep->against && strcmp(sweep->against, id) == 0;
}

/* Chooses what to run: the named ones, or all with published figures or that claims need. Owned by
 * the caller. */
static const struct lh_experiment **choose(const struct lh_suite *suite, const struct options *o,
					   char **ids, size_t n_ids, size_t *ret_n)
{
	const struct lh_experiment **list = calloc(suite->n_experiments + n_ids, sizeof(*list));
	size_t n = 0;

	for (size_t i = 0; list && i < n_ids; i++) {
		list[n] = find(suite, ids[i]);
		if (!list[n++]) {
			lh_cli_usage("reproduce", "suite %s has no experiment '%s' (longhaul list)",
				     suite->name, ids[i]);
			free(list);
			return NULL;
		}
	}
	for (size_t i = 0; list && !n_ids && i < suite->n_experiments; i++)
		if (o->all || suite->experiments[i].published.throughput_sps >= 0 ||
		    speaks_to_claims(suite, suite->experiments[i].id))
			list[n++] = &suite->experiments[i];
	*ret_n = n;
	return list;
}

/* Reads the results of an earlier call: true where the same scenario was run to the end. */
static bool read_earlier(const char *dir, const struct lh_scenario *sc, struct lh_results *ret)
{
	struct lh_scenario *earlier = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	bool same = lh_cli_read_run(dir, &earlier, NULL, &diag, &err) == 0 &&
		    json_equal(earlier->resolved, sc->resolved) &&
		    lh_collect_run(dir, sc, ret, &err) == 0;

	if (same && ret->summary.n_epochs < ret->summary.n_epochs_asked) {
		lh_results_done(ret);
		same = false;
	}
	lh_scenario_free(earlier);
	lh_diag_done(&diag);
	return same;
}

/* Runs one experiment; model is owned by the caller. Returns an exit status: 0 or 6 go on. */
static int run_one(const struct options *o, const char *out, struct lh_reproduce_run *run,
		   struct lh_claim_run *claim_run, char **ret_model)
{
	static const struct lh_override coarse[] = {{"run.segments", "coarse"}};
	lh_cleanup_free char *dir = lh_path_join(out, run->id);
	struct lh_scenario *sc = NULL;
	struct lh_results results;
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	bool has_results = false;
	int status = 0;
	int r = lh_scenario_read(run->id, lh_cli_catalog_dir(), coarse, o->coarse, &sc, &diag,
				 &err);

	if (r == 0)
		r = lh_cli_check_training(sc, &diag, &err);
	if (r == 0) {
		struct lh_execution ex = {.scenario = sc,
					  .out = dir,
					  .quiet = true,
					  .stuck_after_ns = LH_STUCK_AFTER_NS};

		*ret_model = strdup(sc->workload.model ? sc->workload.model : "a command");
		run->model = *ret_model;
		has_results = lh_path_exists(dir) && read_earlier(dir, sc, &results);
		lh_log(LH_LOG_INFO, "%s%s", run->id, has_results ? ": there already" : "");
		if (!has_results)
			r = lh_execute(&ex, &results, &has_results, &err);
	}
	if (has_results) {
		lh_cli_claim_run_fill(sc, &results, claim_run);
		run->is_valid = results.is_valid;
		run->throughput_sps = results.summary.throughput_sps;
		run->granularity = results.summary.granularity;
		run->comm_s = results.summary.communication_s;
		lh_results_done(&results);
	}
	if (r < 0)
		status = lh_cli_fail(&diag, &err);
	lh_scenario_free(sc);
	lh_diag_done(&diag);
	return status;
}

static int report_figures(const struct lh_reproduce_run *runs, size_t n, const struct options *o)
{
	struct lh_reproduce rep;
	struct lh_error err = {0};
	lh_cleanup_free char *table = NULL;
	lh_cleanup_free char *bias = NULL;

	if (lh_reproduce_compare(runs, n, &rep, &err) < 0)
		return lh_cli_fail(NULL, &err);
	if (o->json) {
		json_dumpf(rep.json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
		putchar('\n');
	} else if (lh_table_format_text(&rep.table, lh_cli_width(), &table, &err) == 0 &&
		   lh_table_format_text(&rep.bias, lh_cli_width(), &bias, &err) == 0) {
		printf("%s\n%s", table, bias);
	}
	lh_reproduce_done(&rep);
	return 0;
}

static int reproduce(const struct options *o, const struct lh_suite *suite,
		     const struct lh_experiment **list, size_t n)
{
	lh_cleanup_free char *out = o->out ? strdup(o->out) : lh_strf("reproduce/%s", suite->name);
	lh_cleanup_free struct lh_reproduce_run *runs = calloc(n, sizeof(*runs));
	lh_cleanup_free struct lh_claim_run *claim_runs = calloc(n, sizeof(*claim_runs));
	lh_cleanup_free char **models = calloc(n, sizeof(*models));
	int worst = 0, status = 0;

	if (!out || !runs || !claim_runs || !models)
		return 1;
	for (size_t i = 0; i < n; i++) {
		runs[i] = (struct lh_reproduce_run){.id = list[i]->id,
						    .model = "",
						    .throughput_sps = NAN,
						    .granularity = NAN,
						    .comm_s = NAN,
						    .published = list[i]->published};
		claim_runs[i] = (struct lh_claim_run){.id = list[i]->id};
		status = run_one(o, out, &runs[i], &claim_runs[i], &models[i]);
		worst = status > worst ? status : worst;
		if (status && status != 6 && status != 1)
			break;
	}
	if (status == 0 || status == 6 || status == 1)
		status = suite->n_claims ? lh_cli_report_claims(suite, claim_runs, n, out, o->json)
					 : report_figures(runs, n, o);
	for (size_t i = 0; i < n; i++)
		free(models[i]);
	return worst ? worst : status;
}

int lh_cmd_reproduce(int argc, char **argv)
{
	struct options o = {0};
	struct lh_suite *suite = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	const struct lh_experiment **list;
	size_t n = 0;
	int status = parse(&o, argc, argv);

	if (status >= 0)
		return status;
	status = 2;
	if (lh_suite_read(argv[optind], lh_cli_catalog_dir(), &suite, &diag, &err) < 0) {
		status = lh_cli_fail(&diag, &err);
		lh_diag_done(&diag);
		return status;
	}
	list = choose(suite, &o, argv + optind + 1, (size_t)(argc - optind - 1), &n);
	if (list)
		status = reproduce(&o, suite, list, n);
	free(list);
	lh_suite_free(suite);
	lh_diag_done(&diag);
	return status;
}
