/* SPDX-License-Identifier: Apache-2.0 */
/* One scenario, several seeds: means and intervals. See lh_collect_repeat in collect.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collect/collect.h"
#include "collect/csv.h"
#include "collect/stats.h"
#include "core/cleanup.h"
#include "core/file.h"

/* The metrics: columns of throughput.csv, then columns of the totals of cost.csv. */
static const char *const run_metrics[] = {
	"throughput_sps", "local_sps", "calculation_s",	       "communication_s", "matchmaking_s",
	"granularity",	  "speedup",   "contribution_per_gpu", "wall_s",
};
static const char *const cost_metrics[] = {
	"spot_usd_per_hour",
	"spot_usd_per_million_samples",
	"on-demand_usd_per_hour",
	"on-demand_usd_per_million_samples",
};

enum {
	N_RUN_METRICS = sizeof(run_metrics) / sizeof(run_metrics[0]),
	N_COST_METRICS = sizeof(cost_metrics) / sizeof(cost_metrics[0]),
	N_METRICS = N_RUN_METRICS + N_COST_METRICS,
};

static const struct lh_column columns_of_repeat[] = {
	{"metric", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"n", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_KEEP},
	{"mean", NULL, LH_CELL_REAL, 6, 3, LH_COLUMN_KEEP},
	{"sd", NULL, LH_CELL_REAL, 6, 3, LH_COLUMN_KEEP},
	{"ci95_low", "95 % low", LH_CELL_REAL, 6, 3, 1},
	{"ci95_high", "95 % high", LH_CELL_REAL, 6, 3, 1},
};

/* Values of one metric over the runs that know it. */
struct series {
	double *values;
	size_t n;
};

static void add_value(struct series *series, double value)
{
	if (isfinite(value))
		series->values[series->n++] = value;
}

static int read_throughput(const char *path, struct series *series, char **scenario,
			   struct lh_error *err)
{
	lh_cleanup_csv struct lh_csv csv = {0};
	int column, r = lh_csv_open(path, &csv, err);
	static const char *const name_of_scenario = "scenario";

	if (r == 0)
		r = lh_csv_find_all(&csv, &name_of_scenario, 1, &column, err);
	if (r < 0)
		return r;
	r = lh_csv_next(&csv, err);
	if (r < 0)
		return r;
	if (r == 0)
		return lh_fail(err, LH_EINPUT, 0, "%s: no row", path);
	if (!*scenario && !(*scenario = strdup(csv.cells[column])))
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", path);
	if (strcmp(*scenario, csv.cells[column]) != 0)
		return lh_fail(err, LH_EINPUT, 0, "%s: a run of %s; expected %s, as the first one",
			       path, csv.cells[column], *scenario);
	for (size_t m = 0; m < N_RUN_METRICS; m++) {
		double value;

		r = lh_csv_real(&csv, lh_csv_find(&csv, run_metrics[m]), &value, err);
		if (r < 0)
			return r;
		add_value(&series[m], value);
	}
	return 0;
}

/* Reads the two figures of a scope's total into its pair of series. */
static int read_total(const struct lh_csv *csv, const int *columns, struct series *series,
		      struct lh_error *err)
{
	size_t base = strcmp(csv->cells[columns[0]], "spot") == 0 ? 0 : 2;

	if (strcmp(csv->cells[columns[1]], "total") != 0)
		return 0;
	for (size_t i = 0; i < 2; i++) {
		double value;
		int r = lh_csv_real(csv, columns[2 + i], &value, err);

		if (r < 0)
			return r;
		add_value(&series[N_RUN_METRICS + base + i], value);
	}
	return 0;
}

static int read_cost(const char *path, struct series *series, struct lh_error *err)
{
	static const char *const names[] = {"scope", "item", "usd_per_hour",
					    "usd_per_million_samples"};
	lh_cleanup_csv struct lh_csv csv = {0};
	int columns[4];
	int r = lh_csv_open(path, &csv, err);

	if (r == 0)
		r = lh_csv_find_all(&csv, names, 4, columns, err);
	while (r == 0 && (r = lh_csv_next(&csv, err)) > 0)
		r = read_total(&csv, columns, series, err);
	return r;
}

static int read_run(const char *run_dir, struct series *series, char **scenario,
		    struct lh_error *err)
{
	lh_cleanup_free char *throughput = lh_path_join(run_dir, "throughput.csv");
	lh_cleanup_free char *cost = lh_path_join(run_dir, "cost.csv");
	int r;

	if (!throughput || !cost)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", run_dir);
	r = read_throughput(throughput, series, scenario, err);
	if (r < 0 || !lh_path_exists(cost))
		return r;
	return read_cost(cost, series, err);
}

static void put_series(struct lh_table *table, const char *metric, const struct series *series)
{
	struct lh_sample_stats s = lh_stats_of(series->values, series->n);

	if (!series->n)
		return;
	lh_table_row(table);
	lh_table_put_text(table, metric);
	lh_table_put_int(table, (int64_t)s.n);
	lh_table_put_real(table, s.mean);
	lh_table_put_real(table, s.sd);
	lh_table_put_real(table, s.ci95_low);
	lh_table_put_real(table, s.ci95_high);
}

int lh_collect_repeat(const char *const *run_dirs, size_t n_run_dirs, const char *path,
		      struct lh_table *ret_table, struct lh_error *err)
{
	lh_cleanup_free double *values = calloc(n_run_dirs * N_METRICS + 1, sizeof(*values));
	lh_cleanup_free char *scenario = NULL;
	struct series series[N_METRICS];
	struct lh_table table;
	int r = 0;

	if (!values)
		return lh_fail(err, LH_ESYS, ENOMEM, "compare %zu runs", n_run_dirs);
	for (size_t m = 0; m < N_METRICS; m++)
		series[m] = (struct series){values + m * n_run_dirs, 0};
	for (size_t i = 0; i < n_run_dirs && r == 0; i++)
		r = read_run(run_dirs[i], series, &scenario, err);
	if (r < 0)
		return r;
	lh_table_init(&table, columns_of_repeat,
		      sizeof(columns_of_repeat) / sizeof(columns_of_repeat[0]));
	for (size_t m = 0; m < N_METRICS; m++)
		put_series(&table,
			   m < N_RUN_METRICS ? run_metrics[m] : cost_metrics[m - N_RUN_METRICS],
			   &series[m]);
	r = lh_table_write_csv(&table, path, err);
	if (r < 0) {
		lh_table_done(&table);
		return r;
	}
	*ret_table = table;
	return 0;
}
