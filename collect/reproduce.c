/* SPDX-License-Identifier: Apache-2.0 */
/* Ours beside the published figures. See reproduce.h. */
#include "collect/reproduce.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collect/stats.h"
#include "core/cleanup.h"

static const struct lh_column columns_of_experiments[] = {
	{"id", "experiment", LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"model", NULL, LH_CELL_TEXT, 0, 0, 8},
	{"throughput_sps", "SPS", LH_CELL_REAL, 3, 1, LH_COLUMN_KEEP},
	{"published_throughput_sps", "published", LH_CELL_REAL, 3, 1, LH_COLUMN_KEEP},
	{"throughput_error_percent", "error %", LH_CELL_REAL, 2, 1, LH_COLUMN_KEEP},
	{"granularity", NULL, LH_CELL_REAL, 4, 2, 3},
	{"published_granularity", "published", LH_CELL_REAL, 4, 2, 3},
	{"comm_s", "comm s", LH_CELL_REAL, 6, 2, 2},
	{"published_comm_s", "published", LH_CELL_REAL, 3, 2, 2},
	{"valid", NULL, LH_CELL_INT, 0, 0, 1},
	{"published_source", "source of the published figures", LH_CELL_TEXT, 0, 0, 9},
};

static const struct lh_column columns_of_bias[] = {
	{"model", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"metric", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"n", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_KEEP},
	{"mean_bias_percent", "mean bias %", LH_CELL_REAL, 3, 1, LH_COLUMN_KEEP},
	{"median_abs_error_percent", "median |error| %", LH_CELL_REAL, 3, 1, LH_COLUMN_KEEP},
	{"max_abs_error_percent", "max |error| %", LH_CELL_REAL, 3, 1, LH_COLUMN_KEEP},
};

enum { N_METRICS = 3 };

static const char *const metric_names[N_METRICS] = {"throughput_sps", "granularity", "comm_s"};

static double ours_of(const struct lh_reproduce_run *run, int metric)
{
	const double values[N_METRICS] = {run->throughput_sps, run->granularity, run->comm_s};

	return values[metric];
}

/* NaN where nothing was published. */
static double published_of(const struct lh_reproduce_run *run, int metric)
{
	const double values[N_METRICS] = {run->published.throughput_sps, run->published.granularity,
					  run->published.comm_s};

	return values[metric] > 0 ? values[metric] : NAN;
}

static double error_ratio_of(const struct lh_reproduce_run *run, int metric)
{
	return ours_of(run, metric) / published_of(run, metric) - 1;
}

static void put_run(struct lh_table *table, const struct lh_reproduce_run *run)
{
	lh_table_row(table);
	lh_table_put_text(table, run->id);
	lh_table_put_text(table, run->model);
	lh_table_put_real(table, ours_of(run, 0));
	lh_table_put_real(table, published_of(run, 0));
	lh_table_put_real(table, error_ratio_of(run, 0) * 100);
	for (int m = 1; m < N_METRICS; m++) {
		lh_table_put_real(table, ours_of(run, m));
		lh_table_put_real(table, published_of(run, m));
	}
	lh_table_put_int(table, run->is_valid);
	lh_table_put_text(table, run->published.source);
}

/* The experiment as an object: published twins only where they are known. */
static json_t *run_json(const struct lh_reproduce_run *run)
{
	json_t *object = json_pack("{s:s, s:s*, s:b}", "id", run->id, "model", run->model, "valid",
				   (int)run->is_valid);

	for (int m = 0; object && m < N_METRICS; m++) {
		char name[64] = "published_";
		double ours = ours_of(run, m), published = published_of(run, m);

		strncat(name, metric_names[m], sizeof(name) - strlen(name) - 1);
		json_object_set_new(object, metric_names[m],
				    isfinite(ours) ? json_real(ours) : json_null());
		if (isfinite(published))
			json_object_set_new(object, name, json_real(published));
	}
	if (object && run->published.source)
		json_object_set_new(object, "published_source", json_string(run->published.source));
	return object;
}

