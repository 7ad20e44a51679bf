/* SPDX-License-Identifier: Apache-2.0 */
/* Claims beside what came of experiments. See claims.h. */
#include "collect/claims.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"

/* ---- measures ----------------------------------------------------------------------------- */

static double speed_up(const struct lh_claim_run *of, const struct lh_claim_run *against)
{
	return of->throughput_sps / against->throughput_sps;
}

static double faster_percent(const struct lh_claim_run *of, const struct lh_claim_run *against)
{
	return 100 * (speed_up(of, against) - 1);
}

static double cost_reduction_percent(const struct lh_claim_run *of,
				     const struct lh_claim_run *against)
{
	return 100 * (1 - of->cost_usd / against->cost_usd);
}

static double accuracy_gain_points(const struct lh_claim_run *of,
				   const struct lh_claim_run *against)
{
	return 100 * (of->test_accuracy - against->test_accuracy);
}

static double throughput_of(const struct lh_claim_run *of, const struct lh_claim_run *against)
{
	(void)against;
	return of->throughput_sps;
}

static double accuracy_percent(const struct lh_claim_run *of, const struct lh_claim_run *against)
{
	(void)against;
	return 100 * of->test_accuracy;
}

static double wall_of(const struct lh_claim_run *of, const struct lh_claim_run *against)
{
	(void)against;
	return of->wall_s;
}

const struct lh_measure lh_measures[] = {
	{"speed-up", "throughput over the other's", "x", 2, true, speed_up},
	{"faster", "throughput above the other's", "%", 1, true, faster_percent},
	{"cost-reduction", "cost below the other's", "%", 1, true, cost_reduction_percent},
	{"accuracy-gain", "test accuracy minus the other's", "points", 2, true,
	 accuracy_gain_points},
	{"throughput", "samples per second", "samples/s", 1, false, throughput_of},
	{"accuracy", "test accuracy", "%", 2, false, accuracy_percent},
	{"wall", "time of all epochs", "s", 1, false, wall_of},
	{NULL, NULL, NULL, 0, false, NULL},
};

static const struct lh_measure *find_measure(const char *name)
{
	const struct lh_measure *measure = lh_measures;

	while (measure->name && strcmp(measure->name, name) != 0)
		measure++;
	return measure;
}

/* ---- values ------------------------------------------------------------------------------- */

static const struct lh_claim_run *find_run(const struct lh_claim_run *runs, size_t n,
					   const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (id && runs[i].is_valid && strcmp(runs[i].id, id) == 0)
			return &runs[i];
	return NULL;
}

/* NaN where a run is missing or not valid. */
static double value_of(const struct lh_measure *measure, const struct lh_claim_run *runs, size_t n,
		       const char *of, const char *against)
{
	const struct lh_claim_run *a = find_run(runs, n, of);
	const struct lh_claim_run *b = find_run(runs, n, against);

	return measure->name && a && (b || !measure->compares) ? measure->compute(a, b) : NAN;
}

/* Ours of one claim. */
struct range {
	double least; /* NaN: there is none */
	double most;
	size_t n;
};

static void extend(struct range *range, double value)
{
	if (!isfinite(value))
		return;
	range->least = range->n ? fmin(range->least, value) : value;
	range->most = range->n ? fmax(range->most, value) : value;
	range->n++;
}

static double known_or_nan(double published)
{
	return published >= 0 ? published : NAN;
}

/* Whether ours lies within what was published, as far as that is told: 1, 0; -1: nothing is. */
static int is_within(const struct lh_claim *claim, const struct range *ours)
{
	if (!ours->n || (claim->least < 0 && claim->most < 0))
		return -1;
	return (claim->least < 0 || ours->least >= claim->least) &&
	       (claim->most < 0 || ours->most <= claim->most);
}

/* ---- tables ------------------------------------------------------------------------------- */