/* Bias of one metric over the valid runs of a model (NULL: all), to the table and to json. */
static void put_bias(struct lh_reproduce *report, const struct lh_reproduce_run *runs,
		     size_t n_runs, const char *model, int metric, double *scratch)
{
	const char *key = model ? model : "all";
	json_t *bias = json_object_get(report->json, "bias");
	json_t *of_model = json_object_get(bias, key);
	double sum = 0, mean, median;
	size_t n = 0;

	for (size_t i = 0; i < n_runs; i++) {
		double e = error_ratio_of(&runs[i], metric);

		if (!isfinite(e) || !runs[i].is_valid ||
		    (model && (!runs[i].model || strcmp(model, runs[i].model) != 0)))
			continue;
		sum += e;
		scratch[n++] = fabs(e);
	}
	if (!n)
		return;
	mean = sum / (double)n;
	median = lh_stats_median(scratch, n);
	lh_table_row(&report->bias);
	lh_table_put_text(&report->bias, key);
	lh_table_put_text(&report->bias, metric_names[metric]);
	lh_table_put_int(&report->bias, (int64_t)n);
	lh_table_put_real(&report->bias, mean * 100);
	lh_table_put_real(&report->bias, median * 100);
	lh_table_put_real(&report->bias, scratch[n - 1] * 100);
	if (!of_model) {
		json_object_set_new(bias, key, json_object());
		of_model = json_object_get(bias, key);
	}
	json_object_set_new(of_model, metric_names[metric],
			    json_pack("{s:I, s:f, s:f, s:f}", "n", (json_int_t)n, "mean_bias_ratio",
				      mean, "median_abs_error_ratio", median, "max_abs_error_ratio",
				      scratch[n - 1]));
}

/* Whether a run before the i-th has the same model. */
static bool is_repeated(const struct lh_reproduce_run *runs, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (runs[j].model && strcmp(runs[j].model, runs[i].model) == 0)
			return true;
	return false;
}

int lh_reproduce_compare(const struct lh_reproduce_run *runs, size_t n_runs,
			 struct lh_reproduce *ret_report, struct lh_error *err)
{
	lh_cleanup_free double *scratch = calloc(n_runs + 1, sizeof(*scratch));
	struct lh_reproduce report = {0};
	json_t *experiments;

	lh_table_init(&report.table, columns_of_experiments,
		      sizeof(columns_of_experiments) / sizeof(columns_of_experiments[0]));
	lh_table_init(&report.bias, columns_of_bias,
		      sizeof(columns_of_bias) / sizeof(columns_of_bias[0]));
	report.json = json_pack("{s:[], s:{}}", "experiments", "bias");
	experiments = json_object_get(report.json, "experiments");
	if (!scratch || !experiments)
		goto no_memory;
	for (size_t i = 0; i < n_runs; i++) {
		put_run(&report.table, &runs[i]);
		if (json_array_append_new(experiments, run_json(&runs[i])) < 0)
			goto no_memory;
	}
	for (size_t i = 0; i < n_runs; i++)
		for (int m = 0; m < N_METRICS; m++)
			if (runs[i].model && !is_repeated(runs, i))
				put_bias(&report, runs, n_runs, runs[i].model, m, scratch);
	for (int m = 0; m < N_METRICS; m++)
		put_bias(&report, runs, n_runs, NULL, m, scratch);
	if (lh_table_check(&report.table, NULL) < 0 || lh_table_check(&report.bias, NULL) < 0)
		goto no_memory;
	*ret_report = report;
	return 0;
no_memory:
	lh_reproduce_done(&report);
	return lh_fail(err, LH_ESYS, ENOMEM, "compare %zu experiments", n_runs);
}

void lh_reproduce_done(struct lh_reproduce *report)
{
	lh_table_done(&report->table);
	lh_table_done(&report->bias);
	json_decref(report->json);
	report->json = NULL;
}