static const struct lh_column columns_of_claims[] = {
	{"claim", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"status", NULL, LH_CELL_TEXT, 0, 0, 2},
	{"measure", NULL, LH_CELL_TEXT, 0, 0, 4},
	{"unit", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"published_least", "published from", LH_CELL_REAL, 4, 2, LH_COLUMN_KEEP},
	{"published_most", "to", LH_CELL_REAL, 4, 2, LH_COLUMN_KEEP},
	{"least", "ours from", LH_CELL_REAL, 4, 2, LH_COLUMN_KEEP},
	{"most", "to", LH_CELL_REAL, 4, 2, LH_COLUMN_KEEP},
	{"pairs", NULL, LH_CELL_INT, 0, 0, 5},
	{"within", NULL, LH_CELL_TEXT, 0, 0, 3},
	{"text", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_HIDE},
	{"source", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_HIDE},
};

static const struct lh_column columns_of_pairs[] = {
	{"claim", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"of", "experiment", LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"against", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"value", NULL, LH_CELL_REAL, 4, 2, LH_COLUMN_KEEP},
	{"unit", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
};

static const struct lh_column columns_of_unknown[] = {
	{"setting", "not known", LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"ours", "here", LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
};

static const struct lh_column columns_of_sweep[] = {
	{"series", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"at", NULL, LH_CELL_REAL, 3, 0, LH_COLUMN_KEEP},
	{"run", "experiment", LH_CELL_TEXT, 0, 0, 1},
	{"speedup", "speed-up", LH_CELL_REAL, 4, 2, LH_COLUMN_KEEP},
	{"test_accuracy", "test acc", LH_CELL_REAL, 6, 4, LH_COLUMN_KEEP},
};

#define INIT(table, columns) lh_table_init(table, columns, sizeof(columns) / sizeof((columns)[0]))

static void put_claim(struct lh_table *table, const struct lh_claim *claim,
		      const struct lh_measure *measure, const struct range *ours)
{
	int within = is_within(claim, ours);

	lh_table_row(table);
	lh_table_put_text(table, claim->id);
	lh_table_put_text(table, claim->status);
	lh_table_put_text(table, claim->measure);
	lh_table_put_text(table, measure->unit);
	lh_table_put_real(table, known_or_nan(claim->least));
	lh_table_put_real(table, known_or_nan(claim->most));
	lh_table_put_real(table, ours->least);
	lh_table_put_real(table, ours->most);
	lh_table_put_int(table, (int64_t)ours->n);
	lh_table_put_text(table, within < 0 ? NULL : within ? "yes" : "no");
	lh_table_put_text(table, claim->claim);
	lh_table_put_text(table, claim->source);
}

static void compare_claim(struct lh_claims_report *report, const struct lh_claim *claim,
			  const struct lh_claim_run *runs, size_t n_runs)
{
	const struct lh_measure *measure = find_measure(claim->measure);
	struct range ours = {NAN, NAN, 0};

	for (size_t i = 0; i < claim->n_pairs; i++) {
		const struct lh_claim_pair *pair = &claim->pairs[i];
		double value = value_of(measure, runs, n_runs, pair->of, pair->against);

		extend(&ours, value);
		lh_table_row(&report->pairs);
		lh_table_put_text(&report->pairs, claim->id);
		lh_table_put_text(&report->pairs, pair->of);
		lh_table_put_text(&report->pairs, pair->against);
		lh_table_put_real(&report->pairs, value);
		lh_table_put_text(&report->pairs, measure->unit);
	}
	put_claim(&report->claims, claim, measure, &ours);
}

static void fill_sweep(struct lh_table *table, const struct lh_sweep *sweep,
		       const struct lh_claim_run *runs, size_t n_runs)
{
	for (size_t i = 0; i < sweep->n_points; i++) {
		const struct lh_sweep_point *point = &sweep->points[i];
		const struct lh_claim_run *run = find_run(runs, n_runs, point->run);

		lh_table_row(table);
		lh_table_put_text(table, point->series);
		lh_table_put_real(table, point->at);
		lh_table_put_text(table, point->run);
		lh_table_put_real(table, value_of(&lh_measures[0], runs, n_runs, point->run,
						  sweep->against));
		lh_table_put_real(table, run ? run->test_accuracy : NAN);
	}
}

int lh_claims_compare(const struct lh_suite *suite, const struct lh_claim_run *runs, size_t n_runs,
		      struct lh_claims_report *ret_report, struct lh_error *err)
{
	struct lh_claims_report report = {0};

	INIT(&report.claims, columns_of_claims);
	INIT(&report.pairs, columns_of_pairs);
	INIT(&report.unknown, columns_of_unknown);
	INIT(&report.sweep, columns_of_sweep);
	for (size_t i = 0; i < suite->n_claims; i++)
		compare_claim(&report, &suite->claims[i], runs, n_runs);
	for (size_t i = 0; i < suite->n_unknown; i++) {
		lh_table_row(&report.unknown);
		lh_table_put_text(&report.unknown, suite->unknown[i].setting);
		lh_table_put_text(&report.unknown, suite->unknown[i].ours);
	}
	fill_sweep(&report.sweep, &suite->sweep, runs, n_runs);
	report.json = json_pack("{s:o*, s:o*, s:o*, s:o*}", "claims",
				lh_table_format_json(&report.claims), "pairs",
				lh_table_format_json(&report.pairs), "unknown",
				lh_table_format_json(&report.unknown), "sweep",
				lh_table_format_json(&report.sweep));
	if (json_object_size(report.json) != 4 || lh_table_check(&report.claims, NULL) < 0 ||
	    lh_table_check(&report.pairs, NULL) < 0 || lh_table_check(&report.unknown, NULL) < 0 ||
	    lh_table_check(&report.sweep, NULL) < 0) {
		lh_claims_done(&report);
		return lh_fail(err, LH_ESYS, ENOMEM, "compare claims");
	}
	*ret_report = report;
	return 0;
}

void lh_claims_done(struct lh_claims_report *report)
{
	lh_table_done(&report->claims);
	lh_table_done(&report->pairs);
	lh_table_done(&report->unknown);
	lh_table_done(&report->sweep);
	json_decref(report->json);
	report->json = NULL;
}

static const struct lh_table *unless_empty(const struct lh_table *table)
{
	return table->n_rows ? table : NULL;
}

int lh_claims_write(const struct lh_claims_report *report, const char *dir, struct lh_error *err)
{
	const struct lh_table_file files[] = {
		{"claims.csv", unless_empty(&report->claims)},
		{"claim-pairs.csv", unless_empty(&report->pairs)},
		{"unknown.csv", unless_empty(&report->unknown)},
		{"sweep.csv", unless_empty(&report->sweep)},
	};

	return lh_table_write_all(files, sizeof(files) / sizeof(files[0]), dir, err);
}

int lh_claims_format(const struct lh_suite *suite, const struct lh_claims_report *report,
		     size_t width, char **ret_text, struct lh_error *err)
{
	const struct lh_table *tables[] = {&report->claims, &report->pairs, &report->sweep,
					   &report->unknown};
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	int r = 0;

	if (!f)
		return lh_fail(err, LH_ESYS, errno, "format claims");
	for (size_t i = 0; i < suite->n_claims; i++)
		fprintf(f, "%s: %s\n  %s (%s)\n", suite->claims[i].id, suite->claims[i].claim,
			suite->claims[i].source, suite->claims[i].status);
	for (size_t i = 0; r == 0 && i < sizeof(tables) / sizeof(tables[0]); i++) {
		lh_cleanup_free char *lines = NULL;

		if (!tables[i]->n_rows)
			continue;
		r = lh_table_format_text(tables[i], width, &lines, err);
		if (r == 0)
			fprintf(f, "\n%s", lines);
	}
	if (fclose(f) != 0 && r == 0)
		r = lh_fail(err, LH_ESYS, ENOMEM, "format claims");
	if (r < 0) {
		free(text);
		return r;
	}
	*ret_text = text;
	return 0;
}
